"""The saver: complete or absent, whatever happens as it writes; ranks are threads here, their store is a dictionary."""

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from headway import checkpoints
from headway.checkpoints import DamagedError, Manifest
from headway.model.boxes import boxes
from headway.train import dcp
from headway.train.loss_scale import LossScale
from headway.train.part import Part
from headway.train.saver import Saver
from headway.train.state import Snapshot

pytestmark = [pytest.mark.dist, pytest.mark.usefixtures("one_thread")]
HERE = Path(__file__).parent
OWN = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}  # this checkout's package, not one that is installed
LOSS_SCALE = {"value": 1.0, "dynamic": False, "window": 1000, "streak": 0, "patience": 2}
SHAPES = {"one": (1,), "three": (3, 5), "six": (6, 2, 3), "wide": (2, 64)}


class Words:
    """A store in this process, as torch's behaves."""

    def __init__(self):
        self.values = {}

    def set(self, key, value):
        self.values[key] = value.encode()

    def get(self, key):
        return self.values[key]

    def check(self, keys):
        return all(key in self.values for key in keys)

    def delete_key(self, key):
        return self.values.pop(key, None) is not None


def manifest(step):
    numbers = {"step": step, "updates": step, "seed": 0, "samples": 9, "next_sample": step, "learning_rate": 1e-3}
    return Manifest(**numbers, loss_scale=LOSS_SCALE, layout="", plan="", written="", files={})


def _cut(name, tensor, rank, ranks):
    """The boxes of one rank's equal part of a flat tensor, and that part."""
    size, shape = tensor.numel(), tuple(tensor.shape)
    start, stop = size * rank // ranks, size * (rank + 1) // ranks
    mine, at, found = tensor.flatten()[start:stop].clone(), 0, []
    for box in boxes(shape, start, stop):
        found.append(Part(("model", name), shape, box.offset, mine[at : at + box.numel].view(box.shape)))
        at += box.numel
    return found, mine


def _tensors():
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in SHAPES.items()}


def _savers(directory, world, **settings):
    store, settings = Words(), {"keep": 2, **settings}
    return [Saver(directory, rank, world, lambda: store, **settings) for rank in range(world)]


def _names(directory):
    return sorted(path.name for path in directory.iterdir() if path.name != ".lock")


def _save(savers, tensors, step, plan="{}"):
    world = len(savers)
    for rank, saver in enumerate(savers):
        saver.begin([p for name, t in tensors.items() for p in _cut(name, t, rank, world)[0]], manifest(step), plan)
    for saver in savers:
        saver.wait()
    ends = [saver.ended() for saver in savers]
    assert all([(s.path, s.error) for s in end] == [(s.path, s.error) for s in ends[0]] for end in ends)
    return ends[0][0]


def test_rows_cut_over_four_ranks_are_read_by_five_and_by_torchs_own_reader(tmp_path):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    tensors = _tensors()
    saved = _save(_savers(tmp_path, 4), tensors, 3)
    assert not saved.error
    assert saved.bytes == sum(
        path.stat().st_size for path in Path(saved.path).iterdir() if path.name != "checkpoint.json"
    )
    path = checkpoints.latest(tmp_path)
    assert str(path) == saved.path
    assert checkpoints.damage(path) is None
    for ranks in (1, 3, 5):
        for name, tensor in tensors.items():
            parts = []
            for rank in range(ranks):
                found, mine = _cut(name, torch.full_like(tensor, torch.nan), rank, ranks)
                dcp.read(path, found)
                parts.append(mine)
            assert torch.equal(torch.cat(parts).view(tensor.shape), tensor)
    dcp_to_torch_save(path, tmp_path / "plain.pt")
    plain = torch.load(tmp_path / "plain.pt")["model"]
    assert plain.keys() == tensors.keys()
    assert all(torch.equal(plain[name], tensor) for name, tensor in tensors.items())


def test_what_is_missing_or_of_another_shape_is_an_error_and_never_a_zero(tmp_path):
    tensors = _tensors()
    path = Path(_save(_savers(tmp_path, 2), tensors, 1).path)
    with pytest.raises(DamagedError, match=r"it has no optimizer\.state\.six\.exp_avg"):
        dcp.read(path, [Part(("optimizer", "state", "six", "exp_avg"), (6,), (0,), torch.zeros(6))])
    with pytest.raises(DamagedError, match=r"its model\.three is of shape \(3, 5\), not \(4, 5\)"):
        dcp.read(path, [Part(("model", "three"), (4, 5), (0, 0), torch.zeros(4, 5))])
    half, _ = _cut("six", tensors["six"], 0, 2)
    at = tmp_path / "half"
    at.mkdir()
    with pytest.raises(ValueError, match=r"18 of the 36 elements of model\.six were written"):
        dcp.finish(at, [dcp.write(at, 0, half)])


