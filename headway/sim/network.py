"""Network: what share of its card's rate each exchange of a plan gets on a fabric when all its groups call at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from headway.cluster.spec import NO_FABRIC, Cluster
from headway.errors import PlanError
from headway.fabric import collectives, seating
from headway.fabric.connect import Connecting, connect, usual
from headway.fabric.fabric import NONE, Column, Fabric
from headway.fabric.hashing import hashing
from headway.fabric.route import Hop
from headway.fabric.traffic import GOODPUT, Traffic, capacities, started
from headway.fabric.ways import Ways, ways
from headway.plan import network as networks
from headway.plan.plan import Plan
from headway.sim import exchanges
from headway.sim.exchanges import EXCHANGES, Exchange, Ranks
from headway.units import BytesPerSecond

SEEDS = 20  # of hashes and source ports, of which a prediction takes the median
_ALL = 1 - 1e-9  # a share that differs from 1 by the order of sums


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a card's rate that the slowest group of an exchange gets: of all seeds the `median`, least and most.

    `link`: the directed link that bounds that group (of 2L; with the seed that is nearest to the median).
    """

    median: float
    least: float
    most: float
    link: int


@dataclass(frozen=True, slots=True)
class Network:
    """The shares of the exchanges that leave a node, with what they were found for; without a fabric there are none."""

    name: str = ""
    how: Connecting = field(default_factory=Connecting)
    shares: Mapping[Exchange, Share] = field(default_factory=dict)

    def __str__(self) -> str:
        slowed = {exchange: share for exchange, share in self.shares.items() if share.median < 1.0}
        said = ", ".join(f"{exchange} {share.median:.0%}" for exchange, share in slowed.items())
        return f"{self.name}, {self.how}: {said or 'all exchanges 100%'} of a card's rate"

    def document(self) -> dict[str, object]:
        """As `--json` prints it."""
        every = {exchange: {"median": s.median, "range": [s.least, s.most]} for exchange, s in self.shares.items()}
        return {"fabric": self.name, **asdict(self.how), "shares": every}

    def cluster(self, of: Cluster, exchange: Exchange) -> Cluster:
        """`of` with network cards as slow as they are in an exchange."""
        if exchange not in self.shares or self.shares[exchange].median == 1.0:
            return of
        rate = BytesPerSecond(of.between.bandwidth * self.shares[exchange].median)
        return replace(of, between=replace(of.between, bandwidth=rate))


FREE = Network()


@dataclass(frozen=True, slots=True, eq=False)
class Seated:
    """A plan on a fabric. `cards`: [world], each rank's GPU; `card`: bytes of payload a second of its network card."""

    plan: Plan
    fabric: Fabric
    ways: Ways
    cards: Column
    card: float


def network(plan: Plan) -> Network:
    """The network of a plan, its ranks packed; `FREE` where its cluster has no fabric or it needs one node only."""
    if plan.cluster.fabric == NO_FABRIC or plan.layout.world <= plan.cluster.devices_per_node:
        return FREE
    return contended(seat(plan))


def seat(plan: Plan, order: str | Sequence[int] = "packed", seed: int = 0) -> Seated:
    """The plan on its cluster's fabric: rank by rank on hosts in this order. Raises PlanError where it does not fit."""
    fabric = networks.of_cluster(plan.cluster, plan.layout.world)
    each, world = fabric.gpus_per_host, plan.layout.world
    hosts = seating.order(fabric, -(-world // each), order, seed)
    cards = (hosts[:, None] * each + np.arange(each)).ravel()[:world].astype(np.int32)
    return Seated(plan, fabric, ways(fabric), cards, float(fabric.card_rates.min()) * GOODPUT)


def contended(seated: Seated, how: Connecting | None = None, seeds: int = SEEDS) -> Network:
    """The shares of all exchanges, each alone on the fabric with all its groups, over so many seeds."""
    how = how or usual(seated.fabric)
    shares: dict[Exchange, Share] = {}
    for exchange in EXCHANGES:
        if parts := [each for each in traffic(seated, exchange) if len(each.source)]:
            found = min((_share(seated, each, how, seeds, exchange) for each in parts), key=lambda each: each.median)
            shares[exchange] = found
    return Network(seated.fabric.name, how, shares)


def traffic(seated: Seated, exchange: Exchange, size: Callable[[Ranks], float] = lambda _: 1.0) -> Iterator[Traffic]:
    """What its groups send between hosts at once: rings that gather `size` bytes, or messages of them, part by part."""
    fabric, cards, plan = seated.fabric, seated.cards, seated.plan
    if groups := exchanges.groups(plan, exchange):
        every = [collectives.group(fabric, cards[list(ranks)]) for ranks in groups]
        yield collectives.traffic(fabric, every, "all_gather", "ring", np.array([size(ranks) for ranks in groups]))
    for part in exchanges.messages(plan, exchange):
        source, target = cards[np.array(part)].T
        yield collectives.sends(fabric, source, target, np.array([size(ranks) for ranks in part]))


def _share(seated: Seated, sent: Traffic, how: Connecting, seeds: int, exchange: Exchange) -> Share:
    capacity, tried = capacities(seated.fabric), list[tuple[float, int]]()
    for seed in range(seeds):
        hashes = hashing(seated.fabric, seed)
        connected = connect(seated.ways, hashes, sent.source, sent.destination, how, seed)
        rates, bound = started(sent, connected, capacity, how.split)
        slowest = int(sent.channel[np.argmin(rates[sent.channel])])
        if not rates[slowest] > 0:
            raise PlanError(_no_way(seated, sent, slowest, exchange))
        share = float(rates[slowest]) / seated.card
        tried.append((1.0 if share > _ALL else share, int(bound[slowest])))
        if how.ports != "hash" and (connected.routes[:, Hop.TOR_UP] == NONE).all():
            break  # no switch chooses: all seeds are alike
    found = [share for share, _ in tried]
    median = float(np.median(found))
    return Share(median, min(found), max(found), min(tried, key=lambda each: abs(each[0] - median))[1])


def _no_way(seated: Seated, sent: Traffic, channel: int, exchange: Exchange) -> str:
    first = int(np.argmax(sent.channel == channel))
    ends = [seated.fabric.node_name(int(each[first])) for each in (sent.source, sent.destination)]
    return (
        f"{seated.fabric} has no way for all bytes from {ends[0]} to {ends[1]} or on from there, which the {exchange} "
        "exchange of the layout needs. Add links between their switches, or use other axes."
    )
