"""A plan played against the clock: the predicted Trace of one training step or one evaluation batch."""

import numpy as np

from headway.cluster.spec import Cluster
from headway.plan.memory import states
from headway.plan.plan import Plan
from headway.plan.work import Work, among, work
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
_PASSES = {Kind.FORWARD, Kind.BACKWARD}


def simulate(plan: Plan, program: Program | None = None, over: Network | None = None) -> Trace:
    """The predicted trace of `program` (default: the plan's training step) on all ranks, memory included.

    `over`: the network between nodes, where it is known already.

    Copies of a row (its data and tensor ranks) that share nothing and have links alike do the same at the same time:
    then one is played for all. Tensor ranks meet inside their operations, which take as long on each.
    """
    program, over = program or plan.program, over or network.network(plan)
    first, kinds = _kinds(program)
    ranks_of = _ranks(plan)
    replicas = len(ranks_of)
    works = _works(plan, program, first, ranks_of)
    prices = _prices(plan, works, _clusters(plan, program, first, over))
    alike = not plan.cluster.shared_cores and bool(np.all(prices == prices[0]))
    played = 1 if alike else replicas
    graph = graphs.build(program, replicas=played)
    # of each operation of the graph: its copy, its kind, and its rank in the layout
    pipeline, copies = np.divmod(graph.ranks, played)
    kinds = kinds[graph.source]
    ranks = ranks_of[copies, pipeline]
    starts, ends = engine.play(graph, prices[copies, kinds], _cores(plan, graph, ranks))
    # what was played once happened on every copy
    again = replicas // played
    ranks = np.concatenate([ranks_of[copies + copy, pipeline] for copy in range(again)])
    number = np.concatenate([(copies + copy) * len(first) + kinds for copy in range(again)])
    times = np.tile(starts, again), np.tile(ends, again)
    done = [each for of_copy in works for each in of_copy]
    held = holding.over_time(done, number, ranks, np.tile(_taken(graph, starts, ends), again), times[1])
    peaks: dict[int, dict[str, Bytes]] = {rank: states(plan, rank) for rank in np.unique(ranks).tolist()}
    passing = {kind for each in done for kind in each.within}  # no trainer keeps account of these
    for rank, kind, size in held.peaks():
        if kind not in passing:
            peaks[rank][kind] = size
    return Trace("predicted", _spans(graph, again, ranks, done, number, times), peaks, held)


def _kinds(program: Program) -> tuple[Column, Column]:
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
    """For each copy of the rows: what each kind of operation does there.

    A pass computes the same on every copy, among other tensor ranks.
    """
    operations, rows = list(program.operations[first]), program.ranks[first].tolist()
    found: list[list[Work]] = []
    for ranks in ranks_of.tolist():
        each = []
        for kind, (row, operation) in enumerate(zip(rows, operations, strict=True)):
            if found and operation.action.kind in _PASSES:
                each.append(among(plan, found[0][kind], ranks[row]))
            else:
                each.append(work(plan, program, ranks[row], operation))
        found.append(each)
    return found


def _clusters(plan: Plan, program: Program, first: Column, over: Network) -> list[Cluster]:
    """For each kind of operation the cluster with network cards as fast as they are in its exchange."""
    every = [exchanges.of_operation(plan, each) for each in program.operations[first]]
    slowed = {each: over.cluster(plan.cluster, each) for each in set(every)}
    return [slowed[each] for each in every]


def _prices(plan: Plan, works: list[list[Work]], clusters: list[Cluster]) -> Times:
    """[copies, kinds]: seconds of each work; those that do the same over the same way are priced once."""
    known: dict[tuple[object, ...], Seconds] = {}
    found = np.empty((len(works), len(works[0])))
    for copy, each in enumerate(works):
        for kind, (done, cluster) in enumerate(zip(each, clusters, strict=True)):
            key = (kind, done.traffic, done.bytes, cost.way(done, cluster))
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
