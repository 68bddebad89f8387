"""Tensor groups that do not sit inside a node: which, and what their collectives cost between nodes."""

from dataclasses import dataclass

from headway.cluster.spec import Ring, spread
from headway.plan.plan import Plan
from headway.plan.work import work
from headway.schedule.action import Action, Kind
from headway.schedule.operation import Operation
from headway.sim.cost import collectives
from headway.units import Seconds, show_seconds


@dataclass(frozen=True, slots=True)
class Crossing:
    """So many of the `groups` are on several nodes; seconds of a micro-batch's collectives there and inside one."""

    crossing: int
    groups: int
    between: Seconds
    inside: Seconds


def crossing(plan: Plan) -> Crossing | None:
    """None where every tensor group sits inside a node; ranks fill nodes in order, the tensor axis fastest."""
    groups, cluster = plan.layout.groups("tensor"), plan.cluster
    over = [ranks for ranks in groups if len({cluster.node(rank) for rank in ranks}) > 1]
    if not over:
        return None
    rank = over[0][0]
    between, inside = (spread(cluster, len(over[0]), each) for each in (cluster.devices_per_node, len(over[0])))
    return Crossing(len(over), len(groups), _seconds(plan, rank, between), _seconds(plan, rank, inside))


def crossing_text(plan: Plan) -> str:
    """One line about the groups on several nodes, with what it costs; empty where there are none."""
    found, cluster, tensor = crossing(plan), plan.cluster, plan.layout.size("tensor")
    if found is None:
        return ""
    each = cluster.devices_per_node
    legal = [n for n in range(1, each + 1) if each % n == 0 and tensor % n == 0]
    return (
        f"Tensor groups of {tensor} do not fit into nodes of {each} devices: {found.crossing} of {found.groups} are on "
        f"several, and their collectives take {show_seconds(found.between)} a micro-batch over {cluster.between.name}, "
        f"in place of {show_seconds(found.inside)} over {cluster.inside.name}. parallel.tensor {legal[-1]} fits."
    )


def _seconds(plan: Plan, rank: int, over: Ring) -> Seconds:
    """Collectives of one micro-batch, forward and backward, of all stages of a rank."""
    stages = plan.schedule.stages(plan.layout.coord(rank)["pipeline"])
    actions = [Action(kind, stage, 0) for stage in stages for kind in (Kind.FORWARD, Kind.BACKWARD)]
    works = [work(plan, plan.program, rank, Operation(action)) for action in actions]
    return Seconds(sum(collectives(done.calls, over) for done in works))
