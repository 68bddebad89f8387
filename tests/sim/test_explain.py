"""An explained step: parts that add up, rates below the peak, and gains that are what an estimate anew gives."""

from dataclasses import replace

import pytest

from headway.cluster.presets import device, preset
from headway.model.spec import PRESETS
from headway.sim.estimate import estimate
from headway.sim.explain import document, explain
from headway.sim.outline import Outline
from headway.stack.spec import HEADWAY
from headway.units import Dtype

FULL = Outline(
    model=PRESETS["gpt-22b"],
    cluster=preset("a100-80gb-hdr"),
    stack=HEADWAY,
    microbatch=1,
    microbatches=16,
    sequence=2048,
    tensor=8,
    pipeline=4,
    data=2,
    recompute="full",
)


@pytest.fixture(scope="module")
def found():
    return explain(FULL)


def _named(all_):
    return {each.name: each for each in all_}


def test_the_parts_add_up_to_the_step(found):
    assert found.seconds == estimate(FULL).seconds
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds, rel=1e-9)
    assert sum(part.share for part in found.parts) == pytest.approx(1, rel=1e-9)
    assert all(part.seconds >= 0 for part in found.parts)


def test_what_the_estimate_takes_together_is_told_apart(found):
    parts, whole = _named(found.parts), estimate(FULL).parts
    assert parts["memory traffic"].seconds + parts["kernel launches"].seconds == pytest.approx(whole["memory traffic"])
    assert parts["pipeline messages"].seconds + parts["bubble"].seconds == pytest.approx(whole["bubble"])
    assert parts["kernel launches"].seconds > 0 < parts["pipeline messages"].seconds < parts["bubble"].seconds


def test_the_rates_of_products_and_attention_are_below_what_the_device_reaches_at_best(found):
    parts, device = _named(found.parts), FULL.cluster.device
    products, attention = parts["products"], parts["attention"]
    assert products.of == products.rate / device.peak[FULL.products]
    assert 0.5 < products.of < device.matmul[FULL.products] / device.peak[FULL.products]
    assert device.attention[1] < attention.of < device.attention[0]
    assert parts["memory traffic"].rate == pytest.approx(device.memory_bandwidth)


def test_attention_of_a_float8_job_is_compared_with_the_peak_of_the_type_that_it_is_in():
    fast = replace(FULL, cluster=replace(FULL.cluster, device=device("H100")), products=Dtype.FLOAT8)
    parts = _named(explain(fast).parts)
    assert parts["attention"].of == parts["attention"].rate / fast.cluster.device.peak[Dtype.BFLOAT16]
    assert parts["products"].of == parts["products"].rate / fast.cluster.device.peak[Dtype.FLOAT8]


def test_computing_again_takes_about_as_long_as_the_forward(found):
    forward = (_named(explain(replace(FULL, recompute="none")).parts)["products"].seconds) / 3
    again = _named(found.parts)["recompute"].seconds
    exchange = _named(found.parts)["tensor exchange"].seconds
    assert forward < again < forward + exchange


def test_a_gain_is_what_a_device_twice_as_fast_would_give(found):
    device = FULL.cluster.device
    faster = replace(device, matmul={dtype: 2 * rate for dtype, rate in device.matmul.items()})
    layers = (12, 12, 12, 12)
    one = estimate(replace(FULL, layers=layers)).seconds
    two = estimate(replace(FULL, layers=layers, cluster=replace(FULL.cluster, device=faster))).seconds
    assert explain(replace(FULL, layers=layers)).gains[0].seconds == pytest.approx(one - two)
    assert found.gains[0].name == "matrix products"


def test_gains_are_sorted_and_none_is_more_than_half_of_the_step(found):
    gains = [gain.seconds for gain in found.gains]
    assert gains == sorted(gains, reverse=True)
    assert all(0 < gain.share <= 0.5 for gain in found.gains)
    assert sum(gains) < found.seconds


def test_what_a_job_does_not_use_gains_nothing():
    alone = replace(FULL, tensor=1, pipeline=1, data=1, microbatches=1, model=PRESETS["gpt-1.3b"], recompute="none")
    explained = explain(alone)
    names = {gain.name for gain in explained.gains}
    assert names == {
        "matrix products", "attention kernel", "memory bandwidth", "kernel launches and host", "optimizer",
    }  # fmt: skip
    assert "pipeline messages" not in _named(explained.parts)


def test_ranks_of_one_node_do_not_wait_for_the_network(found):
    inside = explain(replace(FULL, pipeline=1, data=1, microbatches=2))
    assert "network between nodes" not in {gain.name for gain in inside.gains}
    assert "network between nodes" in {gain.name for gain in found.gains}
    assert "links inside a node" in {gain.name for gain in inside.gains}


def test_the_document_has_it_all(found):
    said = document(found)
    assert said["seconds"] == pytest.approx(sum(part["seconds"] for part in said["parts"]))
    products = next(part for part in said["parts"] if part["name"] == "products")
    assert (products["unit"], products["of_peak"]) == ("FLOP/s", _named(found.parts)["products"].of)
    assert [gain["name"] for gain in said["twice_as_fast"]] == [gain.name for gain in found.gains]
