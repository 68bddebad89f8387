"""Stages of an outline: the blocks of each, and how long each takes forward and backward, by what the time is for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import assert_never

from headway.cluster.spec import Ring
from headway.model import exchange as exchanges
from headway.model import recompute
from headway.model.block import Block, Kind, blocks
from headway.model.cost import of_kind
from headway.model.cut import num_held, vocabulary
from headway.model.exchange import Call, Collective
from headway.model.pieces import Cost, Effort, Pieces, Product
from headway.model.spec import ModelSpec
from headway.model.split import of_alike
from headway.plan.price import Price, price, waiting
from headway.sim.cost import collectives
from headway.sim.offload import fetched
from headway.sim.outline import Outline
from headway.units import Bytes, Flops, Seconds

_PICOSECONDS = 1e12


@dataclass(frozen=True, slots=True)
class Way:
    """One pass over a stage and micro-batch: seconds by what they are for."""

    parts: Mapping[str, float]

    @property
    def seconds(self) -> Seconds:
        """All of them."""
        return Seconds(sum(self.parts.values()))


@dataclass(frozen=True, slots=True)
class Stages:
    """Each stage's `layers`, passes and bytes kept for a micro-batch's backward (`saved`).

    `weights`: seconds of a backward that only the weights' gradients need, which a split backward leaves for later.
    `numel`: for each pipeline rank the parameters of a tensor rank; `embedding`: those of the token embedding. `again`:
    bytes that a layer computed again holds during its backward.
    """

    layers: tuple[int, ...]
    forward: tuple[Way, ...]
    backward: tuple[Way, ...]
    weights: tuple[float, ...]
    saved: tuple[int, ...]
    numel: tuple[int, ...]
    embedding: int
    layer: int
    again: int


@dataclass(frozen=True, slots=True)
class _Block:
    """One block of an outline: both passes, what is kept, its parameters on a tensor rank, and those that multiply."""

    forward: Way
    backward: Way
    weights: float
    saved: int
    numel: int
    weight: int
    again: int = 0


def stages(outline: Outline) -> Stages:
    """The stages of `outline`."""
    embedding, layer, head = (_block(outline, kind) for kind in ("embedding", "layer", "head"))
    layers = _layers(outline, (embedding, layer, head))
    each_kind = {"embedding": embedding, "layer": layer, "head": head}
    members = [[(count, each_kind[kind]) for kind, count in held(layers, stage)] for stage in range(len(layers))]
    waits = (1, Way({"host": outline.stack.host_rank * outline.world / 2}))  # half of it each way
    forward = tuple(_sum([*((count, block.forward) for count, block in each), waits]) for each in members)
    backward = tuple(_sum([*((count, block.backward) for count, block in each), waits]) for each in members)
    weights = tuple(sum(count * block.weights for count, block in each) for each in members)
    sent = outline.sizes.tokens * outline.model.hidden * outline.dtype.bytes // outline.sizes.cuts
    kept = [sum(count * block.saved for count, block in each) for each in members]
    saved = (*(size + sent for size in kept[:-1]), kept[-1])
    padded, plain = (
        vocabulary(outline.model, outline.tensor, multiple) * outline.model.hidden
        for multiple in (outline.stack.pads_vocabulary, 1)
    )
    numel = [layer.numel * sum(layers[stage] for stage in outline.stages_of(rank)) for rank in range(outline.pipeline)]
    beside = 0 if outline.model.tied else plain  # a tied weight is in neither block
    numel[0] += padded + embedding.numel - beside
    numel[outline.head_rank] += head.numel - beside
    if outline.ties_ranks or not outline.model.tied:
        numel[outline.head_rank] += padded
    return Stages(layers, forward, backward, weights, saved, tuple(numel), padded, layer.numel, layer.again)


def held(layers: Sequence[int], stage: int) -> Iterator[tuple[Kind, int]]:
    """The blocks of a stage, where stages have so many `layers`: each kind, and how many of it."""
    if stage == 0:
        yield "embedding", 1
    yield "layer", layers[stage]
    if stage == len(layers) - 1:
        yield "head", 1


def exchange(over: Ring, kind: Collective, size: int) -> float:
    """Seconds of a collective of a buffer of `size` bytes."""
    return collectives([Call(kind, Bytes(size))], over)


def _layers(outline: Outline, blocks: Sequence[_Block]) -> tuple[int, ...]:
    """Layers of each stage; `blocks` are the embedding, a layer and the head."""
    count, parts = outline.model.layers, outline.pipeline * outline.chunks
    if outline.layers:
        return outline.layers
    if parts == 1:
        return (count,)
    match outline.stack.splits:
        case "even":
            each, rest = divmod(count, parts)
            return tuple(each + (stage < rest) for stage in range(parts))
        case "balanced":
            embedding, layer, head = (round((b.forward.seconds + b.backward.seconds) * _PICOSECONDS) for b in blocks)
            return of_alike(embedding, layer, head, count, parts)
        case "running":
            return _running(count, parts, layer=blocks[1].weight, head=blocks[2].weight)
        case _:
            assert_never(outline.stack.splits)


def _running(count: int, parts: int, *, layer: int, head: int) -> tuple[int, ...]:
    """Each stage takes layers until their running weight has passed its share of the whole.

    >>> _running(16, 4, layer=1, head=4)
    (6, 5, 5, 0)
    """
    found, stage = [0] * parts, 0
    for place in range(1, count + 1):
        found[stage] += 1
        if place * layer * parts > (count * layer + head) * (stage + 1):
            stage = min(stage + 1, parts - 1)
    return tuple(found)


def cost_of(outline: Outline, kind: Kind) -> Cost:
    """Cost of a block of that kind."""
    numel = num_held(_one(outline.model, kind).parameters, outline.tensor)
    return of_kind(kind, numel, Pieces(outline.model, outline.sizes, outline.stack))


def _block(outline: Outline, kind: Kind) -> _Block:
    one = _one(outline.model, kind)
    numel = num_held(one.parameters, outline.tensor)
    pieces = Pieces(outline.model, outline.sizes, outline.stack)
    cost = of_kind(kind, numel, pieces)
    there, back = _priced(outline, cost.forward), _priced(outline, cost.backward, backward=True)
    calls = exchanges.forward(outline.model, one, outline.sizes), exchanges.backward(outline.model, one, outline.sizes)
    forward = {**_times(there), "tensor exchange": _tensor(outline, there, calls[0])}
    backward = {**_times(back), "tensor exchange": _tensor(outline, back, calls[1], backward=True)}
    saved, again, more = int(cost.saved), 0, (0, 0)
    if kind == "layer":
        if outline.context > 1:
            forward["context exchange"], backward["context exchange"] = _context(outline, pieces, there, back)
        backward["recompute"], saved, more = _recompute(outline, pieces, cost, forward, len(calls[0]))
        again = cost.saved - saved
    _host(outline, forward, cost.forward.kernels, len(calls[0]))
    _host(outline, backward, cost.backward.kernels + more[0], len(calls[1]) + more[1], backward=True)
    if kind == "layer" and outline.zero == 3:
        _gathers(outline, numel, forward, backward)
    if kind == "embedding" and outline.zero == 3 and outline.stack.gathers_embedding:
        tied = outline.model.vocabulary * outline.model.hidden // outline.tensor if outline.model.tied else 0
        whole = numel + (0 if outline.ties_ranks else tied)
        forward["gathers"] = exchange(outline.sharing(), "all_gather", whole * outline.dtype.bytes)
    weight = sum(p.n * p.k for p in cost.forward.products if p.batch == 1)
    second = tuple(product.backward[1] for product in cost.forward.products if product.batch == 1)
    weights = min(_priced(outline, Effort(second)).products, sum(backward.values()))
    return _Block(Way(forward), Way(backward), weights, saved, numel, weight, again)


def _priced(outline: Outline, effort: Effort, *, backward: bool = False) -> Price:
    return price(outline.cluster.device, effort, outline.dtype, outline.stack, backward=backward)


def _times(priced: Price) -> dict[str, float]:
    return {"products": priced.products, "attention": priced.attention, "memory traffic": priced.traffic}


def _tensor(outline: Outline, priced: Price, calls: tuple[Call, ...], *, backward: bool = False) -> float:
    """The collectives of tensor ranks, as far as they are not behind products.

    What overlaps a product leaves the first of t pieces, or what takes longer than the products.
    """
    if outline.tensor == 1:
        return 0.0
    over, overlaps = outline.inside(outline.tensor, stride=1), outline.stack.overlaps
    if "regathers" in overlaps and backward:
        calls = _gathered_once(calls)
    hidden = [call for call in calls if "sums" in overlaps or call.kind == "all_gather"] if "tensor" in overlaps else []
    behind = collectives(hidden, over)
    return collectives(calls, over) - behind + max(behind / outline.tensor, behind - priced.products)


def _gathered_once(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """A backward's calls less those that gather once more what a product took, one for each sum that is scattered."""
    again = sum(call.kind == "reduce_scatter" for call in calls)
    gathers = [place for place, call in enumerate(calls) if call.kind == "all_gather"][:again]
    return tuple(call for place, call in enumerate(calls) if place not in gathers)


