"""Recompute in a plan: its file, the bytes kept, the collectives and seconds of its backwards, and who refuses it."""

from dataclasses import replace

import pytest

from headway.errors import PlanError
from headway.model.recompute import Recompute
from headway.plan.plan import digest, dumps, loads
from headway.plan.work import model_flops_per_token, unit_cost, work
from headway.report.makeup import fullest
from headway.schedule.action import Action, Kind
from headway.schedule.operation import Operation
from headway.sim import cost, stages
from headway.sim.estimate import estimate
from headway.sim.planned import outline
from headway.sim.simulate import simulate

B, S = 2, 1024


def _plan(plan_of, wanted, microbatches=8, **parallel):
    axes = {"pipeline": 4, "data": 1, "recompute": wanted} | parallel
    train = {"precision": "bfloat16", "global_batch": B * microbatches * axes["data"], "microbatch": B}
    data = {"sequence_length": S, "tokenizer": "none"}
    return plan_of(model="gpt-1.3b", parallel=axes, data=data, train=train)


def _works(plan, kind, rank=0):
    stage = plan.schedule.stages(plan.layout.coord(rank)["pipeline"])[0]
    return work(plan, plan.program, rank, Operation(Action(kind, stage, 0)))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("none", Recompute()),
        ({"mode": "none"}, Recompute()),
        ("selective", Recompute("selective", 24)),
        ("full", Recompute("full", 24)),
        ({"mode": "full", "layers": 2}, Recompute("full", 2)),
    ],
)
def test_what_is_derived_is_written_into_the_plan_and_read_back(plan_of, wanted, found):
    plan = _plan(plan_of, wanted)
    assert plan.recompute == found
    assert loads(dumps(plan)) == plan


def test_plans_that_compute_other_things_again_have_other_digests(plan_of):
    wanted = ["none", "selective", "full", {"mode": "full", "layers": 2}]
    assert len({digest(replace(_plan(plan_of, "none"), recompute=_plan(plan_of, w).recompute)) for w in wanted}) == 4


def test_a_stage_keeps_the_inputs_of_the_layers_that_are_computed_again_and_all_of_the_others(plan_of):
    h, plain = 2048, _plan(plan_of, "none")
    layer = next(unit for unit in plain.units_of_stage(1) if "layers" in unit.name)
    whole = unit_cost(plain, layer).saved
    split = [6, 6, 6, 6]
    for wanted, again in (("full", 6), ({"mode": "full", "layers": 2}, 2), ({"mode": "full", "layers": 7}, 6)):
        plan = _plan(plan_of, wanted, split=split)
        kept = again * 2 * B * S * h + (6 - again) * whole
        assert _works(plan, Kind.FORWARD, rank=1).takes["activations"] == kept
        assert _works(plan, Kind.BACKWARD, rank=1).gives["activations"] == kept
        assert _works(plan, Kind.BACKWARD, rank=1).within == {"recomputed": whole - 2 * B * S * h}


def test_an_evaluation_keeps_and_repeats_nothing(plan_of):
    plan = _plan(plan_of, "full")
    done = work(plan, plan.evaluation_program, 1, Operation(Action(Kind.FORWARD, 1, 0)))
    assert (done.takes.get("activations"), done.again.products) == (None, ())


def test_the_backward_does_the_forward_again_with_its_collectives(plan_of):
    plain, full = (_plan(plan_of, wanted, tensor=2, pipeline=2, split=[12, 12]) for wanted in ("none", "full"))
    forward, backward = _works(plain, Kind.FORWARD), _works(plain, Kind.BACKWARD)
    again = _works(full, Kind.BACKWARD)
    embedding, *layers = forward.calls
    assert len(layers) == 12 * 2
    assert again.calls == (*layers, *backward.calls)
    assert again.bytes == forward.bytes - embedding.bytes + backward.bytes
    assert (again.products, again.traffic, again.kernels) == (backward.products, backward.traffic, backward.kernels)
    assert sum(p.flops for p in again.again.products) == 12 * (2 * B * S * 12 * 2048**2) // 2
    taken = [cost.seconds(each, plain.cluster, plain.train.precision) for each in (forward, backward, again)]
    assert taken[1] < taken[2] <= (taken[0] + taken[1]) * (1 + 1e-9)


def test_what_is_computed_again_is_in_the_step_and_not_in_the_models_flops(plan_of):
    plain, full = (_plan(plan_of, wanted) for wanted in ("none", "full"))
    assert model_flops_per_token(plain) == model_flops_per_token(full)
    longer = simulate(full).makespan / simulate(plain).makespan
    assert 1.2 < longer < 4 / 3


def test_full_recompute_is_what_makes_many_micro_batches_in_flight_fit(plan_of):
    plain, full = (simulate(_plan(plan_of, wanted)) for wanted in ("none", "full"))
    assert full.memory[0]["activations"] < 0.1 * plain.memory[0]["activations"]
    place = fullest(full, _plan(plan_of, "full").cluster)
    assert place.used < fullest(plain, _plan(plan_of, "none").cluster).used


def test_the_stages_are_balanced_with_what_is_computed_again(plan_of):
    """A layer takes 4/3 of what it did and the head does not, so that its stage gets a layer more."""
    plain, full = (outline(_plan(plan_of, wanted, pipeline=8)) for wanted in ("none", "full"))
    assert (plain.layers[-1], full.layers[-1]) == (1, 2)
    assert sum(full.layers) == sum(plain.layers) == 24
    own, others = (stages.stages(each) for each in (full, replace(full, layers=plain.layers)))
    longest = [max(f.seconds + b.seconds for f, b in zip(e.forward, e.backward, strict=True)) for e in (own, others)]
    assert longest[0] < 1.001 * longest[1]  # the cut takes each backward for twice its forward


@pytest.mark.parametrize("wanted", ["selective", "full", {"mode": "full", "layers": 2}])
@pytest.mark.parametrize(
    "parallel",
    [
        {"pipeline": 4, "data": 2},
        {"pipeline": 2, "tensor": 2, "sequence_parallel": True},
        {"pipeline": 1, "data": 8, "zero": 3},
    ],
    ids=str,
)
def test_the_estimate_agrees_with_the_play(plan_of, wanted, parallel):
    plan = _plan(plan_of, wanted, **parallel)
    assert estimate(outline(plan)).seconds == pytest.approx(simulate(plan).makespan, rel=0.02)


def test_a_plan_file_with_an_unknown_mode_is_refused(plan_of):
    text = (
        dumps(_plan(plan_of, "full"))
        .replace('"mode": "full"', '"mode": "all"')
        .replace('"mode":"full"', '"mode":"all"')
    )
    with pytest.raises(PlanError, match=r"recompute\.mode"):
        loads(text)