def test_the_values_are_those_of_the_moment_although_the_weights_change_at_once(tmp_path, monkeypatch):
    """pytorch #144657, torchtitan #930: an asynchronous save held values of the step after."""
    stage = _stage()
    weights, go_on = _weights(stage), threading.Event()
    kept = [each.clone() for each in weights]
    write = dcp.write
    monkeypatch.setattr(dcp, "write", lambda *words: go_on.wait(30) and write(*words))
    (saver,) = _savers(tmp_path, 1)
    snapshot = Snapshot(stage, [{name: unit.own for name, unit in stage.units.items()}])
    saver.begin(snapshot.take(copied=True), manifest(3), "{}")
    for each in weights:
        each.fill_(-1.0)
    assert not saver.idle
    go_on.set()
    saver.wait()
    for each in weights:
        each.fill_(torch.nan)
    _restore(stage, tmp_path, 3)
    assert all(torch.equal(each, then) for each, then in zip(weights, kept, strict=True))
    assert stage.step == stage.optimizer.updates == 3


def test_a_second_save_waits_for_the_first(tmp_path, monkeypatch):
    go_on, write = threading.Event(), dcp.write
    monkeypatch.setattr(dcp, "write", lambda *words: go_on.wait(30) and write(*words))
    (saver,), tensors = _savers(tmp_path, 1), _tensors()
    parts = [part for name, tensor in tensors.items() for part in _cut(name, tensor, 0, 1)[0]]
    saver.begin(parts, manifest(1), "{}")
    second = threading.Thread(target=saver.begin, args=(parts, manifest(2), "{}"))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    assert checkpoints.newest_first(tmp_path) == ()
    go_on.set()
    second.join(30)
    saver.wait()
    assert [(each.step, each.error) for each in saver.ended()] == [(1, ""), (2, "")]
    assert [checkpoints.step_of(path) for path in checkpoints.newest_first(tmp_path)] == [2, 1]


def test_the_last_k_are_kept(tmp_path):
    savers = _savers(tmp_path, 2, keep=2)
    for step in (5, 10, 15, 20):
        _save(savers, _tensors(), step)
    assert [checkpoints.step_of(path) for path in checkpoints.newest_first(tmp_path)] == [20, 15]


def test_a_disk_without_room_is_told_with_path_wanted_and_free_bytes_before_anything_is_written(tmp_path):
    full = _save(_savers(tmp_path, 2, wanted=2**60), _tensors(), 2)
    assert full.error.startswith(
        f"{tmp_path}/step-00000002.partial cannot be written (No space left on device): 1048576 TiB are wanted, "
    )
    assert full.error.endswith(" are free. Free some space there, or name another checkpoint.directory")
    assert _names(tmp_path) == []


def test_two_jobs_do_not_write_into_one_directory(tmp_path):
    first, second = (_savers(tmp_path, 1) for _ in range(2))
    assert not _save(first, _tensors(), 1).error
    assert _save(second, _tensors(), 2).error == (
        f"{tmp_path} cannot be written (another job that is running uses it). Name another checkpoint.directory, "
        f"one that all nodes see and may write to"
    )
    first[0].close()
    assert not _save(second, _tensors(), 3).error
    assert _names(tmp_path) == ["step-00000001", "step-00000003"]


def test_a_directory_is_one_jobs_from_before_its_first_save_until_it_closes(tmp_path):
    first, second = (_savers(tmp_path / "kept", 1)[0] for _ in range(2))
    first.claim()
    with pytest.raises(BlockingIOError, match="another job that is running uses it"):
        second.claim()
    first.close()
    second.claim()
    second.close()


