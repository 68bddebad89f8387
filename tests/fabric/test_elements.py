"""Elements of XML that is not trusted: what is read of it, numbers in it, and its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.fabric.elements import read

KNOWN = {"": ("a",), "a": ("a", "b"), "b": ()}


def _read(text):
    return read(text.encode(), "x.xml", KNOWN)


def test_what_is_known_where_it_stands_is_read_with_its_line():
    outside = _read("<a>\n<b n='1'/><c><b/></c>\n<a><b n='2'><b/></b></a></a>")
    (first,) = outside.inside
    assert [(element.tag, element.line) for element in first.inside] == [("b", 2), ("a", 3)]
    (inner,) = first.each("a")
    assert [(element.attributes, element.inside) for element in inner.inside] == [({"n": "2"}, [])]


def test_another_outermost_element_is_not_read():
    assert _read("<b><a/></b>").inside == []


@given(st.integers(-(2**31), 2**31 - 1))
def test_whole_numbers_are_decimal_or_hexadecimal(value):
    for word in (str(value), hex(value)):
        assert _read(f"<a n='{word}'/>").inside[0].whole("n") == value


@pytest.mark.parametrize("word", ["1.0", "1e3", "1_000", " 1", "0b1", "0x", "one", "2147483648", "9" * 5000, "²"])
def test_other_words_are_no_whole_numbers(word):
    with pytest.raises(PlanError, match=r"x\.xml, line 1: <a> has n .*\. Write a whole number from 0 to"):
        _read(f"<a n='{word}'/>").inside[0].whole("n", least=0)


def test_an_attribute_that_lacks_or_is_empty_is_named_or_has_another_value():
    (element,) = _read("<a m=''/>").inside
    for key in ("m", "n"):
        assert element.whole_or(key, 7) == 7
        with pytest.raises(PlanError, match=f"line 1: <a> has no {key}"):
            element.text(key)


def test_elements_may_be_nested_as_deep_as_allowed():
    assert _read("<a>" * 64 + "</a>" * 64).inside
    with pytest.raises(PlanError, match="line 1: elements are nested more than 64 deep"):
        _read("<a>" * 65 + "</a>" * 65)
