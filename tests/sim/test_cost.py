"""Seconds of an operation: products, traffic and launches; latency plus bytes over bandwidth."""

import dataclasses

import pytest

from headway.cluster.presets import preset
from headway.cluster.spec import Link
from headway.model.exchange import Call
from headway.model.pieces import Product
from headway.plan.work import Work
from headway.sim.cost import seconds
from headway.units import Dtype

CLUSTER = dataclasses.replace(
    preset("a100-80gb-hdr"), inside=Link("inside", 1e-6, 1e9), between=Link("between", 1e-5, 1e8)
)
DEVICE = CLUSTER.device


def _seconds(**fields):
    return seconds(Work(**fields), CLUSTER, Dtype.FLOAT32)


def _all_reduce(ranks, *sizes, kind="all_reduce", **fields):
    calls = tuple(Call(kind, size) for size in sizes)
    return _seconds(edge="{…}", group=ranks, bytes=sum(sizes), calls=calls, **fields)


def test_nothing_takes_no_time():
    assert _seconds() == 0


def test_traffic_and_kernels_take_the_devices_bandwidth_and_launches():
    expected = 1e9 / DEVICE.memory_bandwidth + 7 * DEVICE.launch
    assert _seconds(traffic=10**9, kernels=7) == pytest.approx(expected)


def test_on_a_processor_core_products_and_their_operands_traffic_are_added():
    core = dataclasses.replace(DEVICE, processors=0)
    cluster = dataclasses.replace(CLUSTER, device=core)
    product = Product(1000, 500, 200)
    moved = 4 * (1000 * 200 + 200 * 500 + 1000 * 500) / core.memory_bandwidth
    expected = 2 * 1000 * 500 * 200 / core.matmul[Dtype.FLOAT32] + moved
    assert seconds(Work(products=(product,)), cluster, Dtype.FLOAT32) == pytest.approx(expected)


def test_a_message_takes_the_links_latency_and_its_bytes_over_the_bandwidth():
    assert _seconds(edge="0→1", group=(0, 1), bytes=1000) == pytest.approx(1e-6 + 1e-6)
    assert _seconds(edge="7→8", group=(7, 8), bytes=1000) == pytest.approx(1e-5 + 1e-5)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_a_ring_moves_two_times_n_minus_one_over_n_of_its_buffer(n):
    """Thakur et al. 2005, §4."""
    ranks = tuple(range(n))
    size = 10**9
    expected = 2 * (n - 1) * 1e-6 + 2 * (n - 1) / n * size / 1e9
    assert _all_reduce(ranks, size) == pytest.approx(expected)


def test_a_ring_over_two_nodes_is_as_slow_as_its_slowest_link():
    assert _all_reduce((0, 8), 1000) == pytest.approx(2 * (1e-5 + 500 / 1e8))


def test_each_type_computes_at_its_own_rate():
    work = Work(products=(Product(8192, 8192, 8192),))
    double, single = (seconds(work, CLUSTER, dtype) for dtype in (Dtype.FLOAT64, Dtype.FLOAT32))
    rates = DEVICE.matmul
    assert double / single == pytest.approx(rates[Dtype.FLOAT32] / rates[Dtype.FLOAT64])


def test_what_computes_and_exchanges_takes_both_times_one_after_another():
    computing = _seconds(flops=10**12)
    each = [_all_reduce((0, 1), size) for size in (1000, 5000)]
    assert _all_reduce((0, 1), 1000, 5000, flops=10**12) == pytest.approx(computing + sum(each))


@pytest.mark.parametrize("n", [2, 3, 8])
def test_gathering_and_scattering_together_take_as_long_as_reducing_for_all(n):
    """Korthikanti et al. 2022, §4.2.2: sequence parallelism moves no more bytes."""
    ranks, size = tuple(range(n)), 10**8
    parts = [_all_reduce(ranks, size, kind=kind) for kind in ("all_gather", "reduce_scatter")]
    assert sum(parts) == pytest.approx(_all_reduce(ranks, size))
    assert parts[0] == parts[1]