def _context(outline: Outline, pieces: Pieces, there: Price, back: Price) -> tuple[float, float]:
    """Ring attention: keys and values go round the context ranks while each part is attended to (Liu et al. 2023)."""
    c, moved = outline.context, 2 * pieces.tokens * pieces.keys * outline.dtype.bytes
    link = outline.inside(c, stride=outline.tensor)
    rounds = (c - 1) * (link.call + moved / link.bandwidth)
    return max(0.0, rounds - there.attention), max(0.0, 2 * rounds - back.attention)


def _recompute(
    outline: Outline, pieces: Pieces, cost: Cost, forward: Mapping[str, float], calls: int
) -> tuple[float, int, tuple[int, int]]:
    """Seconds that a layer's backward computes again, bytes that it keeps all the same, kernels and calls for it."""
    spec = outline.model
    whole, inputs = sum(forward.values()), recompute.again("full", pieces, cost).saved
    match outline.recompute:
        case "none":
            return 0.0, cost.saved, (0, 0)
        case "full":
            return whole, inputs, (cost.forward.kernels, calls)
        case "fraction":
            share = outline.recomputed
            kept = round(share * inputs + (1 - share) * cost.saved)
            return share * whole, kept, (round(share * cost.forward.kernels), round(share * calls))
        case "selective":
            core = recompute.again("selective", pieces, cost)
            return _priced(outline, core.effort).seconds, core.saved, (core.effort.kernels, 0)
        case "op-level":
            # torchtitan keeps what every other product gives (queries and values, gate, down) and the fused attention
            queries, keys, h = pieces.queries, pieces.keys, spec.hidden
            f, narrow = spec.feed_forward // outline.tensor, outline.sizes.narrow
            taken = [(keys, h), (h, queries), (f, h)] if spec.family == "llama" else [(h, queries), (h, f)]
            products = tuple(Product(pieces.tokens, n, k, narrow=narrow) for n, k in taken)
            kept = queries + keys + f + h if spec.family == "llama" else queries + 2 * keys + f
            again = replace(cost.forward, products=products, attention=Flops(0))
            saved = inputs + pieces.tokens * (kept + queries) * outline.dtype.bytes
            return _priced(outline, again).seconds, saved, (again.kernels, 0)


