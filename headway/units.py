"""Quantities as types (seconds, bytes, FLOPs) with their parsers and their text for people."""

import re
from enum import StrEnum
from typing import NewType

from headway.errors import PlanError

Seconds = NewType("Seconds", float)
Bytes = NewType("Bytes", int)
Flops = NewType("Flops", int)
BytesPerSecond = NewType("BytesPerSecond", float)
FlopsPerSecond = NewType("FlopsPerSecond", float)


class Dtype(StrEnum):
    """The element types that a plan may name, in torch's spelling; float8 is predicted, not trained."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT8 = "float8"

    @property
    def bytes(self) -> Bytes:
        """Bytes of one element."""
        return Bytes(_SIZES[self])

    @property
    def wide(self) -> "Dtype":
        """The type for sums and small numbers of tensors of this one: float32 for the narrow ones, else itself."""
        return Dtype.FLOAT32 if self.bytes <= 2 else self


_SIZES = {Dtype.FLOAT32: 4, Dtype.FLOAT64: 8, Dtype.BFLOAT16: 2, Dtype.FLOAT16: 2, Dtype.FLOAT8: 1}


_DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_NUMBER = r"\s*([0-9]{1,30}(?:\.[0-9]*)?(?:e[0-9]{1,2})?)\s*"
_BYTES = re.compile(_NUMBER + r"(?:([KMGT]i?)?B)?\s*")
_BANDWIDTH = re.compile(_NUMBER + r"([KMGT]?)(bps|bit/s|B/s)\s*")
_DURATIONS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400}
_SECONDS = re.compile(_NUMBER + f"({'|'.join(_DURATIONS)})" + r"\s*")
_SHARE = re.compile(_NUMBER + r"(%?)\s*")


def parse_bytes(text: str | int) -> Bytes:
    """Bytes from `64GiB`, `1.5MB`, `4096` or a whole number.

    >>> parse_bytes("4MiB"), parse_bytes("2KB"), parse_bytes(17)
    (4194304, 2000, 17)
    """
    if isinstance(text, int):
        return Bytes(text)
    match = _BYTES.fullmatch(text)
    if not match:
        raise PlanError(f"'{text}' is not a number of bytes. Write it like 64KiB, 4MiB or 80GB.")
    return Bytes(round(float(match[1]) * (_DECIMAL | _BINARY)[match[2] or ""]))


def parse_bandwidth(text: str) -> BytesPerSecond:
    """Bytes per second from `400Gbps` (bits) or `25GB/s` (bytes).

    >>> parse_bandwidth("400Gbps") == parse_bandwidth("50GB/s") == 50e9
    True
    """
    match = _BANDWIDTH.fullmatch(text)
    if not match:
        raise PlanError(f"'{text}' is not a bandwidth. Write it like 400Gbps or 50GB/s.")
    return BytesPerSecond(float(match[1]) * _DECIMAL[match[2]] / (1 if match[3] == "B/s" else 8))


def parse_seconds(text: str) -> Seconds:
    """Seconds from `90s`, `2min`, `3h`, `1.5d`, `250ms`, `5us` or `5µs`.

    >>> parse_seconds("90s"), parse_seconds("1.5h"), parse_seconds("20 ms")
    (90.0, 5400.0, 0.02)
    """
    match = _SECONDS.fullmatch(text)
    if not match:
        raise PlanError(f"'{text}' is not a duration. Write it like 90s, 2min, 3h, 1.5d or 20ms.")
    return Seconds(float(match[1]) * _DURATIONS[match[2]])


def parse_share(text: str) -> float:
    """A share of a whole from `0.057%` or `0.00057`; it may be above 1.

    >>> parse_share("50%"), parse_share("0.25")
    (0.5, 0.25)
    """
    match = _SHARE.fullmatch(text)
    if not match:
        raise PlanError(f"'{text}' is not a share of a whole. Write it like 0.5% or 0.005.")
    return float(match[1]) / (100 if match[2] else 1)


def show_bytes(value: float) -> str:
    """Bytes for people, in binary units.

    >>> show_bytes(1536), show_bytes(80 * 2**30), show_bytes(12)
    ('1.50 KiB', '80.0 GiB', '12 B')
    """
    for name, size in reversed(_BINARY.items()):
        if name and abs(value) >= size:
            return f"{_three_digits(value / size)} {name}B"
    return f"{value:.0f} B"


def show_rate(value: float) -> str:
    """Bytes per second as the bits per second that networks are sold by; `parse_bandwidth` reads it.

    >>> show_rate(50e9), show_rate(12.5e6)
    ('400Gbps', '100Mbps')
    """
    bits = value * 8
    name, size = next(((n, s) for n, s in (("G", 1e9), ("M", 1e6), ("K", 1e3)) if bits >= s), ("", 1.0))
    return f"{bits / size:g}{name}bps"


def show_seconds(value: float) -> str:
    """Seconds for people, with a fitting prefix.

    >>> show_seconds(0.0123), show_seconds(2), show_seconds(4.5e-5), show_seconds(0)
    ('12.3 ms', '2.00 s', '45.0 µs', '0 s')
    """
    if value == 0:
        return "0 s"
    for name, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= size:
            return f"{_three_digits(value / size)} {name}"
    return f"{value * 1e9:.1f} ns"


def show_duration(value: float) -> str:
    """Seconds for people in minutes, hours or days where they are many; `parse_seconds` reads it.

    >>> show_duration(90), show_duration(3818), show_duration(86400 * 2), show_duration(9)
    ('1.50 min', '1.06 h', '2.00 d', '9.00 s')
    """
    name = next((name for name in ("d", "h", "min") if abs(value) >= _DURATIONS[name]), None)
    return f"{_three_digits(value / _DURATIONS[name])} {name}" if name else show_seconds(value)


def show_count(value: float) -> str:
    """A large number for people, in decimal units.

    >>> show_count(174_591_000_000), show_count(812), show_count(6.3e6)
    ('175 G', '812', '6.30 M')
    """
    for name, size in reversed(_DECIMAL.items()):
        if name and abs(value) >= size:
            return f"{_three_digits(value / size)} {name}"
    return f"{value:.0f}"


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
