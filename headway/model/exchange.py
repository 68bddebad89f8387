"""Exchange: the collectives that tensor ranks call inside a block, forward and backward, with their bytes."""

from dataclasses import dataclass
from typing import Literal, assert_never

from headway.model.block import Block
from headway.model.spec import ModelSpec
from headway.units import Bytes, Dtype

Collective = Literal["all_reduce"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a collective. `bytes`: of the buffer that it reduces."""

    kind: Collective
    bytes: Bytes


def forward(spec: ModelSpec, block: Block, *, batch: int, sequence: int, dtype: Dtype, tensor: int) -> tuple[Call, ...]:
    """Calls of `block` going forward on `batch` sequences of `sequence` tokens over `tensor` ranks, in their order.

    A layer sums what attention and feed-forward add, the embedding its rows (Shoeybi et al. 2019, §3); the head's
    cross entropy needs the largest logit of each token, then the sum of the exponentials and the target's logit.
    """
    if tensor == 1:
        return ()
    tokens = batch * sequence
    match block.kind:
        case "embedding":
            return (_all_reduce(tokens * spec.hidden, dtype),)
        case "layer":
            return (_all_reduce(tokens * spec.hidden, dtype),) * 2
        case "head":
            return (_all_reduce(tokens, dtype), _all_reduce(2 * tokens, dtype))
        case _:
            assert_never(block.kind)


def backward(
    spec: ModelSpec, block: Block, *, batch: int, sequence: int, dtype: Dtype, tensor: int
) -> tuple[Call, ...]:
    """Calls of `block` going backward: the gradient of what column-parallel products took is summed."""
    if tensor == 1:
        return ()
    one = _all_reduce(batch * sequence * spec.hidden, dtype)
    match block.kind:
        case "embedding":
            return ()
        case "layer":
            return (one, one)
        case "head":
            return (one,)
        case _:
            assert_never(block.kind)


def _all_reduce(elements: int, dtype: Dtype) -> Call:
    return Call("all_reduce", Bytes(elements * dtype.bytes))
