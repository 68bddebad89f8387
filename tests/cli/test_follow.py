"""Following a run: whole lines, each once, also where a writer has left a part of one."""

import json

import pytest

from headway.cli.follow import Follower


@pytest.fixture
def follower(plan_of, tmp_path):
    """A function: one that follows the run in `tmp_path`, and the lines that it has shown."""

    def make():
        found = Follower(plan_of(), tmp_path, as_json=False)
        shown = []
        found.show = shown.append
        return found, shown

    return make


def _line(step):
    return f"{json.dumps({'step': step, 'validation_loss': 2.0})}\n"


def test_a_line_is_shown_once_it_is_whole_and_not_again(follower, tmp_path):
    found, shown = follower()
    found.read()  # there is no file yet
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for piece, steps in (
            (_line(1) + _line(2)[:9], [1]),
            (_line(2)[9:], [1, 2]),
            ("", [1, 2]),
            (_line(3), [1, 2, 3]),
        ):
            file.write(piece)
            file.flush()
            found.read()
            assert [line["step"] for line in shown] == steps


def test_of_a_run_that_is_gone_on_with_only_new_lines_are_shown_and_a_line_that_was_torn_is_none(follower, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(_line(1) + _line(2)[:9])
    found, shown = follower()
    found.read()
    assert shown == []
    path.write_text(_line(1) + _line(3))  # as the next writer does: what was left is cut off
    found.read()
    assert [line["step"] for line in shown] == [3]


def test_a_line_that_an_interrupt_kept_from_being_shown_is_shown_at_the_next_look(follower, tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    found, shown = follower()
    (tmp_path / "metrics.jsonl").write_text(_line(1) + _line(2))

    def interrupt(_):
        raise KeyboardInterrupt

    show, found.show = found.show, interrupt
    with pytest.raises(KeyboardInterrupt):
        found.read()
    found.show = show
    found.read()
    assert [line["step"] for line in shown] == [1, 2]
