"""A plan played against the clock: the predicted Trace of one training step or one evaluation batch."""

from dataclasses import dataclass

import numpy as np

from headway.cluster.spec import Cluster, Link, Ring, ring
from headway.plan.memory import states
from headway.plan.plan import Plan
from headway.plan.work import Work, on_copy, work
from headway.schedule import graph as graphs
from headway.schedule.action import Kind, pack
from headway.schedule.graph import Graph
from headway.schedule.operation import LANES, Lane
from headway.schedule.program import Program
from headway.schedule.row import Column, Times
from headway.sim import cost, engine, exchanges, holding, network
from headway.sim.engine import Shared
from headway.sim.network import Network
from headway.trace import Spans, Trace
from headway.units import Bytes, Seconds

_COMPUTE = LANES.index(Lane.COMPUTE)


def simulate(plan: Plan, program: Program | None = None, over: Network | None = None) -> Trace:
    """The predicted trace of `program` (default: the plan's training step) on all ranks, memory included.

    `over`: the network between nodes, where it is known already.

    Copies of a row (its data and tensor ranks) that share nothing and have links alike do the same at the same time:
    then one is played for all. Tensor ranks meet inside their operations, which take as long on each.
    """
    ranks_of = _ranks(plan)
    played = _play(plan, program or plan.program, over or network.network(plan), ranks_of)
    graph, works, num_kinds = played.graph, played.works, len(played.works[0])
    # what was played once happened on every copy
    again = len(ranks_of) // played.copies
    pipeline, copies = np.divmod(graph.ranks, played.copies)
    ranks = np.concatenate([ranks_of[copies + copy, pipeline] for copy in range(again)])
    number = np.concatenate([(copies + copy) * num_kinds + played.kinds for copy in range(again)])
    times = np.tile(played.starts, again), np.tile(played.ends, again)
    done = [each for of_copy in works for each in of_copy]
    taken = np.tile(_taken(graph, played.starts, played.ends), again)
    held = holding.over_time(done, number, ranks, taken, times[1])
    peaks = _states(plan, np.unique(ranks).tolist())
    passing = {kind for each in done for kind in each.within}  # no trainer keeps account of these
    for rank, kind, size in held.peaks():
        if kind not in passing:
            peaks[rank][kind] = size
    return Trace("predicted", _spans(graph, again, ranks, done, number, times), peaks, held)


def step_seconds(plan: Plan, over: Network) -> Seconds:
    """Seconds of the training step as `simulate` predicts them, without the trace and so in a fraction of its time."""
    ranks_of = _ranks(plan)
    if not plan.cluster.shared_cores and _links_alike(plan, ranks_of):
        ranks_of = ranks_of[:1]  # no other copy has more to do than the first
    return Seconds(float(_play(plan, plan.program, over, ranks_of).ends.max()))


@dataclass(frozen=True, slots=True, eq=False)
class _Played:
    """The operations of `graph`, of so many `copies` of the rows.

    `works`: of every copy and kind, played or not. [n]: the kind of each operation, when it starts and when it ends.
    """

    graph: Graph
    copies: int
    works: list[list[Work]]
    kinds: Column
    starts: Times
    ends: Times


def _play(plan: Plan, program: Program, over: Network, ranks_of: Column) -> _Played:
    """The program played by the copies of its rows that have these ranks; one of them if they are alike."""
    first, kinds = alike(program)
    works = _works(plan, program, first, ranks_of)
    prices = _prices(plan, works, _clusters(plan, program, first, over))
    copies = 1 if not plan.cluster.shared_cores and np.all(prices == prices[0]) else len(ranks_of)
    graph = graphs.build(program, replicas=copies)
    # of each operation of the graph: its copy, its kind, and its rank in the layout
    pipeline, copy = np.divmod(graph.ranks, copies)
    kinds = kinds[graph.source]
    starts, ends = engine.play(graph, prices[copy, kinds], _cores(plan, graph, ranks_of[copy, pipeline]))
    return _Played(graph, copies, works, kinds, starts, ends)


def _links_alike(plan: Plan, ranks_of: Column) -> bool:
    """Whether every copy of the rows has links alike: told by what each rank's exchanges go over."""
    cluster, over = plan.cluster, np.zeros(plan.layout.world, dtype=np.int64)
    ways: dict[Ring | Link, int] = {}
    for exchange in exchanges.EXCHANGES:
        for ranks in exchanges.groups(plan, exchange):
            over[list(ranks)] = ways.setdefault(ring(cluster, ranks), len(ways))
        alike = [over[ranks_of]]
        for part in exchanges.messages(plan, exchange):
            for source, target in part:
                over[source] = ways.setdefault(cluster.link(source, target), len(ways))
            alike.append(over[ranks_of])
        if any((each != each[0]).any() for each in alike):
            return False
    return True


