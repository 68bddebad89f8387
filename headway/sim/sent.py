"""What a step of a plan sends on its fabric, by purpose: bytes across hosts, segments and pods, and seconds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headway.model.exchange import passed_on
from headway.plan.plan import Plan
from headway.plan.work import Work, work
from headway.schedule.action import Kind
from headway.schedule.operation import Operation
from headway.sim import cost, exchanges, network
from headway.sim.exchanges import Exchange, Ranks
from headway.sim.network import Network, Seated, Share
from headway.sim.simulate import alike
from headway.units import Bytes, Seconds

_RECEIVES = {Kind.RECV_F, Kind.RECV_B}  # the other end of a message that is counted where it is sent
_OWN = {
    Kind.BEGIN: "token counts",
    Kind.UNSHARD: "parameter gathers",
    Kind.REDUCE_GRAD: "gradient sums",
    Kind.STEP: "step totals",
    Kind.SEND_F: "activations",
    Kind.SEND_B: "their gradients",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent for one purpose in a step by all `groups` of so many `ranks` (pairs of a sender and a receiver).

    `bytes`: of all ranks together; those that leave a host (`hosts`), a segment and a pod among them. `share` of its
    card's rate that the slowest group gets; None where all stay inside their hosts. `seconds`: of the rank that takes
    longest, one call after another; `closed`: if no other group were there.
    """

    purpose: str
    exchange: Exchange
    groups: int
    ranks: int
    bytes: Bytes
    hosts: Bytes
    segments: Bytes
    pods: Bytes
    share: Share | None
    seconds: Seconds
    closed: Seconds


@dataclass(slots=True)
class _Account:
    """Of one purpose: bytes that a rank passes on, by its pipeline rank and a message's target, and seconds by rank."""

    exchange: Exchange
    passed: dict[tuple[int, ...], float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    closed: dict[int, float] = field(default_factory=dict)


def sent(seated: Seated, over: Network) -> tuple[Sent, ...]:
    """What the training step sends, by purpose, the most bytes first."""
    every = [_sent(seated, over, purpose, account) for purpose, account in _accounts(seated.plan, over).items()]
    return tuple(sorted(every, key=lambda each: -each.bytes))


def crossing(every: Sequence[Sent], *exchanges: Exchange) -> tuple[Bytes, Bytes]:
    """Bytes of some exchanges (none: of all) that cross segments, and those that cross pods."""
    chosen = [each for each in every if not exchanges or each.exchange in exchanges]
    return Bytes(sum(each.segments for each in chosen)), Bytes(sum(each.pods for each in chosen))


def _accounts(plan: Plan, over: Network) -> dict[str, _Account]:
    """All copies of the rows send alike: counted is the first."""
    program = plan.program
    first, kinds = alike(program)
    ranks = [plan.layout.rank({"pipeline": pipeline}) for pipeline in range(plan.layout.size("pipeline"))]
    rows, times = program.ranks[first].tolist(), np.bincount(kinds).tolist()
    found: dict[str, _Account] = {}
    for row, operation, count in zip(rows, program.operations[first], times, strict=True):
        done = work(plan, program, ranks[row], operation)
        if not done.edge or operation.action.kind in _RECEIVES:
            continue
        exchange = exchanges.of_operation(plan, operation)
        account = found.setdefault(_purpose(exchange, operation), _Account(exchange))
        key = (row, plan.layout.coord(done.group[1])["pipeline"]) if "→" in done.edge else (row,)
        account.passed[key] = account.passed.get(key, 0.0) + count * _passed(done)
        for seconds, cluster in (
            (account.seconds, over.cluster(plan.cluster, exchange)),
            (account.closed, plan.cluster),
        ):
            seconds[row] = seconds.get(row, 0.0) + count * cost.communicating(done, cluster)
    return found


def _purpose(exchange: Exchange, operation: Operation) -> str:
    if exchange == "shared":
        return "shared embedding"
    return _OWN.get(operation.action.kind, "tensor ranks")


def _passed(done: Work) -> float:
    """Bytes that a rank passes on in a message, or in the collectives of `done`."""
    if "→" in done.edge:
        return done.bytes
    return sum(passed_on(call.kind, len(done.group)) * call.bytes for call in done.calls)


def _sent(seated: Seated, over: Network, purpose: str, account: _Account) -> Sent:
    plan, fabric = seated.plan, seated.fabric
    groups = exchanges.groups(plan, account.exchange)
    messages = [pair for part in exchanges.messages(plan, account.exchange) for pair in part]

    def passed(ranks: Ranks) -> float:
        pipeline = [plan.layout.coord(rank)["pipeline"] for rank in ranks[: 2 if messages else 1]]
        return account.passed.get(tuple(pipeline), 0.0)

    def buffer(ranks: Ranks) -> float:
        """What a ring gathers, or a message holds, that passes so many bytes on."""
        return passed(ranks) * (1.0 if messages else len(ranks) / (len(ranks) - 1))

    across = np.zeros(3)
    for part in network.traffic(seated, account.exchange, buffer):
        size, ends = part.bytes[part.channel], (part.source, part.destination)
        parted = [np.not_equal(*(column[end] for end in ends)) for column in (fabric.segment, fabric.pod)]
        across += [float(size.sum()), *(float(size[each].sum()) for each in parted)]
    whole = sum(map(passed, messages)) + sum(len(ranks) * passed(ranks) for ranks in groups)
    every = messages or groups
    hosts, segments, pods = (Bytes(round(each)) for each in across.tolist())
    return Sent(
        purpose=purpose,
        exchange=account.exchange,
        groups=len(every),
        ranks=len(every[0]),
        bytes=Bytes(round(whole)),
        hosts=hosts,
        segments=segments,
        pods=pods,
        share=over.shares.get(account.exchange),
        seconds=Seconds(max(account.seconds.values())),
        closed=Seconds(max(account.closed.values())),
    )
