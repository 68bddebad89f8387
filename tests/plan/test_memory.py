"""Memory that a rank holds through the step: the formula, exactly; and the figures of the papers and of the peers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model.block import blocks, num_parameters, shared
from headway.model.cost import cost
from headway.model.cut import num_held
from headway.model.sizes import Sizes
from headway.model.spec import PRESETS, ModelSpec
from headway.placement import Placement, State, zero
from headway.plan.memory import (
    MIXED,
    MIXED_FLOAT32_GRADIENTS,
    Recipe,
    korthikanti_activations,
    placed,
    single,
    states,
)
from headway.units import Dtype


def _parameters(plan):
    return num_parameters([*(p for block in blocks(plan.model) for p in block.parameters), *shared(plan.model)])


def test_one_rank_holds_parameters_gradients_and_two_moments(plan_of):
    plan = plan_of(parallel={"pipeline": 1, "data": 1})
    size = 4 * _parameters(plan)
    held = states(plan, 0)
    counters = 4 * sum(len({p.decayed for p in unit.parameters}) for unit in plan.units)
    assert held == {"parameters": size, "gradients": size, "optimizer": 2 * size + counters}


@pytest.mark.parametrize("unit_bytes", [1, 2**20, 2**40])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("pipeline", "chunks", "schedule"), [(1, 1, "1f1b"), (3, 1, "1f1b"), (2, 2, "interleaved")])
def test_the_ranks_of_a_pipeline_hold_the_model_once_and_a_tied_weight_at_both_ends(
    plan_of, unit_bytes, tied, pipeline, chunks, schedule
):
    plan = plan_of(
        parallel={"pipeline": pipeline, "chunks": chunks, "schedule": schedule, "data": 2, "unit_bytes": unit_bytes},
        model={"preset": "gpt-tiny", "tied": tied},
    )
    ends = plan.model.vocabulary * plan.model.hidden if tied and pipeline > 1 else 0
    ranks = [plan.layout.rank({"pipeline": p}) for p in range(pipeline)]
    for kind in ("parameters", "gradients"):
        assert sum(states(plan, rank)[kind] for rank in ranks) == 4 * (_parameters(plan) + ends)


def test_data_ranks_hold_the_same(plan_of):
    plan = plan_of(parallel={"pipeline": 2, "data": 2})
    assert states(plan, 0) == states(plan, 1)
    assert states(plan, 2) == states(plan, 3)


def test_double_precision_doubles_everything_but_the_step_counters(plan_of):
    single = plan_of(parallel={"pipeline": 1, "data": 1, "unit_bytes": 1})
    double = plan_of(
        parallel={"pipeline": 1, "data": 1, "unit_bytes": 1},
        train={"precision": "float64", "reduce_dtype": "float64"},
    )
    one, two = states(single, 0), states(double, 0)
    assert two["parameters"] == 2 * one["parameters"]
    counters = one["optimizer"] - 2 * one["parameters"]
    assert two["optimizer"] == 2 * two["parameters"] + counters


def test_16_bit_training_is_eighteen_bytes_a_parameter_on_each_rank(plan_of):
    parallel = {"pipeline": 2, "data": 2, "unit_bytes": 1}
    for precision in ("bfloat16", "float16"):
        plan = plan_of(parallel=parallel, train={"precision": precision})
        for rank in range(4):
            units = plan.units_of_rank(rank)
            numel, slices = sum(u.numel for u in units), sum(len({p.decayed for p in u.parameters}) for u in units)
            held = states(plan, rank)
            assert held == {"parameters": 2 * numel, "gradients": 4 * numel, "optimizer": 12 * numel + 4 * slices}


@pytest.mark.parametrize(
    ("recipe", "bytes_a_parameter"),
    [(MIXED, 16), (MIXED_FLOAT32_GRADIENTS, 18), (single(Dtype.FLOAT32), 16), (single(Dtype.FLOAT64), 32)],
)
def test_a_parameter_costs_what_its_recipe_says(recipe, bytes_a_parameter):
    """16: Rajbhandari et al. 2020, §3.1. 18: Megatron without its distributed optimizer, gradients in float32."""
    assert recipe.total == bytes_a_parameter
    assert sum(placed(1000, recipe, zero(0), data=8).values()) == 1000 * bytes_a_parameter


def test_zeros_table_comes_out_of_its_placements():
    """Rajbhandari et al. 2020, figure 1: 7.5 B parameters, 64 ranks, 16 bytes a parameter, in GB of 10^9."""
    table = [sum(placed(7_500_000_000, MIXED, zero(stage), data=64).values()) / 1e9 for stage in range(4)]
    assert [round(gigabytes, 1) for gigabytes in table] == [120.0, 31.4, 16.6, 1.9]


FIELDS = {"parameters": "params", "gradients": "grads", "optimizer": "optimizer"}


@given(st.integers(1, 10**6), st.integers(1, 130), st.sampled_from([MIXED, MIXED_FLOAT32_GRADIENTS, Recipe(1, 1, 3)]))
def test_what_is_cut_covers_the_whole_and_no_more_than_a_padding(numel, data, recipe):
    whole = placed(numel, recipe, zero(0), data)
    for stage in (1, 2, 3):
        held = placed(numel, recipe, zero(stage), data)  # what stays whole beside it is padded too
        for kind, size in held.items():
            each = whole[kind] // numel
            padded = size * data if getattr(zero(stage), FIELDS[kind]).cut else size
            assert whole[kind] <= padded < whole[kind] + data * each
    assert placed(numel, recipe, zero(3), data=1) == whole


TINY = ModelSpec(layers=4, hidden=64, heads=4, key_value_heads=4, feed_forward=256, vocabulary=256, positions=32)


def test_the_tiny_models_states_are_megatrons_without_what_its_estimate_leaves_out():
    """Megatron's estimate for the first of two pipeline ranks: 2,074,752 bytes, 18 a parameter.

    Of our model's parameters it counts no biases of linear layers and no positions. It puts the final norm with the
    layers and shares it out over the ranks, where our split has it whole in the last stage.
    """
    embedding, *layers, head = blocks(TINY)
    counted = [p for layer in layers[:2] for p in layer.parameters if "norm" in p.name or not p.name.endswith(".bias")]
    assert num_parameters(counted) == 2 * (12 * 64**2 + 4 * 64)
    final_norm = num_parameters([p for p in head.parameters if "norm" in p.name])
    numel = num_parameters([*counted, *shared(TINY)]) + final_norm // 2
    assert numel == 115_264
    assert sum(placed(numel, MIXED_FLOAT32_GRADIENTS, zero(0), data=1).values()) == 2_074_752
    # what it leaves out, of our own first stage
    left_out = num_parameters(embedding.parameters) + 2 * 9 * 64 - final_norm // 2
    ours = [p for block in (embedding, *layers[:2]) for p in block.parameters]
    assert num_parameters([*ours, *shared(TINY)]) == numel + left_out


def test_the_tiny_models_activations_are_megatrons_with_the_masks_that_ours_does_not_keep():
    """Megatron's estimate for the first of two ranks, two micro-batches in flight: 566,272 bytes.

    Two layers at 34·s·b·h, the core of attention not kept, and 8 bytes a token, the tokens themselves, which our
    embedding saves too. The rest is the mask of the dropout behind the embedding, which Headway draws again instead:
    a byte an element.
    """
    s, b, h, in_flight = 32, 2, TINY.hidden, 2
    layers = 2 * in_flight * korthikanti_activations(TINY, batch=b, sequence=s, core=False)
    assert layers == 557_056
    tokens = in_flight * cost(TINY, blocks(TINY)[0], Sizes(b, s, Dtype.FLOAT32)).saved
    assert tokens == 8 * s * b * in_flight
    mask = in_flight * s * b * h
    assert layers + tokens + mask == 566_272


@pytest.mark.parametrize(("batch", "sequence"), [(1, 8), (2, 32), (4, 31)])
def test_our_own_activations_of_a_layer_are_korthikantis_without_dropout(batch, sequence):
    """In 16-bit, that is half of our float32: 34 less two masks of a byte an element, and the statistics beside it.

    The statistics: mean and deviation of two norms, and the log-sum-exp of each head in fused attention.
    """
    elements = sequence * batch * TINY.hidden
    theirs = korthikanti_activations(TINY, batch=batch, sequence=sequence, core=False)
    ours = cost(TINY, blocks(TINY)[1], Sizes(batch, sequence, Dtype.FLOAT32)).saved
    statistics = sequence * batch * (4 + TINY.heads)
    assert ours == 2 * (theirs - 2 * elements) + 4 * statistics


def test_the_core_of_attention_is_five_bytes_for_each_head_and_pair_of_tokens():
    """Korthikanti et al. 2022, eq. 1, on GPT-3 175B: the core is 80 / (34 + 80) of a layer (§5)."""
    whole = korthikanti_activations(PRESETS["gpt-175b"], batch=1, sequence=2048, core=True)
    assert whole == 2048 * 12288 * (34 + 80)


def _megatrons_parameters(spec, layers, tensor, pipeline):
    """What Megatron's estimate counts for the first of `pipeline` ranks: no biases of linear layers, no positions.

    It puts the final norm with the layers and shares it out over the ranks.
    """
    each = [p for block in blocks(spec)[1 : 1 + layers] for p in block.parameters]
    counted = [p for p in each if "norm" in p.name or not p.name.endswith(".bias")]
    final_norm = num_parameters([p for p in blocks(spec)[-1].parameters if "norm" in p.name])
    tokens = shared(spec) or [p for p in blocks(spec)[0].parameters if p.leaf == "tokens"]
    return num_held([*counted, *tokens], tensor) + final_norm // pipeline


@pytest.mark.parametrize(
    ("name", "layers", "tensor", "pipeline", "published"),
    [("gpt-175b", 12, 8, 8, 50_348_611_584), ("gpt-22b", 48, 8, 1, 49_651_605_504)],
)
def test_weights_and_optimizer_of_megatrons_tensor_ranks(name, layers, tensor, pipeline, published):
    """Megatron's own estimate, 18 bytes a parameter: products over 8 tensor ranks, norms whole on each."""
    numel = _megatrons_parameters(PRESETS[name], layers, tensor, pipeline)
    assert sum(placed(numel, MIXED_FLOAT32_GRADIENTS, zero(0), data=1).values()) == published


