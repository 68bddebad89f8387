"""Exchange: the collectives that tensor ranks call inside a block, forward and backward, with their bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from headway.model.block import Block
from headway.model.sizes import Sizes
from headway.model.spec import ModelSpec
from headway.units import Bytes

Collective = Literal["all_reduce", "all_gather", "reduce_scatter"]
# how often a ring of n ranks sends n − 1 messages of 1/n of the buffer (Thakur et al. 2005, §4)
ROUNDS: Mapping[Collective, int] = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def passed_on(kind: Collective, ranks: int) -> float:
    """Bytes that each rank of a ring passes on, over those of the buffer.

    >>> passed_on("all_reduce", 4)
    1.5
    """
    return ROUNDS[kind] * (ranks - 1) / ranks


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a collective. `bytes`: of the whole buffer, which is reduced, gathered, or reduced and scattered."""

    kind: Collective
    bytes: Bytes


def forward(spec: ModelSpec, block: Block, sizes: Sizes) -> tuple[Call, ...]:
    """Calls of `block` going forward on a micro-batch, in their order.

    A layer sums what attention and feed-forward add, the embedding its rows (Shoeybi et al. 2019, §3); the head's
    cross entropy needs the largest logit of each token, then the sum of the exponentials and the target's logit, and
    the sum of all logits where labels are smoothed. With the sequence cut, sums are scattered, and gathered before the
    next product (Korthikanti et al. 2022, §4.2.2).
    """
    if sizes.tensor == 1:
        return ()
    gathered, summed = _around(spec, sizes)
    match block.kind:
        case "embedding":
            return summed
        case "layer":
            return (*gathered, *summed) * 2
        case "head":
            numbers = sizes.tokens * sizes.dtype.wide.bytes
            loss = (numbers, (3 if sizes.smoothed else 2) * numbers)
            return (*gathered, *(Call("all_reduce", Bytes(each)) for each in loss))
        case _:
            assert_never(block.kind)


def backward(spec: ModelSpec, block: Block, sizes: Sizes) -> tuple[Call, ...]:
    """Calls of `block` going backward: the gradient of what column-parallel products took is summed.

    With the sequence cut, the gradient of a sum is gathered, and so is once more what such a product took, of which
    only a rank's part was kept.
    """
    if sizes.tensor == 1:
        return ()
    gathered, summed = _around(spec, sizes)
    match block.kind:
        case "embedding":
            return gathered
        case "layer":
            return (*gathered, *gathered, *summed) * 2
        case "head":
            return (*gathered, *summed)
        case _:
            assert_never(block.kind)


def _around(spec: ModelSpec, sizes: Sizes) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
    """What happens to an activation where all ranks need all of it, and where their parts of a sum meet."""
    size = Bytes(sizes.tokens * spec.hidden * sizes.dtype.bytes)
    if sizes.sequence_parallel:
        return (Call("all_gather", size),), (Call("reduce_scatter", size),)
    return (), (Call("all_reduce", size),)
