"""headway schedule: the picture, the figures under it, and its two forms for machines."""

import json

import pytest

from headway.cli.main import main
from headway.schedule import families, passes
from headway.schedule.schedule import from_csv


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def run(capsys, line):
    assert main(["schedule", *line.split()]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "step_time", "bubble", "peaks"),
    [
        ("gpipe --pipeline 4 --microbatches 8", 33, 0.375, [8, 8, 8, 8]),
        ("1f1b --pipeline 4 --microbatches 8", 33, 0.375, [4, 3, 2, 1]),
        ("interleaved --pipeline 4 --microbatches 8 --chunks 2", 28.5, 0.1875, [11, 9, 7, 5]),
    ],
)
def test_the_figures_are_the_papers(line, step_time, bubble, peaks, capsys):
    found = json.loads(run(capsys, f"{line} --json"))
    assert found["step_time"] == step_time
    assert found["bubble"] == pytest.approx(bubble)
    assert found["peak_in_flight"] == peaks
    assert (found["pipeline"], found["microbatches"], len(found["rows"])) == (4, 8, 4)


def test_the_picture_fits_120_columns_without_a_terminal(capsys):
    out = run(capsys, "interleaved --pipeline 4 --microbatches 8 --chunks 2")
    assert max(map(len, out.splitlines())) <= 120
    assert "left out" not in out
    assert "28.5 (ideal: 24)" in out
    assert "112 between the 4 ranks" in out


def test_a_picture_too_wide_says_what_is_left_out(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert "of the time is left out on the right" in run(capsys, "1f1b --pipeline 4 --microbatches 16")


def test_colours_reach_a_terminal_and_replace_the_brackets(capsys, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = run(capsys, "1f1b --pipeline 2 --microbatches 2")
    assert "\x1b[" in out
    assert "[0" not in out.replace("\x1b[", "")


def test_csv_is_torchs_and_reads_back_with_and_without_messages(capsys):
    bare = families.build("1f1b", pipeline=2, microbatches=3)
    line = "1f1b --pipeline 2 --microbatches 3 --csv"
    assert from_csv(run(capsys, line)).rows == bare.rows
    assert from_csv(run(capsys, f"{line} --messages")).rows == passes.add_messages(bare).rows