def test_a_file_that_cannot_be_written_to_its_end_leaves_no_checkpoint_on_any_rank(tmp_path):
    savers = _savers(tmp_path, 2)
    assert not _save(savers, _tensors(), 1).error
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        second = _save(savers, _tensors(), 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert second.error.startswith(f"{tmp_path}/step-00000002.partial cannot be written (File too large): ")
    assert _names(tmp_path) == ["step-00000001"]
    assert not _save(savers, _tensors(), 3).error, "the saver goes on"


# in a mount namespace of its own: the file system is gone with the process, however that ends
FULL = """
import json, subprocess, sys
from pathlib import Path
import torch
from headway import checkpoints
from tests.train.test_saver import _save, _savers, _tensors
small = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", small], check=True)
savers, found = _savers(small, 2), {}
found["first"] = _save(savers, _tensors(), 1).error
(small / "ballast").write_bytes(bytes(2**16))
found["full"] = _save(savers, {**_tensors(), "large": torch.zeros(2**12, 8)}, 2).error
found["left"] = sorted(path.name for path in small.glob("step-*"))
found["damage"] = checkpoints.damage(small / "step-00000001")
(small / "ballast").unlink()
found["after"] = _save(savers, _tensors(), 3).error
print(json.dumps(found))
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="mounting a small disk needs root, unshare"
)
def test_a_full_file_system_leaves_what_was_complete(tmp_path):
    command = ["unshare", "--mount", sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=OWN)
    if "unshare failed" in done.stderr or "mount: " in done.stderr:
        pytest.skip(f"no small file system can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["first"], found["after"], found["damage"]) == ("", "", None)
    assert f"{tmp_path}/step-00000002.partial cannot be written (No space left on device): " in found["full"]
    assert found["left"] == ["step-00000001"]


def test_a_rank_that_cannot_write_keeps_all_from_having_a_checkpoint(tmp_path, monkeypatch):
    write = dcp.write

    def fails(at, rank, parts):
        if rank == 1:
            raise RuntimeError("a broken disk")
        return write(at, rank, parts)

    monkeypatch.setattr(dcp, "write", fails)
    saved = _save(_savers(tmp_path, 3), _tensors(), 1)
    assert saved.error == f"{tmp_path}/step-00000001.partial cannot be written (RuntimeError: a broken disk)"
    assert _names(tmp_path) == []


@pytest.mark.parametrize("where", ["_dumps", "_loads"])
def test_an_error_that_nobody_has_foreseen_keeps_no_rank_waiting(tmp_path, monkeypatch, where):
    def fails(_):
        raise SystemError("unforeseen")

    monkeypatch.setattr("headway.train.saver." + where, fails)
    assert _save(_savers(tmp_path, 3), _tensors(), 1).error == "SystemError: unforeseen"


@pytest.mark.full
def test_killed_at_any_moment_of_a_save_it_leaves_the_one_before_or_a_complete_one(tmp_path):
    """Twenty processes that save, each killed at another moment; what is found afterwards is never half written."""
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_saves.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=OWN,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 20
    assert {each["damage"] for each in found} == {None}
    assert all(each["latest"] in (each["before"], each["step"]) for each in found)
    assert any(each["latest"] == each["before"] for each in found), "some were killed before they had written all"


@pytest.mark.parametrize(
    ("train", "saved", "value"),
    [
        ({"precision": "float16"}, LossScale(64.0, streak=5, patience=1), LossScale(64.0, streak=5, patience=1)),
        ({"precision": "float16", "loss_scale_window": 9}, LossScale(64.0, streak=5), LossScale(window=9)),
        ({"precision": "float16", "loss_scale": 8.0}, LossScale(64.0), LossScale(8.0, dynamic=False)),
        ({"precision": "float16"}, LossScale(1.0, dynamic=False), LossScale()),
        ({"precision": "bfloat16"}, LossScale(64.0), LossScale(1.0, dynamic=False)),
    ],
)
def test_the_loss_scale_goes_on_where_the_job_asks_for_one_of_that_kind(tmp_path, train, saved, value):
    stage = _stage(**train)
    (saver,) = _savers(tmp_path, 1)
    snapshot = Snapshot(stage, [{name: unit.own for name, unit in stage.units.items()}])
    saver.begin(snapshot.take(copied=False), replace(manifest(3), loss_scale=asdict(saved)), "{}")
    saver.wait()
    _restore(stage, tmp_path, 3)
    assert stage.scale == value


def _stage(**train):
    """A rank's stages of a small model, alone, after the optimizer has moved."""
    from headway.plan.build import build
    from headway.plan.job import Data, Job, Parallel, Train
    from headway.plan.read import decode
    from headway.train.comm import Comm
    from headway.train.torch_stage import TorchStage

    sizes = {"layers": 1, "hidden": 8, "heads": 2, "feed_forward": 12, "vocabulary": 97, "positions": 8}
    plan = build(
        Job(
            model=sizes,
            parallel=Parallel(pipeline=1, data=1),
            data=Data(sequence_length=8, tokenizer="none"),
            train=decode(Train, {"global_batch": 4, "microbatch": 2, **train}, "train"),
        )
    )
    channel = Comm.__new__(Comm)  # a rank alone has nobody to talk to, so no group is made
    stage = TorchStage(plan, plan.program, 0, torch.device("cpu"), channel)
    for unit in stage.units.values():
        unit.grads.copy_(torch.arange(len(unit.grads)) / 100 + 1)
    for _ in range(3):
        stage.optimizer.step(1e-3)
    stage.step = 3
    return stage


def _weights(stage):
    from headway.train.state import states

    return [flat for unit in stage.units.values() for flat in states(stage, unit)]


def _restore(stage, directory, step):
    from headway.train.state import restore

    path = checkpoints.path_of(directory, step)
    restore(stage, path, checkpoints.manifest(path))
