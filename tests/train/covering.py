"""Covering: few cases that together have every combination of so many values that any of the given ones has."""

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from itertools import combinations

from tests.train.cases import (
    Case,
    half_precision,
    matrix,
    single_precision,
    smoothed,
    splits,
    tensors,
    timed_zeros,
    zeros,
)

Combination = tuple[tuple[str, object], ...]


@cache
def sampled() -> tuple[Case, ...]:
    """Every pair of values that any case has, and the few cases that are compared with each other."""
    alike = [case for i, case in enumerate(zeros()[:64]) if i // 4 % 6 == 0]  # every sixth with its other stages
    beside = [*single_precision(), *half_precision(), *timed_zeros(), *alike]
    every = [*matrix(), *splits(), *smoothed(), *tensors(), *zeros()]
    return (*beside, *covering(every, 2, beside))


@cache
def full() -> tuple[Case, ...]:
    """Every three values that any case of the two products has, and all cases that are no product."""
    products = [*covering(matrix(), 3), *covering(tensors(), 3)]
    return (*products, *splits(), *smoothed(), *zeros(), *single_precision(), *half_precision())


def combinations_of(case: Case, size: int, names: Sequence[str] = ()) -> set[Combination]:
    """Each combination of `size` of a case's values, with their names; all names if none are given."""
    values = [(name, _value(case, name)) for name in names or [field.name for field in fields(case)]]
    return set(combinations(values, size))


def covering(cases: Sequence[Case], size: int, beside: Sequence[Case] = ()) -> list[Case]:
    """Those of `cases` that together with `beside` have all combinations of `size` values that any of them has.

    A greedy choice: the case with most that is new, the first of equals, until there is nothing new.
    """
    names = [field.name for field in fields(Case) if len({_value(case, field.name) for case in (*cases, *beside)}) > 1]
    done = {each for case in beside for each in combinations_of(case, size, names)}
    left = [(combinations_of(case, size, names), case) for case in cases]
    found = set[Case]()
    while left := [(rest, case) for every, case in left if (rest := every - done)]:
        new, case = max(left, key=lambda each: len(each[0]))
        found.add(case)
        done |= new
    return [case for case in cases if case in found]


def _value(case: Case, name: str) -> object:
    """A value as far as it makes a difference of kind: gradients are clipped or not, targets masked or not."""
    value = getattr(case, name)
    return {"clip": case.clip < 1, "valid": bool(case.valid)}.get(name, value)
