"""Cut: the part of each parameter that a tensor rank holds, the vocabulary's padding, and what cannot be cut."""

import math
from collections.abc import Iterable

from headway.errors import PlanError
from headway.model.block import Parameter
from headway.model.spec import ModelSpec


def held(parameter: Parameter, tensor: int) -> tuple[int, ...]:
    """Shape of what each of `tensor` ranks holds: alike on all, so rows that do not divide are padded with zeros."""
    return tuple(-(-n // tensor) if dim == parameter.cut else n for dim, n in enumerate(parameter.shape))


def part(parameter: Parameter, tensor: int, index: int) -> tuple[slice, ...]:
    """Where in the whole tensor rank `index` of `tensor` has its elements from; behind them it holds padding.

    >>> from headway.model.block import Parameter
    >>> rows = Parameter("tokens", (97, 8), "tokens", decayed=True, init="normal", cut=0)
    >>> held(rows, 4), part(rows, 4, 3)
    ((25, 8), (slice(75, 97, None), slice(0, 8, None)))
    """
    sizes = zip(parameter.shape, held(parameter, tensor), strict=True)
    return tuple(
        slice(min(index * size, whole), min((index + 1) * size, whole)) if dim == parameter.cut else slice(0, whole)
        for dim, (whole, size) in enumerate(sizes)
    )


def num_held(parameters: Iterable[Parameter], tensor: int) -> int:
    """Elements, padding included, that each of `tensor` ranks holds of the tensors."""
    return sum(math.prod(held(p, tensor)) for p in parameters)


def vocabulary(spec: ModelSpec, tensor: int, multiple: int = 1) -> int:
    """Rows of the vocabulary that each of `tensor` ranks holds, padding included, a `multiple` of so many."""
    return -(-spec.vocabulary // (tensor * multiple)) * multiple


def check(spec: ModelSpec, tensor: int) -> None:
    """Raises PlanError where heads or the feed-forward do not divide over so many tensor ranks."""
    sizes = {name: getattr(spec, name) for name in ("heads", "key_value_heads", "feed_forward")}
    if wrong := [f"model.{name} {size} (leaves {size % tensor})" for name, size in sizes.items() if size % tensor]:
        common = math.gcd(*sizes.values())
        legal = [str(n) for n in range(1, common + 1) if common % n == 0]
        near = -(-spec.feed_forward // tensor) * tensor
        other = "" if spec.heads % tensor or spec.key_value_heads % tensor else f", or model.feed_forward {near}"
        raise PlanError(
            f"parallel.tensor {tensor} does not divide {' and '.join(wrong)}: each tensor rank has whole heads and an "
            f"equal part of the feed-forward. Use parallel.tensor {' or '.join(legal)}{other}."
        )


def check_sequence(length: int, tensor: int) -> None:
    """Raises PlanError where a sequence of `length` tokens cannot be cut over so many tensor ranks."""
    if tensor == 1:
        raise PlanError(
            "parallel.sequence_parallel cuts the sequence over tensor ranks, of which there is 1 (parallel.tensor). "
            "Use parallel.tensor 2 or more, or leave sequence_parallel out."
        )
    if rest := length % tensor:
        below, above = length - rest, length - rest + tensor
        raise PlanError(
            f"parallel.sequence_parallel cuts data.sequence_length {length} over {tensor} tensor ranks, which leaves "
            f"{rest}. Use data.sequence_length {f'{below} or {above}' if below else above}, or another parallel.tensor."
        )
