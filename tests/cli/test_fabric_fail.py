"""headway fabric fail: its document, what it prints and draws, its exit status, and what it refuses."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headway.cli.main import main

SMALL = ("--set", "segments=2", "--set", "hosts=4", "--set", "backup_hosts=0", "--collective", "multi_all_reduce")
TOR = "tor tor-s0-r0-1 at 10s for 30s"
PAGE = Path(__file__).parent.parent.parent / "docs" / "fabric.md"


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def _said(capsys, *words, status=0):
    assert main(["fabric", "fail", *words]) == status
    out, err = capsys.readouterr()
    assert bool(err) == bool(status)
    return out


def test_the_document_has_the_faults_the_delays_and_each_phase(capsys):
    found = json.loads(_said(capsys, "hpn", *SMALL, "--fault", TOR, "--learn", "2s", "--json"))
    assert (found["fabric"], found["gpus"], found["segments"]) == ("hpn segments=2 hosts=4 backup_hosts=0", 64, 2)
    assert found["faults"] == [TOR]
    assert found["delays"]["learn"] == 2.0
    assert (found["goes_on"], found["dies_at"]) == (True, None)
    assert found["still_seconds"] == pytest.approx(2.0)
    phases = found["phases"]
    assert [each["end"] for each in phases] == pytest.approx([10, 10.1, 10.3, 12, 40, 40.3, 42, 60])
    assert phases[4]["busbw_gb_s"] == pytest.approx(found["busbw_gb_s"] / 2, rel=1e-3)
    assert phases[2]["waiting"] == ["switches", "senders"]
    assert phases[4]["broken"] == ["tor-s0-r0-1 is down: 4 cards keep 1 of 2 ports"]
    assert "PFC" in found["not_modelled"]
    assert "one direction" in found["not_modelled"]


def test_the_table_the_picture_and_what_is_assumed_are_printed_within_the_terminal(capsys):
    out = _said(capsys, "hpn", *SMALL, "--fault", TOR)
    assert max(map(len, out.splitlines())) <= 100
    words = " ".join(out.split())
    for text in (
        "multi_all_reduce on hpn segments=2 hosts=4 backup_hosts=0 while things break",
        "tor tor-s0-r0-1 at 10s for 30s: 4 cards keep 1 of 2 ports",
        "the job goes on; 26.7% of the traffic of 60 s is lost, 1 s of it standing still",
        "10–10.1 0.0 0% 5 hosts, switches,",
        "10.3–11 0.0 0% 1 senders tor-s0-r0-1 down host-7/gpu-0 →",
        "11–40 24.5 50% – – tor-s0-r0-1 down",
        "41–60 49.0 100% – – all is back",
        "learn 1 s: assumed: no source says",
        "▼ breaks ▲ back × stands still",
        "Not modelled: flow control (PFC)",
    ):
        assert text in words


def test_the_page_about_fabrics_shows_what_is_printed(capsys):
    command = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if "$ headway fabric fail" in line)
    words = [
        word.strip("'") for word in command.split("fail ")[1].replace("'tor tor-s0-r0-1 at 10s for 30s'", "@").split()
    ]
    printed = _said(capsys, *(TOR if word == "@" else word for word in words))
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    assert f"{command}\n{lines}\n```" in PAGE.read_text(encoding="utf-8")


def test_a_job_that_dies_exits_with_1_and_says_when_and_why(capsys):
    words = ("single-tor", "--gpus", "128", "--fault", "port host-3/gpu-5:0 at 10s for 2min")
    assert main(["fabric", "fail", *words]) == 1
    out, err = capsys.readouterr()
    assert "the job dies at 130 s" in out
    assert err.startswith("Error: the job dies at 130 s: its collective stands still from 10 s on")
    assert json.loads(_said(capsys, *words, "--json", status=1))["dies_at"] == pytest.approx(130)
    assert _said(capsys, *words, "--collective-timeout", "3min")


def test_a_repair_within_the_timeout_saves_it(capsys):
    out = _said(capsys, "single-tor", "--gpus", "128", "--fault", "port host-3/gpu-5:0 at 10s for 1min")
    assert "69 s of it standing still" in " ".join(out.split())
    assert "79–90" in out


def test_never_learning_is_a_black_hole(capsys):
    fault = "port host-3/gpu-5:0 at 10s"
    found = json.loads(_said(capsys, "hpn", *SMALL, "--fault", fault, "--learn", "never", "--json", status=1))
    assert (found["delays"]["learn"], found["dies_at"]) == (None, pytest.approx(130))
    assert json.loads(_said(capsys, "hpn", *SMALL, "--fault", fault, "--json"))["still_seconds"] == pytest.approx(1.0)


def test_the_time_line_is_long_enough_for_the_last_repair_unless_told_otherwise(capsys):
    fault = ("--fault", "nic host-3/gpu-5 at 50s for 20s", "--json")
    assert json.loads(_said(capsys, "hpn", *SMALL, *fault))["phases"][-1]["end"] == 90
    assert json.loads(_said(capsys, "hpn", *SMALL, *fault, "--seconds", "52s"))["phases"][-1]["end"] == 52


def test_many_phases_are_cut_and_counted(capsys):
    flap = "port host-3/gpu-5:0 at 0s flapping every 2s"
    out = _said(capsys, "hpn", *SMALL, "--fault", flap, "--learn", "500ms")
    assert "more phases; --json has all" in out


def test_the_picture_is_written_as_svg(capsys, tmp_path):
    path = tmp_path / "fail.svg"
    _said(capsys, "hpn", *SMALL, "--fault", TOR, "--svg", str(path))
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert next(root.iter()).findtext("{*}title") == "Faults: hpn segments=2 hosts=4 backup_hosts=0"
    assert "stands still" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("hpn",), "Missing option '--fault'"),
        (("hpn", "--fault", "trr x"), "no fault is called 'trr'. Did you mean 'tor'?"),
        (("hpn", "--fault", "tor tor-s0-r0-2"), "has no ToR 'tor-s0-r0-2'. Did you mean"),
        (("hpn", "--fault", "agg tor-s0-r0-1"), "tor-s0-r0-1 is no Agg. Write tor tor-s0-r0-1."),
        (("hpn", "--fault", "port host-3/gpu-5:2"), "host-3/gpu-5 has no port '2'. Use one of 0 to 1."),
        (("hpn", "--fault", TOR, "--fault", "tor tor-s0-r0-1 at 39s"), "contradict each other"),
        (("hpn", "--fault", "tor tor-s0-r0-1 at 60s", "--seconds", "60s"), "begins after the time line"),
        (("hpn", "--fault", TOR, "--seconds", "soon"), "'soon' is not a duration."),
        (("hpn", "--fault", TOR, "--seconds", "0s"), "the time line ends at 0 s."),
        (("hpn", "--fault", TOR, "--learn", "nevr"), "'nevr' is not a duration."),
        (("hpn", "--fault", TOR, "--reroute", "never"), "reroute is never. Use a time; only learn may be never."),
        (("hpn", "--fault", TOR, "--collective", "all_redcue"), "no collective is called 'all_redcue'."),
        (("hpm", "--fault", TOR), "no fabric is called 'hpm'."),
        (("hpn", "--fault", TOR, "--svg", "/nowhere/x.svg"), "/nowhere/x.svg cannot be written"),
        (("hpn", "--fault", "nic host-3/gpu-5 flapping every 1ms"), "Flap every"),
    ],
)
def test_a_users_mistake_exits_2_with_one_message(capsys, words, said):
    assert main(["fabric", "fail", *words, "--gpus", "16"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err
