"""Tools of the host that hang, break, write without end or nothing readable: each is one sentence, in time."""

import os
import time

import pytest

from headway.launch.doctor.looking import tool


@pytest.fixture
def script(tmp_path):
    def make(text, name="tool"):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


def _run(words, within=20.0):
    return tool.run(words if isinstance(words, list) else [words], os.environ, within)


def test_a_tool_that_ends_well_is_read(script):
    assert _run(script("echo hello; echo ignored >&2")) == tool.Said("hello\n")


def test_words_are_arguments_and_never_a_shells(script):
    assert _run([script('echo "$1"'), "$(id); rm -rf x"]).text == "$(id); rm -rf x\n"


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("echo out; echo broken driver >&2; exit 9", "it ended with status 9: broken driver"),
        ("echo only out; exit 1", "it ended with status 1: only out"),
        ("exit 3", "it ended with status 3"),
        ("kill -9 $$", "it was ended by signal 9"),
    ],
)
def test_a_tool_that_fails_says_how_and_its_last_line(script, text, trouble):
    assert _run(script(text)).trouble == trouble


def test_a_tool_that_hangs_is_ended_with_what_it_started(script, tmp_path):
    mark = tmp_path / "still-there"
    begun = time.monotonic()
    said = _run(script(f"echo partly; (sleep 1.5; touch {mark}) & sleep 60"), within=0.5)
    assert said == tool.Said("partly\n", "it did not end within 500 ms")
    assert time.monotonic() - begun < 4
    time.sleep(1.5)
    assert not mark.exists()


def test_a_tool_that_writes_without_end_is_stopped(script):
    said = _run(script("while :; do echo 0123456789012345678901234567890123456789; done"))
    assert said.trouble == "it wrote more than 4.00 MiB"


def test_a_tool_that_closes_its_output_and_stays_is_not_waited_for(script):
    assert _run(script("exec >&- 2>&-; sleep 60")).trouble == "it closed its output, but did not end"


def test_bytes_that_are_no_text_are_read_as_they_can_be(script):
    assert _run(script(r"printf '\377\376| 0 |'")).text == "��| 0 |"


@pytest.mark.parametrize("make", [lambda folder: folder / "missing", lambda folder: folder])
def test_what_is_no_program_cannot_be_started(tmp_path, make):
    assert "cannot be started" in _run(str(make(tmp_path))).trouble


def test_a_file_that_is_no_program_cannot_be_started(tmp_path):
    path = tmp_path / "tool"
    path.write_text("")
    path.chmod(0o755)
    assert "cannot be started (Exec format error)" in _run(str(path)).trouble


def test_a_tool_is_found_in_the_path(script, tmp_path):
    found = script("exit 0", "npu-smi")
    assert tool.place("npu-smi", str(tmp_path)) == found
