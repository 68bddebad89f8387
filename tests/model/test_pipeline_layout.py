"""Megatron's layout text: what it means, that it survives a round trip, and where it is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.model.pipeline_layout import parse, show


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("EtL", (1,)),
        ("EL", (0,)),
        ("E|(t|)*10L", (0, *[1] * 10, 0)),
        ("Et*3|(tt|)*29|L", (3, *[2] * 29, 0, 0)),
        ("Ett|(tt|)*6L", (2, *[2] * 6, 0)),
        ("Et*4|t*3|t*3|t*4L", (4, 3, 3, 4)),
        ("E,t*4|t*4|t*4,L", (4, 4, 4)),  # commas are for the eye
        (" E t | t\tt |\n L ", (1, 2, 0)),
        ("E|||tL", (0, 0, 0, 1)),
        ("E|*3tL", (0, 0, 0, 1)),  # a bar repeats like a letter
        ("E(|tt)*2,L", (0, 2, 2)),
        ("E((t|)*2|)*2L", (1, 1, 0, 1, 1, 0, 0)),
        ("Et * 2 L", (2,)),
        ("E*1t*01L", (1,)),
    ],
)
def test_a_layout_says_how_many_layers_each_stage_has(text, layers):
    assert parse(text) == layers


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_what_is_shown_is_read_back(counts):
    assert parse(show(counts)) == tuple(counts)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.data())
def test_spaces_and_commas_change_nothing(counts, data):
    text = show(counts)
    seps = st.text(alphabet=" ,\t", max_size=2)
    spaced = ""
    for i, letter in enumerate(text):
        within_number = i and letter.isdigit() and text[i - 1].isdigit()
        spaced += ("" if within_number else data.draw(seps)) + letter
    assert parse(spaced) == tuple(counts)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no E: the embedding"),
        ("tt|L", "has no E"),
        ("Ett|t", "has no L: the head"),
        ("tE|L", "has t at position 1, where E comes first"),
        ("|EtL", "has | at position 1, where E comes first"),
        ("EtL|", "has | at position 4, where L comes last"),
        ("EtL|t", "has t at position 5, where L comes last"),
        ("EE|L", "has the embedding E 2 times, the second at position 2"),
        ("E|(tL)*2", "has the head L 2 times, the second at position 5"),
        ("E|(t|)*10m|m|L", "has m at position 10: a multi-token-prediction layer"),
        ("Ex|L", "has x at position 2"),
        ("et|L", "has e at position 1"),
        ("E|3tL", "has 3 at position 3"),
        ("E|(t|)3L", "has 3 at position 7"),
        ("E*|L", "has a * at position 2 without a number"),
        ("Et*", "has a * at position 3 without a number"),
        ("Et*0L", "has a * at position 3 without a number from 1 on"),
        ("Et**2L", "has a * at position 3 without a number"),
        ("*2EL", "has * at position 1"),
        ("Et)*2L", "has ) at position 3"),
        ("E((t|)*2L", "opens a ( at position 2 that nothing closes"),
        ("E(t*9999)*9999L", "repeats to more than 100000 letters at position 9"),
        (f"Et*{'9' * 5000}L", "has a * at position 3"),
    ],
)
def test_a_wrong_layout_is_refused_with_the_position(text, problem):
    with pytest.raises(PlanError) as error:
        parse(text)
    assert problem in str(error.value)
    assert "E is the embedding, t a layer" in str(error.value)
