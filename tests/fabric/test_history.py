"""Histories: what is dead at which moment, however faults overlap."""

import numpy as np
import pytest

from headway.errors import PlanError
from headway.fabric.fault import links, parse
from headway.fabric.history import apart, history
from headway.fabric.topologies import named
from tests.fabric.jobs import HPN

FABRIC = named(HPN)


def _history(*faults):
    return history(FABRIC, [parse(each) for each in faults], 60.0)


def _dead(*faults):
    return np.logical_or.reduce([links(FABRIC, parse(each)) for each in faults])


def test_overlapping_faults_are_dead_together_and_each_state_stands_once():
    tor, nic = "tor tor-s0-r0-0", "nic host-1/gpu-0"
    found = _history(f"{tor} at 10s for 20s", f"{nic} at 20s for 20s")
    assert found.times.tolist() == [10, 20, 30, 40]
    assert found.which == (0, 1, 2, 3, 0)
    assert (found.states[2] == _dead(tor, nic)).all()
    assert (found.states[3] == _dead(nic)).all()
    assert found.broken[2] == (
        "tor-s0-r0-0 is down: 2 cards keep 1 of 2 ports",
        "nic host-1/gpu-0 is down: 1 card keeps 0 of 2 ports",
    )


def test_a_moment_belongs_to_what_begins_then_and_a_delay_looks_back():
    found = _history("nic host-1/gpu-0 at 10s for 20s")
    assert [found.at(moment) for moment in (0, 9.999, 10, 29.999, 30)] == [0, 0, 1, 1, 0]
    assert [found.at(moment, 0.3) for moment in (10, 10.2, 10 + 0.3, 30, 30 + 0.3)] == [0, 0, 1, 1, 0]


def test_a_flapping_fault_returns_to_the_same_two_states():
    found = _history("nic host-1/gpu-0 at 10s flapping every 5s")
    assert len(found.states) == 2
    assert found.which == (0, *(1, 0) * 10)


def test_what_differs_by_rounding_only_is_one_moment():
    assert apart([0.1 + 0.2, 0.3, 1.0, 0.3]).tolist() == [0.1 + 0.2, 1.0]
    assert apart([]).tolist() == []


def test_a_repair_and_a_fault_at_one_moment_are_one_change():
    found = _history("nic host-1/gpu-0 at 0.1s for 0.2s", "nic host-2/gpu-0 at 0.3s")
    assert found.which == (0, 1, 2)


def test_what_lasts_beyond_the_end_does_not_come_back():
    assert _history("nic host-1/gpu-0 at 10s for 2min").which == (0, 1)


def test_faults_that_contradict_have_no_history():
    with pytest.raises(PlanError, match="contradict"):
        _history("nic host-1/gpu-0", "nic host-1/gpu-0 at 3s")
