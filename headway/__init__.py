"""Headway plans, simulates, trains and compares large-language-model jobs on clusters."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.cluster.spec import Cluster
    from headway.layout import Layout
    from headway.model.spec import ModelSpec
    from headway.placement import Placement
    from headway.plan.plan import Plan
    from headway.plan.work import Work
    from headway.schedule.action import Action
    from headway.schedule.schedule import Schedule
    from headway.trace import Span, Trace

__all__ = ["Action", "Cluster", "Layout", "ModelSpec", "Placement", "Plan", "Schedule", "Span", "Trace", "Work"]

_PLACES = {
    "Action": "headway.schedule.action",
    "Cluster": "headway.cluster.spec",
    "Layout": "headway.layout",
    "ModelSpec": "headway.model.spec",
    "Placement": "headway.placement",
    "Plan": "headway.plan.plan",
    "Schedule": "headway.schedule.schedule",
    "Span": "headway.trace",
    "Trace": "headway.trace",
    "Work": "headway.plan.work",
}


def __getattr__(name: str) -> object:
    """A noun, imported when it is first asked for, so that `import headway` costs nothing."""
    if name not in _PLACES:
        raise AttributeError(f"module 'headway' has no attribute '{name}'")
    return getattr(importlib.import_module(_PLACES[name]), name)