def alike(program: Program) -> tuple[Column, Column]:
    """Operations of one row that differ in their micro-batch only are of one kind: they do the same.

    Not the last backward of a stage, which may complete gradients over the tensor axis.
    [kinds]: the place of the first of each; [n]: the kind of every operation.
    """
    every = program.operations
    last = np.isin(every.codes, [action.code for action in program.schedule.final.values()])
    alike = pack(every.kinds, every.stages, 2 * (program.ranks * len(every.names) + every.parts) + last)
    _, first, kinds = np.unique(alike, return_index=True, return_inverse=True)
    return first, kinds


def _works(plan: Plan, program: Program, first: Column, ranks_of: Column) -> list[list[Work]]:
    """For each copy of the rows: what each kind of operation does there; on all but the first by what it does there."""
    operations, rows = list(program.operations[first]), program.ranks[first].tolist()
    ranks, *others = ranks_of.tolist()
    here = [work(plan, program, ranks[row], each) for row, each in zip(rows, operations, strict=True)]
    kinds = list(zip(rows, operations, here, strict=True))
    return [here, *([on_copy(plan, program, each, done, on[row]) for row, each, done in kinds] for on in others)]


def _clusters(plan: Plan, program: Program, first: Column, over: Network) -> list[Cluster]:
    """For each kind of operation the cluster with network cards as fast as they are in its exchange."""
    every = [exchanges.of_operation(plan, each) for each in program.operations[first]]
    slowed = {each: over.cluster(plan.cluster, each) for each in set(every)}
    return [slowed[each] for each in every]


def _prices(plan: Plan, works: list[list[Work]], clusters: list[Cluster]) -> Times:
    """[copies, kinds]: seconds of each work; those that do the same over the same way are priced once."""
    known: dict[tuple[object, ...], Seconds] = {}
    ways: dict[tuple[int, str], Ring | Link | None] = {}  # by kind and edge: collectives of a thousand ranks are many
    found = np.empty((len(works), len(works[0])))
    for copy, each in enumerate(works):
        for kind, (done, cluster) in enumerate(zip(each, clusters, strict=True)):
            if (kind, done.edge) not in ways:
                ways[kind, done.edge] = cost.way(done, cluster)
            key = (kind, done.traffic, done.bytes, ways[kind, done.edge])
            if key not in known:
                known[key] = cost.seconds(done, cluster, plan.train.precision)
            found[copy, kind] = known[key]
    return found


def _ranks(plan: Plan) -> Column:
    """[data · tensor, pipeline]: the rank there."""
    data, tensor, pipeline = (plan.layout.size(axis) for axis in ("data", "tensor", "pipeline"))
    rank = plan.layout.rank
    copies = [(d, t) for d in range(data) for t in range(tensor)]
    return np.array([[rank({"data": d, "tensor": t, "pipeline": p}) for p in range(pipeline)] for d, t in copies])


def _states(plan: Plan, ranks: list[int]) -> dict[int, dict[str, Bytes]]:
    """For each rank what it holds of the model; tensor ranks hold alike."""
    firsts = [plan.layout.along(rank, {"tensor": (0,)})[0] for rank in ranks]
    held = {first: states(plan, first) for first in set(firsts)}
    return {rank: dict(held[first]) for rank, first in zip(ranks, firsts, strict=True)}


def _taken(graph: Graph, starts: Times, ends: Times) -> Times:
    """When each operation takes its memory: at its start, a gather when it is issued, though its lane may be busy."""
    computing = graph.lanes == _COMPUTE
    last = np.maximum.accumulate(np.where(computing, np.arange(len(graph)), -1))  # the computing one before, or itself
    issued = np.where((last >= 0) & (graph.ranks[last] == graph.ranks), ends[last], 0.0)
    return np.where(graph.operations.of(Kind.UNSHARD), issued, starts)


def _cores(plan: Plan, graph: Graph, ranks: Column) -> Shared | None:
    """The cores of each node, which computing operations share; None where each device computes on its own."""
    if not plan.cluster.shared_cores:
        return None
    nodes = np.array([plan.cluster.node(rank) for rank in range(plan.layout.world)])
    return Shared(
        np.where(graph.lanes == _COMPUTE, nodes[ranks], -1), np.full(nodes[-1] + 1, plan.cluster.shared_cores)
    )


def _spans(
    graph: Graph, again: int, ranks: Column, done: list[Work], number: Column, times: tuple[Times, Times]
) -> Spans:
    names = tuple(dict.fromkeys(["", *(each.edge for each in done)]))
    place = {name: i for i, name in enumerate(names)}
    edges, sizes = np.array([place[each.edge] for each in done]), np.array([each.bytes for each in done])
    every = np.tile(np.arange(len(graph)), again)
    return Spans(ranks, graph.lanes[every], graph.operations[every], *times, edges[number], sizes[number], LANES, names)
