"""The learning rate: closed forms at the edges of each shape, Megatron's values, and that what is logged is used."""

import json
import math
import subprocess
import sys

import pytest

from headway.plan.job import Optimizer
from headway.train.rate import learning_rate

SHAPES = ("cosine", "linear", "wsd", "constant")


def _rates(steps=40, **settings):
    return [learning_rate(Optimizer(**settings), step, steps) for step in range(steps)]


@pytest.mark.parametrize("schedule", SHAPES)
def test_warm_up_is_linear_and_ends_at_lr(schedule):
    rates = _rates(schedule=schedule, lr=0.8, warmup_steps=8, decay_steps=10)
    assert rates[:8] == pytest.approx([0.1 * (step + 1) for step in range(8)], rel=1e-15)
    assert rates[8] == pytest.approx(0.8, rel=1e-15)


@pytest.mark.parametrize("schedule", SHAPES)
def test_without_warm_up_the_first_step_is_at_lr(schedule):
    assert _rates(schedule=schedule, lr=0.8, warmup_steps=0)[0] == 0.8


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd"])
def test_the_decay_reaches_min_lr_when_the_last_step_is_done_and_stays_there(schedule):
    settings = Optimizer(schedule=schedule, lr=0.8, min_lr=0.1, warmup_steps=8, decay_steps=10)
    assert [learning_rate(settings, step, 40) for step in (40, 41, 99)] == [0.1] * 3
    last, one_before = (learning_rate(settings, step, 40) for step in (39, 38))
    assert 0.1 < last < one_before < 0.8


def test_half_way_cosine_and_linear_are_half_way_down():
    for schedule in ("cosine", "linear"):
        rates = _rates(schedule=schedule, lr=0.9, min_lr=0.1, warmup_steps=10)
        assert rates[25] == pytest.approx(0.5, rel=1e-15)


def test_a_constant_rate_stays():
    assert set(_rates(schedule="constant", lr=0.9, min_lr=0.1, warmup_steps=4)[4:]) == {0.9}


def test_wsd_is_stable_until_its_decay_which_is_linear():
    rates = _rates(schedule="wsd", lr=0.9, min_lr=0.1, warmup_steps=4, decay_steps=8)
    assert set(rates[4:33]) == {0.9}
    assert rates[32:] == pytest.approx([0.9 - 0.1 * step for step in range(8)], rel=1e-14)


@pytest.mark.parametrize("schedule", SHAPES)
def test_nothing_falls_where_min_lr_is_above_lr(schedule):
    assert set(_rates(schedule=schedule, lr=1e-5, min_lr=1e-4, warmup_steps=4)[4:]) == {1e-5}


@pytest.mark.parametrize("schedule", SHAPES)
def test_a_warm_up_longer_than_the_run_never_decays(schedule):
    rates = _rates(steps=5, schedule=schedule, lr=1.0, warmup_steps=10, decay_steps=0)
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], rel=1e-15)


def test_the_values_of_megatrons_own_tests():
    """Its `test_optimizer_param_scheduler.py` (lr 0.1, min_lr 0.001, warm-up 100 of 1000 steps).

    Its warm-up begins at init_lr 0.01 and gives 0.055 at 50. Ours begins at 0, as its default does, and counts the
    steps from 1, so that the first one does something: half of lr as step 50 of 100. The decays are the same.
    """
    megatron = {"lr": 0.1, "min_lr": 0.001, "warmup_steps": 100}
    linear = _rates(steps=1000, schedule="linear", **megatron)
    assert linear[49] == pytest.approx(0.05, rel=1e-15)
    assert linear[99] == 0.1
    assert linear[500] == pytest.approx(0.1 - (0.1 - 0.001) * ((500 - 100) / (1000 - 100)), rel=1e-14)
    assert learning_rate(Optimizer(schedule="linear", **megatron), 1001, 1000) == 0.001
    cosine = _rates(steps=1000, schedule="cosine", **megatron)
    falling = 0.5 * (math.cos(math.pi * (500 - 100) / (1000 - 100)) + 1)
    assert cosine[500] == pytest.approx(0.001 + (0.1 - 0.001) * falling, rel=1e-14)


@pytest.mark.dist
def test_the_rate_that_is_logged_is_the_one_that_the_optimizer_uses():
    code = """
import json, numpy, torch, torch.distributed as dist
from headway.data.samples import Batch
from headway.plan.build import build
from headway.plan.job import Job, Optimizer, Parallel, Train
from headway.train import comm
from headway.train.loop import Trainer
from headway.train.torch_stage import TorchStage
sizes = {"layers": 1, "hidden": 8, "heads": 1, "feed_forward": 8, "vocabulary": 256, "positions": 256}
optimizer = Optimizer(schedule="wsd", warmup_steps=2, decay_steps=3)
train = Train(steps=8, global_batch=1, microbatch=1)
plan = build(Job(model=sizes, parallel=Parallel(pipeline=1, data=1), optimizer=optimizer, train=train))
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
stage = TorchStage(plan, plan.program, 0, torch.device("cpu"), comm.Comm(plan, 0))
trainer = Trainer(plan, stage, lambda *_: None)
tokens = numpy.zeros((1, 1, 256), numpy.int64)
used, step = [], stage.optimizer.step
stage.optimizer.step = lambda rate: used.append(rate) or step(rate)
print(json.dumps([[trainer.train_step(Batch(tokens, tokens)).learning_rate for _ in range(8)], used]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    logged, used = json.loads(done.stdout)
    assert logged == used == _rates(steps=8, schedule="wsd", warmup_steps=2, decay_steps=3)
