"""Goodput's bars and words: as long as the losses, in letters where there are no colours."""

from headway.advise.assumptions import Assumptions
from headway.advise.goodput import Question, document, study
from headway.report import goodput as report


def _found(given=None, **asked):
    question = Question(**{"gpus": 3000, "months": 1.0, "trials": 20, **asked})
    given = given or Assumptions(move_after=None)
    return document(question, given, study(question, given))


def test_bars_are_as_long_as_what_is_lost_and_say_how_much():
    found = _found()
    *bars, legend = report.bars(found, 80, coloured=False)
    lost = [each["lost"]["mean"] for each in found["fabrics"]]
    for bar, hours in zip(bars, lost, strict=True):
        drawn = "".join(piece.text for piece in bar[1:-1])
        assert abs(len(drawn) - 56 * hours / max(lost)) < 1
        assert (
            abs(
                drawn.count("r")
                - 56 * next(e for e in found["fabrics"] if e["lost"]["mean"] == hours)["rework"]["mean"] / max(lost)
            )
            < 1
        )
        assert bar[-1].text.endswith("%")
    assert "hh half a card" in "".join(piece.text for piece in legend)
    assert "stalls" not in "".join(piece.text for piece in legend)


def test_coloured_bars_have_no_letters():
    bar = report.bars(_found(), 80, coloured=True)[0]
    assert {piece.text.strip() for piece in bar[1:-1]} == {""}


def test_nothing_lost_draws_nothing():
    calm = Assumptions(link_rate=0.0, tor_rate=0.0, gpu_rate=0.0, host_rate=0.0)
    assert report.bars(_found(calm), 80, coloured=False) == ()


def test_the_table_has_a_column_for_each_fabric_and_a_dim_one_for_what_is_expected():
    assert [column.header for column in report.table(_found(), expected=False).columns] == [
        "",
        "single-tor",
        "dcn+",
        "hpn",
    ]
    assert len(report.table(_found(), expected=True).columns) == 7


def test_what_the_user_assumed_is_called_so():
    drawn = report.assumptions(_found(Assumptions(cost=1.0)))
    cells = dict(zip(*(list(column.cells) for column in (drawn.columns[0], drawn.columns[2])), strict=True))
    assert cells["cost"] == "your own"
    assert cells["link rate"].startswith("HPN")


def test_notes_tell_where_two_tors_and_one_change_places():
    notes = " ".join(report.notes(_found()))
    assert "mean repair of links is below" in notes
    never = " ".join(report.notes(_found(Assumptions(slowdown=0.0))))
    assert "Two ToRs a card lose less than one at any mean repair of links" in never
    slow = " ".join(report.notes(_found(Assumptions(slowdown=0.9, tor_rate=0.1))))
    assert "Two ToRs a card lose more than one at any mean repair of links" in slow


def test_months_are_counted_in_words():
    assert [report.months({"months": each}) for each in (1.0, 6.0, 0.5)] == ["1 month", "6 months", "0.5 months"]
