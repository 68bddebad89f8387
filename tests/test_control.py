"""Control files: who asks, what is shown of a reason that anyone may have written, and the answer."""

import pytest

from headway import control


@pytest.fixture
def run(tmp_path):
    (tmp_path / "control").mkdir()
    return tmp_path


def test_nobody_asks_where_there_is_no_file_and_no_folder(tmp_path, run):
    assert control.asked(tmp_path / "elsewhere") is None
    assert control.asked(run) is None


def test_an_empty_file_asks(run):
    control.stop_file(run).touch()
    assert control.asked(run) == f"{run}/control/stop is there"


def test_of_a_reason_one_line_of_printable_characters_is_shown(run):
    control.stop_file(run).write_bytes(b" late \x1b[31m\xff\nmore\n")
    assert control.asked(run) == f"{run}/control/stop says: late [31m�"
    control.stop_file(run).write_text("x" * 10**6)
    assert control.asked(run) == f"{run}/control/stop says: {'x' * 200}"


def test_what_cannot_be_read_asks_if_it_is_there(run):
    control.stop_file(run).mkdir()
    assert control.asked(run) == f"{run}/control/stop is there (Is a directory)"


def test_a_run_that_can_go_on_answers_with_the_same_words_and_one_that_is_done_with_nothing(run):
    control.stop_file(run).write_text("late")
    control.answer(run, can_go_on=True)
    assert control.asked(run) is None
    assert control.stopped_file(run).read_text() == "late"
    control.clear(run)
    assert list((run / "control").iterdir()) == []
    control.stop_file(run).touch()
    control.answer(run, can_go_on=False)
    assert list((run / "control").iterdir()) == []


def test_a_run_that_was_told_by_a_signal_has_nobody_to_answer(tmp_path):
    control.answer(tmp_path, can_go_on=True)
    control.clear(tmp_path)
    assert list(tmp_path.iterdir()) == []