def test_weights_and_distributed_optimizer_of_megatrons_llama():
    """Llama 2 7B on tensor 2 × pipeline 2 × data 2: 6 bytes a parameter, and 12 over the two data ranks."""
    numel = _megatrons_parameters(PRESETS["llama-2-7b"], 16, 2, 2)
    assert sum(placed(numel, MIXED_FLOAT32_GRADIENTS, zero(1), data=2).values()) == 20_216_045_568


def test_weights_and_distributed_optimizer_of_megatrons_gpt_3():
    """GPT-3 175B on tensor 8 × pipeline 8 × data 8: 6 bytes a parameter, and 12 over the eight data ranks."""
    numel = _megatrons_parameters(PRESETS["gpt-175b"], 12, 8, 8)
    assert sum(placed(numel, MIXED_FLOAT32_GRADIENTS, zero(1), data=8).values()) == 20_978_588_160


# DeepSpeed's estimates count gradients in 16 bits and in float32 under stage 2, in float32 alone under stage 3
DEEPSPEED_2, DEEPSPEED_3 = Recipe(2, 6, 12), MIXED_FLOAT32_GRADIENTS
ON_HOST = State(cut=True, tier="host")
T5_3B, LARGEST = 2_851_000_000, 32_000_000


@pytest.mark.parametrize(
    ("recipe", "placement", "largest", "gibibytes"),
    [
        (DEEPSPEED_2, zero(2), 0, 11.28),
        (DEEPSPEED_3, zero(3), LARGEST, 6.09),
        (DEEPSPEED_3, Placement(State(cut=True), ON_HOST, ON_HOST), LARGEST, 0.78),
        (DEEPSPEED_3, Placement(ON_HOST, ON_HOST, ON_HOST), LARGEST, 0.12),
    ],
)
def test_deepspeeds_own_figures_of_t5_3b_on_8_gpus(recipe, placement, largest, gibibytes):
    """2·P + 18·P/N, 4·largest + 18·P/N, 4·largest + 2·P/N, 4·largest: the largest layer is whole in 16 bits."""
    whole = sum(placed(largest, Recipe(2, 2, 0), zero(0), data=1).values())
    held = sum(placed(T5_3B, recipe, placement, data=8).values())
    assert round((held + whole) / 2**30, 2) == gibibytes


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_states_of_a_plan_are_those_of_its_units_each_rank_with_its_part(plan_of, stage):
    sizes = {"pipeline": 2, "data": 3, "zero": stage, "unit_bytes": 1, "whole_below": "16KiB"}
    plan = plan_of(parallel=sizes, train={"precision": "bfloat16", "global_batch": 12, "microbatch": 2})
    for rank in range(6):
        held = {"parameters": 0, "gradients": 0, "optimizer": 0}
        for unit in plan.units_of_rank(rank):
            placement, own, whole = plan.placed(unit), plan.own(rank, unit), plan.padded(unit)
            part = whole // plan.num_sharing(unit)
            held["parameters"] += 2 * (part if placement.params.cut else whole)
            held["gradients"] += 4 * (part if placement.grads.cut else whole)
            held["optimizer"] += 12 * (own.stop - own.start) + 4 * len(unit.groups(own))
        assert states(plan, rank) == held


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("tensor", "pipeline"), [(2, 1), (4, 1), (2, 3)])
def test_tensor_ranks_hold_alike_and_together_the_model_once_but_for_copies_and_padding(
    plan_of, tensor, pipeline, tied
):
    plan = plan_of(
        parallel={"tensor": tensor, "pipeline": pipeline, "data": 1},
        model={"preset": "gpt-tiny", "tied": tied, "vocabulary": 97},
        data={"tokenizer": "none"},
    )
    rows = -(-97 // tensor) * tensor
    copies = (tensor - 1) * num_parameters([p for u in plan.units for p in u.parameters if p.cut is None])
    padding = (rows - 97) * 128 * (1 if tied else 2)
    ends = rows * 128 if tied and pipeline > 1 else 0  # a tied weight is at both ends
    found = [states(plan, rank)["parameters"] for rank in range(plan.layout.world)]
    assert sum(found) == 4 * (_parameters(plan) + copies + padding + ends)
    for group in plan.layout.groups("tensor"):
        assert len({found[rank] for rank in group}) == 1
    assert plan.num_parameters == _parameters(plan)


@pytest.mark.parametrize(
    ("name", "batch", "pipeline", "published"), [("gpt-175b", 1, 8, 9816), ("gpt-22b", 4, 1, 10022)]
)
def test_activations_of_megatrons_tensor_ranks_with_the_sequence_cut(name, batch, pipeline, published):
    """Megatron's estimate in MiB for tensor 8, the core of attention not kept: 34·s·b·h/t a layer.

    The first of the pipeline's ranks holds as many micro-batches as there are ranks, which together are every layer
    once. Beside them: tokens and the mask behind the embedding; without a pipeline, the head's input and its logits.
    """
    spec, s, tensor = PRESETS[name], 2048, 8
    sizes = {"batch": batch, "sequence": s, "core": False, "tensor": tensor, "sequence_parallel": True}
    layers = spec.layers * korthikanti_activations(spec, **sizes)
    embedding = pipeline * s * batch * (8 + spec.hidden) / tensor
    head = 4 * s * batch * (spec.hidden + spec.vocabulary) / tensor if pipeline == 1 else 0
    assert round((layers + embedding + head) / 2**20) == published


@pytest.mark.parametrize("tensor", [2, 4])
def test_our_own_activations_of_a_tensor_rank_are_korthikantis_without_dropout(tensor):
    """Without and with the sequence cut: less two masks, and beside it the statistics, as on one rank."""
    b, s = 2, 32
    for cut in (False, True):
        sizes = {"batch": b, "sequence": s, "tensor": tensor, "sequence_parallel": cut}
        theirs = korthikanti_activations(TINY, core=False, **sizes)
        ours = cost(TINY, blocks(TINY)[1], Sizes(dtype=Dtype.FLOAT32, **sizes)).saved
        outside = s * b // (tensor if cut else 1)
        assert ours == 2 * (theirs - 2 * outside * TINY.hidden) + 4 * (4 * outside + s * b * TINY.heads // tensor)
