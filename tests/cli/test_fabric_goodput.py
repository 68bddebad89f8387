"""headway fabric goodput: what it prints, its JSON, and what it refuses."""

import json
from pathlib import Path

import pytest

from headway.cli.main import main

ROOT = Path(__file__).parent.parent.parent
JOB = str(ROOT / "examples" / "gpt-175b.yaml")
QUICK = ("--gpus", "3000", "--trials", "20")


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def _said(capsys, *words):
    assert main(["fabric", "goodput", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def _found(capsys, *words):
    return json.loads(_said(capsys, *words, "--json"))


def test_three_fabrics_stand_side_by_side_within_80_columns(capsys):
    out = _said(capsys, *QUICK)
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    for text in (
        "3,000 GPUs for 6 months",
        "single-tor dcn+ hpn",
        "links and ToRs 3,000 and 47 6,000 and 48 6,000 and 48",
        "Network failures alone on single-tor, saved every 2 to 4 h as HPN §2.3 tells: 1.73 crashes a month",
        "the paper's 5 % is an input",
        "link rate 0.057 % a month HPN (Qian et al., SIGCOMM 2024) §2.3",
        "gpu rate 0.921 % a month Llama 3 report",
    ):
        assert text in words
    assert "expected  " not in out


def test_a_wide_terminal_has_the_closed_form_beside_it(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    out = _said(capsys, *QUICK)
    head = next(line for line in out.splitlines() if "single-tor" in line)
    assert head.split() == ["single-tor", "expected", "dcn+", "expected", "hpn", "expected"]
    crashes = next(line for line in out.splitlines() if line.startswith("network crashes/month"))
    assert crashes.split()[4] == "1.73"
    assert "< " in crashes
    assert max(map(len, out.splitlines())) <= 120


def test_the_page_shows_what_is_printed(capsys):
    page = (ROOT / "docs" / "goodput.md").read_text(encoding="utf-8")
    command = ["--gpus", "3000", "--months", "6"]
    printed = "\n".join(line.rstrip() for line in _said(capsys, *command).splitlines())
    shown = page.partition(f"$ headway fabric goodput {' '.join(command)}\n")[2].partition("\n```")[0]
    assert shown
    assert printed.startswith(shown)


def test_a_job_gives_its_gpus_its_step_and_its_tokens(capsys):
    found = _found(capsys, JOB, "--trials", "10", "--months", "1")
    assert found["gpus"] == 1024
    assert found["job"]["name"] == "gpt-175b"
    assert found["job"]["tokens_per_step"] == 1536 * 2048
    assert found["job"]["tokens"] == pytest.approx(1536 * 2048 * 730 * 3600 / found["job"]["step_seconds"])
    assert "gpt-175b: 1,024 GPUs for 1 month, " in _said(capsys, JOB, "--trials", "10", "--months", "1")


def test_checkpoints_come_from_the_option_else_from_the_job_else_from_the_optimum(capsys):
    saves = ("--set", "checkpoint.every=100")
    words = (JOB, "--trials", "10", "--fabric", "hpn")
    step = _found(capsys, *words)["job"]["step_seconds"]
    assert _found(capsys, *words)["checkpoint_every"] == "optimum"
    assert _found(capsys, *words, *saves)["checkpoint_every"] == pytest.approx(100 * step)
    assert _found(capsys, *words, *saves, "--checkpoint-every", "3h")["checkpoint_every"] == 3 * 3600
    best = _found(capsys, *words, *saves, "--checkpoint-every", "optimum")
    assert best["fabrics"][0]["checkpoint_every"] == best["fabrics"][0]["optimum"]


def test_the_same_seed_prints_the_same_and_another_one_not(capsys):
    first, again, other = (_said(capsys, *QUICK, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert first != other


def test_each_assumption_has_an_option(capsys):
    options = {
        "link_rate": "1%",
        "tor_rate": "0.02",
        "gpu_rate": "0",
        "host_rate": "0%",
        "flap_rate": "0.1%",
        "flap_stall": "5s",
        "link_repair": "4h",
        "tor_repair": "5h",
        "host_repair": "6h",
        "collective_timeout": "90s",
        "checkpoint_seconds": "50",
        "restart": "3min",
        "slowdown": "5%",
        "move_after": "never",
        "spares": "10%",
        "cost": "2.5",
    }
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    found = {each["name"]: each for each in _found(capsys, *QUICK, *words)["assumptions"]}
    assert {name for name, each in found.items() if each["changed"]} == set(options)
    assert found["link_repair"]["value"] == 4 * 3600
    assert found["spares"]["value"] == pytest.approx(0.1)


def test_another_fabric_may_be_named_and_one_alone_needs_no_comparison(capsys):
    found = _found(capsys, "--gpus", "64", "--trials", "5", "--fabric", "hpn segments=2 hosts=8")
    assert [each["fabric"] for each in found["fabrics"]] == ["hpn segments=2 hosts=8"]
    assert found["break_even_link_repair"] == {}
    assert "two-racks" in _said(capsys, "--gpus", "8", "--fabric", str(ROOT / "examples" / "fabric.yaml"))


def test_a_life_without_failures_is_printed_too(capsys):
    rates = [word for name in ("link", "tor", "gpu", "host") for word in (f"--{name}-rate", "0")]
    out = _said(capsys, *QUICK, *rates)
    assert "100.00 ±0.00 %" in out


def test_a_job_that_waits_for_a_tor_is_told(capsys):
    assert "a ToR takes 8 hosts of the job with it, and 1 are free" in " ".join(_said(capsys, "--gpus", "64").split())


def test_the_help_has_an_example_and_the_defaults(capsys):
    words = _said(capsys, "--help")
    assert "headway fabric goodput --gpus 3000 --checkpoint-every 3h" in words
    assert "[0.057%]" in words


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "give a JOB or --gpus N, one of them."),
        ("examples/gpt-175b.yaml --gpus 8", "give a JOB or --gpus N, one of them."),
        ("--gpus 8 --set train.steps=2", "--set changes a JOB, and there is none."),
        ("--gpus 0", "the job takes 0 GPUs. Use 1 or more."),
        ("--gpus 20000", "single-tor has room for 16,384 GPUs (32 pods of 512), but the job takes 20,000."),
        ("--gpus 8 --months 0", "months is 0. Use more than 0, and at most 1200."),
        ("--gpus 8 --months -1", "months is -1."),
        ("--gpus 8 --trials 1", "trials is 1. Use 2 or more"),
        ("--gpus 8 --seed -1", "seed is -1."),
        ("--gpus 8 --checkpoint-every 0s", "the checkpoint interval is 0"),
        ("--gpus 8 --checkpoint-every soon", "--checkpoint-every: 'soon' is not a duration. Write it like 90s"),
        ("--gpus 8 --checkpoint-seconds 0", "a checkpoint that takes 0 s has no best interval."),
        ("--gpus 8 --checkpoint-seconds -1", "checkpoint seconds is -1."),
        ("--gpus 8 --gpu-rate -1%", "--gpu-rate: '-1%' is not a share of a whole."),
        ("--gpus 8 --link-repair 0s", "link repair is 0. Use a time above 0"),
        ("--gpus 8 --slowdown 100%", "slowdown is 1. Use a share below 1"),
        ("--gpus 8 --cost nan", "cost is nan."),
        ("--gpus 8 --fabric hpm", "no fabric is called 'hpm'. Did you mean 'hpn'?"),
        ("--gpus 15000 --trials 100000", "Use 9,567 trials"),
        ("none.yaml", "there is no file none.yaml. Give the path of a job file"),
        ("README.md", "README.md"),
    ],
)
def test_a_users_mistake_exits_2_with_one_message(capsys, monkeypatch, line, said):
    monkeypatch.chdir(ROOT)
    assert main(["fabric", "goodput", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err
