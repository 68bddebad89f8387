"""Jobs on fabrics for tests of goodput, and lives told event by event."""

import numpy as np

from headway.advise.exposure import Exposure
from headway.advise.failures import Events
from headway.advise.life import live

HOUR = 3600.0
ONE = Exposure("one", gpus=3000, hosts=375, segments=47, links=3000, tors=47, homes=1, hosts_under_tor=8)
TWO = Exposure("two", gpus=3000, hosts=375, segments=3, links=6000, tors=48, homes=2, hosts_under_tor=128)
LOSSES = ("rework", "restart", "checkpoints", "degraded", "stalls")
_WAITS = ("network", "other", "stall")


def told(*events):
    """Events of one trial from (time, word, wait): `network`, `other`, `stall`, `slow`, `whole`, `move`."""
    events = sorted(events, key=lambda each: each[0])
    words = np.array([[word for _, word, _ in events]]).reshape(1, -1)
    slow = np.zeros(words.shape, bool)
    for place in range(words.shape[1]):
        before = bool(slow[0, place - 1]) if place else False
        slow[0, place] = {"slow": True, "whole": False}.get(str(words[0, place]), before)
    return Events(
        times=np.array([[float(time) for time, _, _ in events]]).reshape(1, -1),
        crash=np.isin(words, ["network", "other"]),
        network=words == "network",
        wait=np.array([[wait if word in _WAITS else 0.0 for _, word, wait in events]], float).reshape(1, -1),
        slow=slow,
        move=words == "move",
    )


def lived(*events, horizon=24 * HOUR, interval=2 * HOUR, checkpoint=100.0, restart=400.0, slowdown=0.1):
    """One life's seconds by what they went into, as numbers."""
    found = live(
        told(*events), horizon=horizon, interval=interval, checkpoint=checkpoint, restart=restart, slowdown=slowdown
    )
    return {name: float(getattr(found, name)[0]) for name in found.__dataclass_fields__}
