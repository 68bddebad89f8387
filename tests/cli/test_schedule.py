"""headway schedule: the picture, the figures under it, and its two forms for machines."""

import json
import re
from pathlib import Path

import pytest

from headway.cli.main import main
from headway.schedule import families, passes
from headway.schedule.schedule import from_csv

DOCS = (Path(__file__).parent.parent.parent / "docs" / "schedules.md").read_text(encoding="utf-8")


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


@pytest.mark.parametrize(("line", "drawing"), re.findall(r"```\n\$ headway schedule (.*)\n([^`]*)```", DOCS))
def test_the_drawings_in_the_docs_are_what_it_draws(line, drawing, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "118")
    assert [text.rstrip() for text in run(capsys, line).splitlines()] == drawing.splitlines()


def test_the_docs_draw_every_family():
    assert set(re.findall(r"\$ headway schedule (\S+)", DOCS)) == set(families.FAMILIES)


def test_csv_is_torchs_and_reads_back_with_and_without_messages(capsys):
    bare = families.build("1f1b", pipeline=2, microbatches=3)
    line = "1f1b --pipeline 2 --microbatches 3 --csv"
    assert from_csv(run(capsys, line)).rows == bare.rows
    assert from_csv(run(capsys, f"{line} --messages")).rows == passes.add_messages(bare).rows


