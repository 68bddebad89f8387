"""Convergence: how long hosts, switches, senders elsewhere and jobs take to act on a fault, and where that is from."""

import dataclasses
from dataclasses import dataclass

from headway.errors import PlanError
from headway.fabric.fault import NEVER
from headway.units import Seconds

_NOTICE, _REROUTE, _LEARN, _RESUME, _TIMEOUT = map(Seconds, (0.1, 0.3, 1.0, 9.0, 120.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Seconds after a fault, and likewise after a repair.

    `notice`: a host leaves a port of its own that has lost its carrier. `reroute`: switches have what remains in their
    tables: each its own links (ECMP), and by BGP the addresses that others no longer reach (HPN §4.2 withdraws the /32
    of a host). `learn`: a sender elsewhere knows which ports and planes no longer reach a card, and chooses among the
    others (NEVER: it does not, and waits for the repair). `resume`: a pair that was cut off sends again so long after
    the repair, since it retries ever more rarely. `collective_timeout`: a collective that stands still for longer ends
    its job.

    What comes back is used when switches have it again, so `notice` and `learn` count as `reroute` then where shorter.
    """

    notice: Seconds = _NOTICE
    reroute: Seconds = _REROUTE
    learn: Seconds = _LEARN
    resume: Seconds = _RESUME
    collective_timeout: Seconds = _TIMEOUT

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), field.name.replace("_", " ")
            if not value >= 0:
                raise PlanError(f"{name} is {value:g} s. Use 0s or more.")
            if value == NEVER and field.name != "learn":
                raise PlanError(f"{name} is never. Use a time; only learn may be never.")


SOURCES = {
    "notice": "carrier looked at every 100 ms, the default of Linux's bonding driver (miimon)",
    "reroute": "measured with FRR: 0.1 to 0.3 s; a fault that keeps the carrier takes BFD's 0.6 s or more",
    "learn": "assumed: no source says how a sender learns that a plane lost its peer; with `never` it does not",
    "resume": "HPN §9.3: a flap stalls single-ToR for over 9 s",
    "collective_timeout": "HPN §9.3, figure 18: single-ToR recovers when repaired within 1 min and is dead after 2",
}
