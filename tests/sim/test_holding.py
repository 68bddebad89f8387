"""Memory over time: what operations take and give, by rank and category."""

import numpy as np

from headway.plan.work import Work
from headway.sim.holding import over_time

FORWARD, BACKWARD = Work(takes={"activations": 5}), Work(takes={"messages": 2}, gives={"activations": 5})


def test_what_ends_gives_back_before_what_starts_takes():
    """Two forwards and backwards in turn on each of two ranks: one activation is held at a time."""
    times = np.array([0.0, 1.0, 2.0, 3.0])
    number, ranks = np.tile([0, 1], 4), np.repeat([3, 1], 4)
    held = over_time([FORWARD, BACKWARD], number, ranks, np.tile(times, 2), np.tile(times + 1, 2))
    assert list(held.peaks()) == [(1, "activations", 5), (1, "messages", 4), (3, "activations", 5), (3, "messages", 4)]
    mine = held.of(3)
    changes = [
        (time, mine.names[category], size)
        for time, category, size in zip(mine.times, mine.categories, mine.bytes, strict=True)
        if mine.names[category] == "activations"
    ]
    assert [size for *_, size in changes] == [5, 0, 5, 0]
    assert [time for time, *_ in changes] == [0.0, 2.0, 2.0, 4.0]


def test_where_nothing_is_taken_nothing_is_held():
    held = over_time([Work()], np.zeros(3, int), np.arange(3), np.zeros(3), np.ones(3))
    assert len(held.times) == 0
    assert list(held.peaks()) == []


def test_of_nothing_zero_bytes_are_held():
    """A category that is named is shown, also if it has no bytes."""
    held = over_time([Work(takes={"activations": 0})], np.zeros(1, int), np.zeros(1, int), np.zeros(1), np.ones(1))
    assert list(held.peaks()) == [(0, "activations", 0)]
