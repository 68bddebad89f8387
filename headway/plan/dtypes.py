"""Dtypes: the element type of each state of a training job, by its precision."""

from dataclasses import dataclass

from headway.plan.job import Train
from headway.units import Dtype


@dataclass(frozen=True, slots=True)
class Dtypes:
    """`params` are activations' and messages' too; `grads` add up over micro-batches; `reduced` is what ranks sum.

    `master`: the weights that the optimizer updates, from which the parameters are rounded; None where they are the
    parameters themselves. `moments`: both of AdamW's.
    """

    params: Dtype
    grads: Dtype
    reduced: Dtype
    master: Dtype | None
    moments: Dtype


def dtypes(train: Train) -> Dtypes:
    """The one table: 16-bit training keeps gradients, master weights and moments in float32 (Micikevicius et al. 2018).

    >>> found = dtypes(Train(precision=Dtype.BFLOAT16))
    >>> f"{found.params}, {found.grads}, {found.reduced}, {found.master}, {found.moments}"
    'bfloat16, float32, float32, float32, float32'
    """
    params, wide = train.precision, train.precision.wide
    return Dtypes(params, wide, train.reduce_dtype, None if wide == params else wide, wide)
