"""Ranks and edges as people write them: `0–15`, `{0–7,120–127}`, `0→8, 1→9 … 119→127 (120 edges)`."""

import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value", bound=Hashable)
_FEW = 4


def numbers(ranks: Collection[int], join: str = ", ") -> str:
    """Whole numbers with runs of three or more shortened, and long lists that are no runs cut in the middle.

    >>> numbers([0, 1, 2, 3, 8, 10]), numbers(range(0, 128, 8))
    ('0–3, 8, 10', '0, 8, …, 120')
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = [text for run in runs for text in ([f"{run[0]}–{run[-1]}"] if len(run) > 2 else map(str, run))]
    return join.join(texts if len(texts) <= 2 * _FEW else [*texts[:2], "…", texts[-1]])


def group(ranks: Collection[int]) -> str:
    """A group of ranks in braces: `{0–7,120–127}`."""
    return f"{{{numbers(ranks, ',')}}}"


def edge(name: str) -> str:
    """An edge of a trace, a collective's ranks shortened.

    >>> edge("{0,1,2,3}"), edge("3→1")
    ('{0–3}', '3→1')
    """
    return group(_ranks(name)) if name.startswith("{") else name


def some(names: Sequence[str], noun: str = "", join: str = ", ") -> str:
    """All names if they are few, else the first ones, the last one and how many there are.

    >>> some("abc"), some("abcdefgh", "letters")
    ('a, b, c', 'a, b, c … h (8 letters)')
    """
    if len(names) <= _FEW:
        return join.join(names)
    return f"{join.join(names[: _FEW - 1])} … {names[-1]} ({f'{len(names)} {noun}'.strip()})"


def equal_edges(values: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """Edges with equal values in one line: messages first, in the order of their ranks.

    >>> equal_edges({"1→3": 5, "0→2": 5, "{0,1}": 7})
    (('0→2, 1→3', 5), ('{0,1}', 7))
    """
    found: dict[tuple[bool, Value], list[str]] = {}
    for name in sorted(values, key=lambda name: (name.startswith("{"), _ranks(name))):
        found.setdefault((name.startswith("{"), values[name]), []).append(name)
    return tuple((some([edge(n) for n in names], "edges"), value) for (_, value), names in found.items())


def _ranks(name: str) -> list[int]:
    return [int(rank) for rank in re.findall(r"\d+", name)]
