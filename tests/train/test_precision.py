"""16-bit training: what is added up, updated and rounded in which type; overflows on one rank; losses beside float32's.

torch is imported inside, so that the default tests are collected without it.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headway.units import Dtype
from tests.train.launching import run_ranks

pytestmark = pytest.mark.dist
SCRIPT = Path(__file__).with_name("play_precision.py")
ROOT = Path(__file__).parent.parent.parent
DEMO = ROOT / "examples" / "stdlib.yaml"
FLOOR = """
model: {{layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}}
parallel: {{tensor: 2, pipeline: 1, data: 1}}
data: {{sequence_length: 32, path: {folder}/text.txt, validation: 0}}
optimizer: {{lr: 1e30, clip: 0, warmup_steps: 0}}
train: {{steps: 40, global_batch: 4, microbatch: 2, precision: float16}}
run: {{directory: {folder}/run}}
"""
DEMO_STEPS = 20  # of its 450: as many as 16-bit products without AMX make in about a minute and a half on two cores


def _units(plan_of, precision):
    import torch

    from headway.train.flat import FlatUnit

    plan = plan_of(model={"preset": "gpt-tiny", "layers": 2}, parallel={"pipeline": 1, "data": 1, "unit_bytes": 1})
    dtype, wide = (getattr(torch, each) for each in (precision, Dtype(precision).wide))
    units = [FlatUnit(unit, dtype, torch.device("cpu"), wide=wide) for unit in plan.units]
    for unit in units:
        unit.initialise(plan.model, seed=0)
    return plan, units


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_gradients_of_16_bits_add_up_in_float32(plan_of, precision):
    """300 ones: a bfloat16 sum stops at 256. And a part of 2^-10 beside 1, which both types would lose."""
    import torch

    plan, units = _units(plan_of, precision)
    unit = next(unit for unit in units if unit.unit.name == "layers.0")
    leaf = unit.leaves(plan.blocks[0][1])["attention.output.bias"]
    for _ in range(300):
        leaf.sum().backward()
    (leaf * 2.0**-12).sum().backward()
    added = unit.named(unit.grads)["layers.0.attention.output.bias"]
    assert added.dtype is torch.float32
    assert torch.equal(added, torch.full_like(added, 300 + 2.0**-12))
    assert unit.grads.count_nonzero() == added.numel()


@pytest.mark.usefixtures("one_thread")
def test_first_weights_are_float32s_rounded(plan_of):
    import torch

    _, full = _units(plan_of, "float32")
    _, half = _units(plan_of, "bfloat16")
    for one, other in zip(full, half, strict=True):
        assert not one.has_master
        assert torch.equal(one.params, other.master)
        assert torch.equal(one.params.to(torch.bfloat16), other.params)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_an_update_is_torchs_adamw_on_float32_masters_then_rounded(plan_of, precision):
    import torch

    from headway.train.optimizer import AdamW

    plan, units = _units(plan_of, precision)
    optimizer, o = AdamW(units, plan.optimizer), plan.optimizer
    copies = {name: view.clone() for unit in units for name, view in unit.named(unit.master).items()}
    decayed, rest = ([v for v in copies.values() if (v.dim() > 1) is matrix] for matrix in (True, False))
    groups = [{"params": decayed, "weight_decay": o.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    expected = torch.optim.AdamW(groups, lr=1e-3, betas=o.betas, eps=o.eps, foreach=False, fused=False)
    generator = torch.Generator().manual_seed(1)
    for rate in (1e-3, 2e-3, 5e-4, 1e-3, 1e-4):
        for group in expected.param_groups:
            group["lr"] = rate
        for unit in units:
            unit.grads.copy_(torch.randn(unit.grads.shape, generator=generator) * 1e-3)
            for name, gradient in unit.named(unit.grads).items():
                copies[name].grad = gradient.clone()
        optimizer.step(rate)
        expected.step()
    for unit in units:
        for name, master in unit.named(unit.master).items():
            assert (master - copies[name]).abs().max() <= 1e-6, name
        assert torch.equal(unit.params, unit.master.to(getattr(torch, precision)))
    numel, slices = sum(u.unit.numel for u in units), sum(len(u.unit.groups(u.own)) for u in units)
    assert sum(tensor.nbytes for tensor in optimizer.tensors()) == 12 * numel + 4 * slices


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What each of four ranks (pipeline 2 × data 2) saw in runs whose gradients are spoiled on rank 2 alone."""
    out = tmp_path_factory.mktemp("precision") / "out.json"
    run_ranks(SCRIPT, [str(out)], 4, timeout=300)
    return json.loads(out.read_text())


def test_all_ranks_see_the_same_scale_the_same_overflows_and_the_same_unit(played):
    assert all(rank == played[0] for rank in played)
    assert {step["unit"] for step in played[0]["ten overflows"][:10]} == {"layers.1"}