def refused(capsys, line):
    assert main(["schedule", *line.split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_several_are_drawn_under_each_other_on_one_axis_with_their_figures(capsys):
    out = run(capsys, "--compare 1f1b,zb-h1,zb-h2,zb-v,bpipe --pipeline 4 --microbatches 8").splitlines()
    assert [line.split() for line in out if " P=4 M=8" in line and "%" in line] == [
        ["1f1b", "P=4", "M=8", "33", "37.5%", "4", "48"],
        ["zb-h1", "P=4", "M=8", "27", "12.5%", "4", "48"],
        ["zb-h2", "P=4", "M=8", "27", "12.5%", "7", "48"],
        ["zb-v", "P=4", "M=8", "V=2", "25.5", "6.2%", "4", "(8", "×", "1/2)", "96"],
        ["bpipe", "P=4", "M=8", "33", "37.5%", "3", "48"],
    ]
    assert sum(line.startswith("r0 ") for line in out) == 5
    assert sum("weight-backward" in line for line in out) == 1
    assert max(map(len, out)) <= 120


def test_a_comparison_as_json_has_one_document_for_each(capsys):
    found = json.loads(run(capsys, "--compare 1f1b,interleaved --pipeline 2 --microbatches 4 --chunks 2 --json"))
    assert [(each["name"], each["chunks"], each["step_time"]) for each in found["schedules"]] == [
        ("1f1b", 1, 15),
        ("interleaved", 2, 13.5),
    ]


@pytest.mark.parametrize(
    ("family", "step_time", "idle", "peaks"),
    [
        ("zb-h1", 27, [3, 1, 1, 1], [4, 4, 4, 4]),
        ("zb-h2", 27, [0, 0, 0, 0], [7, 7, 7, 7]),
        ("zb-v", 25.5, [0, 0, 0, 0], [8, 8, 8, 8]),
    ],
)
def test_split_backwards_have_their_figures_and_rows(family, step_time, idle, peaks, capsys):
    found = json.loads(run(capsys, f"{family} --pipeline 4 --microbatches 8 --json"))
    assert (found["step_time"], found["peak_in_flight"]) == (step_time, peaks)
    assert found["idle"][0] == idle[0] == max(found["idle"])
    assert {kind for row in found["rows"] for text in row for kind in text if kind.isalpha()} == {"F", "I", "W"}


def test_stashed_weights_and_evictions_are_counted(capsys):
    assert "weight versions  4 3 2 1 (rank 0 first)" in run(capsys, "pipedream --pipeline 4 --microbatches 8")
    assert "evictions       2, and 2 back, between paired ranks" in run(capsys, "bpipe --pipeline 4 --microbatches 8")


def test_times_change_the_clock_and_a_full_backward_takes_both_halves(capsys):
    def step_time(times, family="1f1b"):
        line = f"{family} --pipeline 2 --microbatches 4 --json --times {times}"
        return json.loads(run(capsys, line))["step_time"]

    assert step_time("F=2,B=3") == 25
    assert step_time("I=2,W=1.5") == 5 * 4.5
    assert step_time("F=1,I=2,W=1", "zb-h1") == 4 * 4 + (1 + 2 - 1)


def test_the_picture_is_written_as_svg_whole_and_in_colour(capsys, tmp_path):
    file = tmp_path / "a.svg"
    out = run(capsys, f"--compare gpipe,zb-v --pipeline 4 --microbatches 24 --svg {file}")
    assert "left out" in out
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<svg ")
    assert "left out" not in text
    assert text.count("<rect") > 2 * 4 * 24 + 6 * 4 * 24
    assert (
        refused(capsys, f"1f1b --pipeline 2 --microbatches 2 --svg {tmp_path}/no/a.svg").count("cannot be written") == 1
    )


def test_a_torch_csv_is_checked_and_drawn(capsys, tmp_path):
    file = tmp_path / "mine.csv"
    for options in ("", " --messages"):
        file.write_text(run(capsys, f"zb-h1 --pipeline 3 --microbatches 6 --csv{options}"))
        found = json.loads(run(capsys, f"{file} --json"))
        assert (found["name"], found["pipeline"], found["microbatches"]) == ("mine", 3, 6)
        assert (found["step_time"], found["messages"]) == (20, 24)
    assert "mine  P=3 M=6" in run(capsys, f"{file}")


def test_an_old_torch_csv_with_bw_and_one_with_overlaps_are_read(capsys, tmp_path):
    old, overlapped = tmp_path / "old.csv", tmp_path / "overlapped.csv"
    old.write_text("0F0,0F1,,0B0,0W0,0BW1\n")
    overlapped.write_text("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n")
    assert json.loads(run(capsys, f"{old} --json"))["rows"] == [["0F0", "0F1", "0I0", "0W0", "0B1"]]
    assert json.loads(run(capsys, f"{overlapped} --json"))["rows"] == [["0F0", "0F1", "0B0", "0B1"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "waits for 1B0 of rank 1"),
        ("0F0,0X0\n", "line 1: '0X0' is not an action"),
        ("0F0,0I0\n", "the first 0W0"),
        ("", "the schedule is empty"),
        ("0F0,0F70000000000\n", "missing"),
        ("0F0,0F7000000000000000000\n", "the number of a micro-batch is at most"),
    ],
    ids=["cycle", "word", "half", "empty", "huge", "beyond"],
)
def test_a_broken_csv_is_one_message(text, said, capsys, tmp_path):
    (tmp_path / "mine.csv").write_text(text)
    assert said in refused(capsys, f"{tmp_path}/mine.csv")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "Name one FAMILY or FILE.csv"),
        ("1f1b --compare gpipe --pipeline 2 --microbatches 2", "Name one FAMILY or FILE.csv"),
        ("--compare gpipe,,1f1b --pipeline 2 --microbatches 2", "empty name"),
        ("--compare gpipe,1f1c --pipeline 2 --microbatches 2", "Did you mean '1f1b'?"),
        ("--compare gpipe,1f1b --pipeline 2 --microbatches 2 --csv", "--csv prints one schedule"),
        ("gpipe --microbatches 2", "Missing option '--pipeline'"),
        ("1f1b --pipeline 2 --microbatches 2 --times F=0", "F takes 0; a time is a number above 0, from"),
        ("1f1b --pipeline 2 --microbatches 2 --times F=nan", "a time is a number above 0, from"),
        ("1f1b --pipeline 2 --microbatches 2 --times Q=1", "'Q=1' is not a time. Write F=1,B=2,I=1,W=1."),
        ("1f1b --pipeline 2 --microbatches 2 --times STEP=1", "STEP takes no time of its own."),
        ("mine.csv --pipeline 4", "--pipeline is for a family; mine.csv has its own sizes. Leave it out."),
        ("not-there.csv", "not-there.csv cannot be read: No such file or directory."),
    ],
)
def test_a_wrong_call_is_one_message(line, said, capsys):
    assert said in refused(capsys, line)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("1f1b --pipeline 2 --microbatches 2 --times F=1e300", "from 0.001 to 1000."),
        ("1f1b --pipeline 2 --microbatches 2 --times F=1e-12", "from 0.001 to 1000."),
        ("1f1b --pipeline 4 --microbatches 100000000", "400,000,000 forwards; at most 2,000,000 are built."),
        ("interleaved --pipeline 4 --microbatches 8 --chunks 300000", "9,600,000 forwards; at most 2,000,000"),
    ],
)
def test_what_would_take_for_ever_or_cannot_be_drawn_is_refused_at_once(capsys, words, said):
    assert said in refused(capsys, words)


def test_a_byte_order_mark_is_no_part_of_the_first_action(tmp_path, capsys):
    (tmp_path / "mine.csv").write_text("0F0,0B0\n", encoding="utf-8-sig")
    assert json.loads(run(capsys, f"{tmp_path}/mine.csv --json"))["rows"] == [["0F0", "0B0"]]
