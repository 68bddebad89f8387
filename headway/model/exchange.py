"""Exchange: the collectives that tensor ranks call inside a block, forward and backward, with their bytes."""

from dataclasses import dataclass
from typing import Literal, assert_never

from headway.model.block import Block
from headway.model.spec import ModelSpec
from headway.units import Bytes, Dtype

Collective = Literal["all_reduce", "all_gather", "reduce_scatter"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a collective. `bytes`: of the whole buffer, which is reduced, gathered, or reduced and scattered."""

    kind: Collective
    bytes: Bytes


def forward(
    spec: ModelSpec,
    block: Block,
    *,
    batch: int,
    sequence: int,
    dtype: Dtype,
    tensor: int,
    sequence_parallel: bool = False,
) -> tuple[Call, ...]:
    """Calls of `block` going forward on `batch` sequences of `sequence` tokens over `tensor` ranks, in their order.

    A layer sums what attention and feed-forward add, the embedding its rows (Shoeybi et al. 2019, §3); the head's
    cross entropy needs the largest logit of each token, then the sum of the exponentials and the target's logit. With
    the sequence cut, sums are scattered, and gathered before the next product (Korthikanti et al. 2022, §4.2.2).
    """
    if tensor == 1:
        return ()
    tokens = batch * sequence
    size = Bytes(tokens * spec.hidden * dtype.bytes)
    gathered, summed = _around(size, sequence_parallel=sequence_parallel)
    match block.kind:
        case "embedding":
            return summed
        case "layer":
            return (*gathered, *summed) * 2
        case "head":
            loss = (Bytes(tokens * dtype.wide.bytes), Bytes(2 * tokens * dtype.wide.bytes))
            return (*gathered, *(Call("all_reduce", each) for each in loss))
        case _:
            assert_never(block.kind)


def backward(
    spec: ModelSpec,
    block: Block,
    *,
    batch: int,
    sequence: int,
    dtype: Dtype,
    tensor: int,
    sequence_parallel: bool = False,
) -> tuple[Call, ...]:
    """Calls of `block` going backward: the gradient of what column-parallel products took is summed.

    With the sequence cut, the gradient of a sum is gathered, and so is once more what such a product took, of which
    only a rank's part was kept.
    """
    if tensor == 1:
        return ()
    size = Bytes(batch * sequence * spec.hidden * dtype.bytes)
    gathered, summed = _around(size, sequence_parallel=sequence_parallel)
    match block.kind:
        case "embedding":
            return gathered
        case "layer":
            return (*gathered, *gathered, *summed) * 2
        case "head":
            return (*gathered, *summed)
        case _:
            assert_never(block.kind)


def _around(size: Bytes, *, sequence_parallel: bool) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
    """What happens to an activation where all ranks need all of it, and where their parts of a sum meet."""
    if sequence_parallel:
        return (Call("all_gather", size),), (Call("reduce_scatter", size),)
    return (), (Call("all_reduce", size),)
