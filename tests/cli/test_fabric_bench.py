"""headway fabric bench: its document, what it prints and draws, and what it refuses."""

import json
from xml.etree import ElementTree

import pytest

from headway.cli.main import main

SMALL = ("--gpus", "448", "--collective", "multi_all_reduce", "--seeds", "3")


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def _said(capsys, *words):
    assert main(["fabric", "bench", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_document_has_the_median_its_range_and_every_option(capsys):
    found = json.loads(_said(capsys, "--fabric", "dcn+", *SMALL, "--json"))
    low, high = found["busbw_range_gb_s"]
    assert low <= found["busbw_gb_s"] <= high
    assert found["busbw_gb_s"] == pytest.approx(2 * 55 / 56 * 4 * 2**30 / found["seconds"] / 1e9)
    assert (found["connections"], found["ports"], found["split"], found["order"]) == (2, "hash", "equal", "packed")
    assert (found["gpus"], found["hosts"], found["segments"], found["seeds"]) == (448, 56, 4, 3)
    assert " → " in found["slowest_link"]
    assert found["slowest_link"].split(" → ")[0] in found["slowest_way"]
    assert "PFC" in found["not_modelled"]


def test_hpn_selects_disjoint_paths_unless_told_otherwise(capsys):
    chosen, told = (
        json.loads(_said(capsys, *SMALL, *more, "--json")) for more in ((), ("--ports", "hash", "--split", "equal"))
    )
    assert (chosen["ports"], chosen["split"]) == ("disjoint", "least_loaded")
    assert (told["ports"], told["split"]) == ("hash", "equal")
    assert chosen["busbw_gb_s"] > 1.5 * told["busbw_gb_s"]


def test_the_table_says_what_bounds_the_job_and_what_is_not_modelled(capsys):
    out = _said(capsys, "--fabric", "dcn+", *SMALL)
    for text in (
        "multi_all_reduce on dcn+",
        "median of 3 hash seeds",
        "448 GPUs on 56 hosts in 4 segments, 1 job, hosts packed, 4.00 GiB each",
        "2 connections a pair, ports hash, split equal",
        "slowest link",
        "Not modelled: flow control (PFC)",
    ):
        assert text in out


def test_links_are_drawn_as_a_heat_map_within_the_terminal(capsys, tmp_path):
    file = tmp_path / "heat.svg"
    out = _said(capsys, "--fabric", "dcn+", *SMALL, "--links", "--svg", str(file))
    assert max(map(len, out.splitlines())) <= 100
    for text in ("slowest way: host-", "ToRs to Aggs: ", "tor-s0-r0-0 ", "port 1 ", "idle 0▁▂▃▄▅▆▇█ full"):
        assert text in out
    assert "Loads of links: dcn+" in ElementTree.parse(file).getroot()[0].text


def test_hosts_are_taken_in_the_order_of_a_file(capsys, tmp_path):
    file = tmp_path / "order"
    file.write_text("\n".join(map(str, range(55, -1, -1))))
    found = json.loads(_said(capsys, *SMALL, "--order", str(file), "--json"))
    assert (found["order"], found["hosts"]) == (str(file), 56)
    assert main(["fabric", "bench", "--gpus", "512", "--order", str(file)]) == 2
    assert "64 are needed" in capsys.readouterr().err


def test_a_shared_seed_polarises(capsys):
    words = ("--fabric", "dcn+", "--gpus", "512", "--order", "random", "--connections", "4", "--seeds", "5", "--json")
    own, shared = (json.loads(_said(capsys, *words, *more))["busbw_gb_s"] for more in ((), ("--shared-seed",)))
    assert shared < own


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--collective", "all_redcue"), "Did you mean 'all_reduce'?"),
        (("--gpus", "13"), "Use a multiple of 8"),
        (("--gpus", "0"), "Use a multiple of 8"),
        (("--gpus", "99999"), "has 1,920 active ones"),
        (("--ports", "random"), "Known: hash, round_robin, disjoint"),
        (("--split", "evenly"), "Known: equal, least_loaded"),
        (("--bytes", "lots"), "is not a number of bytes"),
        (("--bytes", "0"), "a buffer has 0 bytes"),
        (("--order", "/nowhere"), "Use packed, random or a file"),
        (("--connections", "0"), "Use 1 to 128"),
        (("--algorithm", "tree", "--collective", "all_gather"), "Use ring"),
        (("--device", "H8000"), "no device is called"),
        (("--seeds", "0"), "Use 1 to"),
        (("--jobs", "0"), "Use 1 or more"),
        (("--jobs", "7"), "are no whole hosts each"),
        (("--gpus", "8", "--collective", "multi_all_reduce"), "which has nothing to exchange"),
        (("--fabric", "hpm"), "Did you mean 'hpn'?"),
        (("--set", "planes=3"), "cannot share"),
    ],
)
def test_wrong_options_are_one_message_and_status_2(capsys, words, said):
    assert main(["fabric", "bench", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_an_order_that_holds_no_numbers_is_refused(capsys, tmp_path):
    file = tmp_path / "order"
    file.write_text("0\n1\nhost-2\n")
    assert main(["fabric", "bench", "--gpus", "16", "--order", str(file)]) == 2
    assert "'host-2' is no number of a host" in capsys.readouterr().err
