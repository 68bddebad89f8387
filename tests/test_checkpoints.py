"""Checkpoint directories: what is complete, what is damaged and why, and what is removed."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from headway import checkpoints
from headway.checkpoints import DamagedError, Manifest
from headway.errors import PlanError

LOSS_SCALE = {"value": 1.0, "dynamic": False, "window": 1000, "streak": 0, "patience": 2}


def _make(directory, step, content="abc" * 100):
    at = checkpoints.partial(directory, step)
    at.mkdir(parents=True)
    files = {
        name: checkpoints.write(at / name, f"{name}{content}") for name in ("__0_0.distcp", ".metadata", "plan.json")
    }
    numbers = {"step": step, "updates": step, "seed": 0, "samples": 9, "next_sample": 4 * step, "learning_rate": 1e-3}
    made = Manifest(**numbers, loss_scale=LOSS_SCALE, layout="", plan="", written="", files=files)
    return checkpoints.commit(directory, made), made


def test_a_manifest_is_read_back_as_it_was_written(tmp_path):
    path, made = _make(tmp_path, 4)
    assert path == tmp_path / "step-00000004"
    assert checkpoints.manifest(path) == made
    assert checkpoints.damage(path) is None
    assert checkpoints.unfinished(tmp_path) == ()


def _truncated(path):
    (path / "__0_0.distcp").write_bytes((path / "__0_0.distcp").read_bytes()[:-1])


def _flipped(path):
    content = bytearray((path / "__0_0.distcp").read_bytes())
    content[17] ^= 1
    (path / "__0_0.distcp").write_bytes(content)


def _edited(path):
    document = json.loads((path / "checkpoint.json").read_text())
    (path / "checkpoint.json").write_text(json.dumps(document | {"updates": 5}))


def _rewritten(path, change):
    """The manifest changed by who knows how to sign it: another version of Headway."""
    document = json.loads((path / "checkpoint.json").read_text())
    del document["sha256"]
    change(document)
    (path / "checkpoint.json").write_text(json.dumps(document | {"sha256": checkpoints._digest(document)}))


def _of_another_format(path):
    _rewritten(path, lambda document: document.update(format=2))


def _without_a_format(path):
    _rewritten(path, lambda document: document.pop("format"))


def _with_other_fields(path):
    _rewritten(path, lambda document: document.update(experts=8, topology=1) or document.pop("seed"))


def _with_other_fields_of_files(path):
    _rewritten(path, lambda document: document["files"][".metadata"].update(owner="me"))


@pytest.mark.parametrize(
    ("harm", "why", "looks_complete"),
    [
        (_truncated, "its __0_0.distcp has 311 bytes, but 312 were written", False),
        (lambda path: (path / ".metadata").unlink(), "its .metadata is missing", False),
        (_flipped, "its __0_0.distcp is not as it was written (its checksum differs)", True),
        (lambda path: (path / "checkpoint.json").unlink(), "it has no checkpoint.json, which is written last", False),
        (lambda path: (path / "checkpoint.json").write_text("{"), "its checkpoint.json cannot be read", False),
        (
            lambda path: (path / "checkpoint.json").write_text("[]"),
            "its checkpoint.json is not as it was written",
            False,
        ),
        (_edited, "its checkpoint.json is not as it was written (its own checksum differs)", False),
        (_of_another_format, "it is of format 2, but this version of Headway reads 1", False),
        (_without_a_format, "it is of format None, but", False),
        (
            _with_other_fields,
            "its checkpoint.json has other fields than this version of Headway reads (experts is unknown, topology is "
            "unknown, seed is missing)",
            False,
        ),
        (_with_other_fields_of_files, "its checkpoint.json has other fields than this version of Headway reads", False),
    ],
)
def test_a_damaged_one_says_why_and_the_one_before_is_the_latest(tmp_path, harm, why, looks_complete):
    before, _ = _make(tmp_path, 4)
    path, _ = _make(tmp_path, 8)
    harm(path)
    assert checkpoints.damage(path).startswith(why)
    assert checkpoints.latest(tmp_path) == (path if looks_complete else before)
    assert checkpoints.damage(before) is None
    if not looks_complete:
        with pytest.raises(DamagedError):
            checkpoints.manifest(path)


def test_the_latest_is_found_by_looking_and_what_is_unfinished_is_none(tmp_path):
    assert checkpoints.latest(tmp_path / "missing") is None
    for step in (9, 10, 100_000_000):
        _make(tmp_path, step)
    checkpoints.partial(tmp_path, 200_000_000).mkdir()
    (tmp_path / "step-4").write_text("a file")
    assert [checkpoints.step_of(path) for path in checkpoints.newest_first(tmp_path)] == [100_000_000, 10, 9]
    assert checkpoints.step_of(checkpoints.latest(tmp_path)) == 100_000_000
    assert checkpoints.step_of(checkpoints.latest(tmp_path, 99)) == 10


def test_the_last_k_complete_ones_are_kept_and_a_damaged_one_is_not_one_of_them(tmp_path):
    for step in (1, 2, 3, 4):
        _make(tmp_path, step)
    _truncated(checkpoints.path_of(tmp_path, 3))
    checkpoints.prune(tmp_path, 2)
    assert [checkpoints.step_of(path) for path in checkpoints.newest_first(tmp_path)] == [4, 3, 2]
    _make(tmp_path, 5)
    checkpoints.prune(tmp_path, 2, damaged=["step-00000005"])
    assert [checkpoints.step_of(path) for path in checkpoints.newest_first(tmp_path)] == [5, 4, 3, 2]
    checkpoints.prune(tmp_path, 2)
    assert [checkpoints.step_of(path) for path in checkpoints.newest_first(tmp_path)] == [5, 4]
    checkpoints.prune(tmp_path, 0)
    assert len(checkpoints.newest_first(tmp_path)) == 2


def test_a_directory_is_one_writers_as_long_as_it_lives(tmp_path):
    assert not checkpoints.is_claimed(tmp_path)
    claim = checkpoints.claim(tmp_path)
    assert checkpoints.is_claimed(tmp_path)
    with pytest.raises(OSError, match="another job that is running uses it"):
        checkpoints.claim(tmp_path)
    os.close(claim)
    assert not checkpoints.is_claimed(tmp_path)
    os.close(checkpoints.claim(tmp_path))


def test_what_killed_writers_have_left_is_swept(tmp_path):
    kept, _ = _make(tmp_path, 1)
    checkpoints.partial(tmp_path, 2).mkdir()
    (tmp_path / "step-00000003.removed").mkdir()
    (tmp_path / "mine").mkdir()
    checkpoints.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", kept.name]


def test_a_step_that_is_saved_again_takes_the_place_of_the_damaged_one(tmp_path):
    path, _ = _make(tmp_path, 1)
    _truncated(path)
    assert checkpoints.damage(path)
    _make(tmp_path, 1, content="new")
    assert checkpoints.damage(path) is None


def test_a_path_means_one_checkpoint_a_directory_of_them_or_a_run(tmp_path):
    run = tmp_path / "run"
    old, _ = _make(run / "checkpoints", 1)
    new, _ = _make(run / "checkpoints", 2)
    assert checkpoints.named(run) == checkpoints.named(run / "checkpoints") == (new, old)
    assert checkpoints.named(old) == (old,)
    with contextlib.chdir(old):
        assert checkpoints.named(Path()) == checkpoints.named(Path(".")) == (old,)
    with contextlib.chdir(run / "checkpoints"):
        assert [path.resolve() for path in checkpoints.named(Path())] == [new, old]
    other, _ = _make(tmp_path / "other", 3)
    assert checkpoints.candidates(tmp_path / "other", str(run)) == (other, new, old)
    assert checkpoints.candidates(run / "checkpoints", str(old)) == (new, old)


def test_a_path_without_checkpoints_is_refused_and_says_what_is_there(tmp_path):
    with pytest.raises(PlanError, match=r"there is no checkpoint .*missing\. Name one"):
        checkpoints.named(tmp_path / "missing")
    with pytest.raises(PlanError, match=r"holds no checkpoint\. Name a step-"):
        checkpoints.named(tmp_path)
    checkpoints.partial(tmp_path / "checkpoints", 7).mkdir(parents=True)
    with pytest.raises(PlanError, match=r"\(only step-00000007.partial, which was not finished\)"):
        checkpoints.named(tmp_path)


def test_the_runs_own_folder_is_where_they_are_unless_the_job_says_so(tmp_path):
    assert checkpoints.folder(None, "job", tmp_path) == tmp_path / "checkpoints"
    assert str(checkpoints.folder("/data/{name}", "job", tmp_path)) == "/data/job"