def _host(outline: Outline, parts: dict[str, float], kernels: int, calls: int, *, backward: bool = False) -> None:
    """What the host adds to a pass whose device takes `parts`; a pipeline over nodes makes its collectives dearer."""
    stack = outline.stack
    called = stack.host_call + (stack.host_piped * outline.tensor if outline.pipeline_crosses_nodes else 0.0)
    stack = replace(stack, host_call=Seconds(called)) if called > stack.host_call else stack
    computed = sum(parts.values())
    if more := waiting(outline.cluster.device, stack, computed, (kernels, calls), backward=backward):
        parts["host"] = more


def _gathers(outline: Outline, numel: int, forward: dict[str, float], backward: dict[str, float]) -> None:
    """ZeRO-3: each pass gathers a layer, and each backward reduces its gradients behind it."""
    stack = outline.stack
    over = outline.sharing()
    size = numel * (1 if outline.sizes.narrow else outline.dtype.bytes)
    gathered = exchange(over, "all_gather", size)
    reduced = exchange(over, "reduce_scatter", numel * stack.reduced.bytes)
    here = fetched(outline, numel)  # in a lane of its own
    for parts, taken in ((forward, gathered), (backward, gathered + reduced)):
        hidden = sum(parts.values()) if "gathers" in stack.overlaps else 0.0
        parts["gathers"] = max(0.0, max(taken, here) - hidden)


def _sum(ways: Iterable[tuple[int, Way]]) -> Way:
    found: dict[str, float] = {}
    for count, way in ways:
        for kind, seconds in way.parts.items():
            found[kind] = found.get(kind, 0.0) + count * seconds
    return Way(found)


@lru_cache(maxsize=512)
def _one(spec: ModelSpec, kind: Kind) -> Block:
    """The block of a kind."""
    found = {block.kind: block for block in blocks(replace(spec, layers=1))}
    return found[kind]
