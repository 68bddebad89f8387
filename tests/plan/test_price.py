"""Price: products in waves of tiles, bound by arithmetic or by traffic; attention, traffic and kernels."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cluster.presets import device, local_cpu
from headway.model.pieces import Effort, Product
from headway.plan.price import price
from headway.stack.spec import HEADWAY
from headway.units import Dtype

A100, H100, CORE = device("A100-80GB"), device("H100-80GB"), local_cpu().device
BF16 = Dtype.BFLOAT16


def _seconds(*products, of=A100, **more):
    return price(of, Effort(tuple(products)), BF16, **more).products


def test_a_large_product_reaches_the_devices_rate_but_for_its_ramp():
    product = Product(108 * 256, 8 * 128, 16384)  # whole waves of whole tiles
    at_best = product.flops / A100.matmul[BF16]
    assert _seconds(product) == pytest.approx(at_best * (1 + A100.ramp / 16384))


def test_one_tile_too_many_takes_another_wave():
    whole, more = Product(108 * 256, 128, 8192), Product(109 * 256, 128, 8192)
    assert 1.05 < _seconds(more) / _seconds(whole) <= 2


def test_a_thin_product_takes_as_long_as_its_operands_need():
    thin = Product(8, 12288, 12288)
    assert _seconds(thin) == pytest.approx(thin.elements * 2 / A100.memory_bandwidth)


def test_float8_is_faster_for_large_products_and_only_as_fast_as_its_kernels():
    narrow, wide = (Product(16384, 8192, 8192, narrow=narrow) for narrow in (True, False))
    fast, slow = (_seconds(product, of=H100) for product in (narrow, wide))
    assert 1.5 < slow / fast < 2
    slower = dataclasses.replace(HEADWAY, narrow_share=0.5)
    assert _seconds(narrow, of=H100, stack=slower) == pytest.approx(2 * fast)


def test_a_processor_core_adds_arithmetic_and_traffic():
    product = Product(512, 512, 512)
    expected = product.flops / CORE.matmul[Dtype.FLOAT32] + product.elements * 4 / CORE.memory_bandwidth
    assert price(CORE, Effort((product,)), Dtype.FLOAT32).products == pytest.approx(expected)


def test_attention_takes_the_share_of_the_peak_that_its_kernel_reaches():
    effort = Effort(attention=10**12)
    there, back = (price(A100, effort, BF16, backward=backward).attention for backward in (False, True))
    assert there == pytest.approx(1e12 / (A100.peak[BF16] * A100.attention[0]))
    assert back == pytest.approx(1e12 / (A100.peak[BF16] * A100.attention[1]))


@given(st.integers(1, 20000), st.integers(1, 20000), st.integers(1, 20000), st.floats(0.1, 1))
def test_a_lower_clock_never_makes_a_product_faster(m, n, k, clock):
    slower = dataclasses.replace(A100, matmul={dtype: clock * rate for dtype, rate in A100.matmul.items()})
    assert _seconds(Product(m, n, k), of=slower) >= _seconds(Product(m, n, k))


@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(1, 9000))
def test_more_of_k_never_takes_less_time(m, n, k):
    assert _seconds(Product(m, n, 2 * k)) >= _seconds(Product(m, n, k))
