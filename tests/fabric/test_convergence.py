"""Delays: every one has a source, and none is negative or missing."""

import dataclasses

import pytest

from headway.errors import PlanError
from headway.fabric.convergence import SOURCES, Delays
from headway.fabric.fault import NEVER


def test_every_delay_says_where_it_is_from():
    assert list(SOURCES) == [field.name for field in dataclasses.fields(Delays)]
    assert SOURCES["learn"].startswith("assumed")


def test_only_learning_may_never_happen():
    assert Delays(learn=NEVER).learn == NEVER
    with pytest.raises(PlanError, match="collective timeout is never"):
        Delays(collective_timeout=NEVER)
    with pytest.raises(PlanError, match="reroute is -1 s"):
        Delays(reroute=-1.0)
