"""Quantities: what is written is what is meant, and nothing else is accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.units import (
    Dtype,
    parse_bandwidth,
    parse_bytes,
    parse_seconds,
    parse_share,
    show_bytes,
    show_count,
    show_duration,
    show_rate,
    show_seconds,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64KiB", 65536),
        ("64 KiB", 65536),
        ("4MiB", 4 * 2**20),
        ("80GB", 80 * 10**9),
        ("80GiB", 80 * 2**30),
        ("1.5TiB", 3 * 2**39),
        ("4096", 4096),
        ("4096B", 4096),
        ("1e6", 10**6),
        (17, 17),
    ],
)
def test_bytes_are_read_in_decimal_and_binary_units(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "lots", "-1", "4 MB/s", "KiB", "0x10", "1,5GiB", "1.2.3KiB", ".", "1e400B"])
def test_what_is_no_number_of_bytes_is_refused_with_an_example(text):
    with pytest.raises(PlanError, match=r"not a number of bytes\. Write it like 64KiB"):
        parse_bytes(text)


@given(st.integers(0, 2**60))
def test_a_plain_number_of_bytes_reads_as_itself(number):
    assert parse_bytes(number) == number


@pytest.mark.parametrize(
    ("text", "expected"), [("400Gbps", 50e9), ("400 Gbit/s", 50e9), ("50GB/s", 50e9), ("8bps", 1.0), ("1.5MB/s", 1.5e6)]
)
def test_bandwidth_is_read_in_bits_and_in_bytes(text, expected):
    assert parse_bandwidth(text) == expected


@pytest.mark.parametrize("text", ["", "fast", "400", "400Gb", "-1Gbps", "400GiB/s", "1.2.3Gbps"])
def test_what_is_no_bandwidth_is_refused_with_an_example(text):
    with pytest.raises(PlanError, match=r"not a bandwidth\. Write it like 400Gbps"):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90),
        ("2min", 120),
        ("2 min", 120),
        ("3h", 3 * 3600),
        ("1.5d", 36 * 3600),
        ("20ms", 0.02),
        ("5us", 5e-6),
        ("5µs", 5e-6),
        ("5\u03bcs", 5e-6),
        ("1e3s", 1000),
        ("0s", 0),
    ],
)
def test_durations_are_read_from_microseconds_to_days(text, expected):
    assert parse_seconds(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("text", ["", "soon", "90", "-1s", "1m", "2 hours", "1,5h", "1.2.3s", "h", "inf s", "1h30min"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(PlanError, match=r"not a duration\. Write it like 90s"):
        parse_seconds(text)


@pytest.mark.parametrize(("text", "expected"), [("0.057%", 0.00057), ("6.25 %", 0.0625), ("0.01", 0.01), ("250%", 2.5)])
def test_shares_are_read_as_numbers_and_in_percent(text, expected):
    assert parse_share(text) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("text", ["", "%", "-1%", "half", "1%%", "nan", "1e400x"])
def test_what_is_no_share_is_refused_with_an_example(text):
    with pytest.raises(PlanError, match=r"not a share of a whole\. Write it like 0\.5%"):
        parse_share(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (80 * 2**30, "80.0 GiB"),
        (-2048, "-2.00 KiB"),
    ],
)
def test_bytes_are_shown_in_three_digits(value, expected):
    assert show_bytes(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0 s"), (2, "2.00 s"), (0.0123, "12.3 ms"), (4.5e-5, "45.0 µs"), (3e-9, "3.0 ns"), (123.4, "123 s")],
)
def test_seconds_are_shown_with_a_fitting_prefix(value, expected):
    assert show_seconds(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(812, "812"), (6.3e6, "6.30 M"), (174_591_000_000, "175 G")])
def test_counts_are_shown_in_decimal_units(value, expected):
    assert show_count(value) == expected


@pytest.mark.parametrize(
    ("dtype", "size"), [(Dtype.FLOAT32, 4), (Dtype.FLOAT64, 8), (Dtype.BFLOAT16, 2), (Dtype.FLOAT16, 2)]
)
def test_a_dtype_knows_its_bytes(dtype, size):
    assert dtype.bytes == size


def test_every_dtype_has_a_size_and_a_wide_type_of_four_bytes_at_least():
    assert all(dtype.bytes > 0 for dtype in Dtype)
    assert [dtype.wide for dtype in Dtype] == [Dtype.FLOAT32, Dtype.FLOAT64, *[Dtype.FLOAT32] * 3]


@pytest.mark.parametrize("text", ["400Gbps", "1.5Gbps", "100Mbps", "64Kbps", "51200Gbps", "8bps"])
def test_a_rate_is_shown_as_it_is_read(text):
    assert show_rate(parse_bandwidth(text)) == text


@pytest.mark.parametrize(
    "text", ["1.50 min", "6.47 min", "2.00 h", "24.0 h", "2.50 d", "100 d", "9.00 s", "20.0 ms", "0 s"]
)
def test_a_duration_is_shown_as_it_is_read(text):
    assert show_duration(parse_seconds(text)) == text.replace("24.0 h", "1.00 d")
