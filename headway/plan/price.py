"""Price: how long a device computes: products in tiles, fused attention, traffic, and what each kernel adds."""

from dataclasses import dataclass
from functools import lru_cache

from headway.cluster.spec import Device
from headway.model.pieces import Effort, Product
from headway.stack.spec import HEADWAY, Stack
from headway.units import Dtype, Seconds

# rows and columns of a tile, and the share of the rate that its size allows: what the vendors' libraries choose among
_TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.95), (128, 64, 0.8), (64, 64, 0.65))


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds of an effort by what takes them; they are added, since kernels of one stream do not overlap."""

    products: float = 0.0
    attention: float = 0.0
    traffic: float = 0.0

    @property
    def seconds(self) -> Seconds:
        """All of it."""
        return Seconds(self.products + self.attention + self.traffic)


def price(device: Device, effort: Effort, dtype: Dtype, stack: Stack = HEADWAY, *, backward: bool = False) -> Price:
    """How long `device` takes for `effort` in `dtype`, with the kernels of `stack`.

    A product is bound by its arithmetic or, on an accelerator, by its operands' traffic if that takes longer; on a CPU
    both are added.
    """
    bandwidth = device.memory_bandwidth
    products = sum(_product(device, each, dtype, stack.narrow_share) for each in effort.products)
    if not device.processors:
        attention = 2 * effort.attention / device.matmul[dtype]
    else:
        attention = effort.attention / (device.peak[dtype] * device.attention[backward] * stack.attention_share)
    return Price(products, attention, effort.traffic / bandwidth + effort.kernels * device.launch)


def waiting(
    device: Device, stack: Stack, computed: float, started: tuple[int, int], *, backward: bool = False
) -> float:
    """Seconds that a pass takes longer than its device's `computed` ones because the host starts everything.

    `started`: kernels, which autograd starts faster than Python does, and collectives. The host runs ahead of the
    device or behind it, kernel by kernel: where both need as long, a pass takes longer than either, and where one needs
    far longer, it rules. A norm of order _JITTER stands for that. A CPU is its own host: `Device.launch` has it.
    """
    kernels, calls = started
    host = kernels * stack.host * (_AUTOGRAD if backward else 1.0) + calls * stack.host_call
    if not (host and device.processors):
        return 0.0
    return float((host**_JITTER + computed**_JITTER) ** (1 / _JITTER) - computed)


_JITTER, _AUTOGRAD = 4, 0.75


def _product(device: Device, product: Product, dtype: Dtype, narrow_share: float) -> float:
    moved = product.elements * dtype.bytes / device.memory_bandwidth
    if not device.processors:
        return product.flops / device.matmul[dtype] + moved
    kind = Dtype.FLOAT8 if product.narrow else dtype
    bytes_of = 2 * product.m * product.n + kind.bytes * (product.m * product.k + product.k * product.n)
    moved = product.batch * bytes_of / device.memory_bandwidth if product.narrow else moved
    rate = device.matmul[kind] * (narrow_share if product.narrow else 1.0)
    return max(moved, _tiled(product, device.processors, device.ramp * (2 if product.narrow else 1)) / rate)


@lru_cache(maxsize=4096)
def _tiled(product: Product, processors: int, ramp: int) -> float:
    """FLOPs that the processors could do while they take the product: in whole waves of tiles, each with its ramp."""
    work = []
    for rows, columns, share in _TILES:
        tiles = product.batch * -(-product.m // rows) * -(-product.n // columns)
        waves = -(-tiles // processors)
        work.append(2 * rows * columns * (product.k + ramp) * waves * processors / share)
    return min(work)