def _column(played, run, key):
    return [step[key] for step in played[0][run]]


def test_ten_infinities_take_the_scale_from_sixteen_to_one_where_the_job_would_stop(played):
    """Played on behind the stop, it stays at one, and doubles after a window of two steps without overflow."""
    assert _column(played, "ten overflows", "scale") == [16, 8, 4, 2, *[1] * 8, 2, 2]
    assert _column(played, "ten overflows", "gave_up") == [*[False] * 4, *[True] * 6, *[False] * 4]


def test_a_step_that_overflows_changes_no_weight_and_the_next_one_does(played):
    assert _column(played, "ten overflows", "moved") == [False] * 10 + [True] * 4
    assert _column(played, "float16 fixed", "moved") == [True, False, True]


def test_the_optimizers_counters_stand_still_at_a_step_that_is_left_out_and_the_ranks_go_on(played):
    """Those of all four ranks are equal: `test_all_ranks_see_the_same_scale…`."""
    assert _column(played, "ten overflows", "counters") == [[0]] * 10 + [[1], [2], [3], [4]]
    assert _column(played, "bfloat16 skips", "counters") == [[1], [1], [2]]
    assert _column(played, "float16 fixed", "counters") == [[1], [1], [2]]
    assert _column(played, "ten overflows", "step") == list(range(1, 15))


def test_a_fixed_scale_stays_and_the_job_decides_whether_to_skip(played):
    assert _column(played, "float16 fixed", "scale") == [256] * 3
    assert not any(_column(played, "float16 fixed", "gave_up"))


@pytest.mark.parametrize(("run", "gives_up"), [("bfloat16 skips", False), ("bfloat16 stops", True)])
def test_a_nan_in_one_gradient_of_one_rank_is_skipped_or_stops_all_of_them_at_its_step(played, run, gives_up):
    finite, gave_up = _column(played, run, "finite"), _column(played, run, "gave_up")
    assert (finite[:2], gave_up[:2]) == ([True, False], [False, gives_up])
    assert _column(played, run, "moved")[:2] == [True, False]
    assert _column(played, run, "unit")[1] == "layers.1"


@pytest.mark.parametrize("name", ["bfloat16", "bfloat16 reduced", "float16"])
def test_training_in_16_bits_reaches_the_loss_of_float32_within_one_percent(played, name):
    losses = played[0]["losses"]
    assert losses["float32"][-1] < 0.75 * losses["float32"][0]
    for half, single in zip(losses[name], losses["float32"], strict=True):
        assert half == pytest.approx(single, rel=0.01)
    assert losses[name] != losses["float32"]


@pytest.mark.full
def test_float16_that_overflows_at_the_floor_of_its_loss_scale_stops_all_ranks_and_names_the_first_unit(tmp_path):
    """Weights without end: 65536 is forgiven once and halved sixteen times, in steps 2 to 18 at the latest."""
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 300)
    (tmp_path / "job.yaml").write_text(FLOOR.format(folder=tmp_path))
    command = [sys.executable, "-m", "headway", "train", str(tmp_path / "job.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    found = re.search(r"step (\d+): float16 overflows at a loss scale of 1, its floor: .*", done.stderr)
    assert found, done.stderr
    assert 18 <= int(found[1]) <= 20
    assert "first (from the loss back) in unit " in found[0]
    reports = [json.loads(path.read_text()) for path in (tmp_path / "run" / "log").glob("rank-*.error.json")]
    assert [report["error"].split(":")[0] for report in reports] == [f"step {found[1]}"] * 2
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scales = [line["loss_scale"] for line in lines if "loss_scale" in line]
    assert list(dict.fromkeys(scales)) == [2.0**power for power in range(16, -1, -1)]


def _demo(folder, precision):
    """The summary of a short run of the demo, and its losses step by step."""
    settings = {"train.steps": DEMO_STEPS, "train.precision": precision, "run.directory": folder / precision}
    command = [sys.executable, "-m", "headway", "train", str(DEMO), "--json"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    lines = [json.loads(line) for line in (folder / precision / "metrics.jsonl").read_text().splitlines()]
    return json.loads(done.stdout), [line["loss"] for line in lines if "loss" in line]


@pytest.mark.full
def test_the_demo_in_bfloat16_reaches_the_losses_of_float32_within_one_percent(tmp_path):
    """The mean of its last ten steps: one loss of so early a step, as a validation is, moves by a percent by itself."""
    (single, full), (_, narrow) = (_demo(tmp_path, precision) for precision in ("float32", "bfloat16"))
    assert single["last_validation_loss"] < 0.65 * single["first_validation_loss"]
    assert len(full) == len(narrow) == DEMO_STEPS
    assert sum(narrow[-10:]) == pytest.approx(sum(full[-10:]), rel=0.01)
    assert narrow != full
