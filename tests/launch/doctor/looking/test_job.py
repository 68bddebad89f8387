"""What a plan asks of a host: its ranks there, room for what lies on disk at one time, and what refuses it."""

from pathlib import Path

import pytest

from headway.errors import JobError
from headway.launch.doctor.looking.job import look
from headway.plan.memory import checkpoint_bytes


def _look(plan, folder, **trials):
    return look(plan, "rank 0", 7, run=folder / "run", checkpoints=folder / "kept", trials=trials)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("to be or not to be " * 1000)
    return {"path": str(path), "sequence_length": 32, "workers": 2}


def test_a_job_of_16_ranks_takes_two_hosts_of_8(tmp_path, plan_of, text):
    needs = _look(plan_of(data=text, parallel={"pipeline": 2, "data": 8}), tmp_path)
    assert (needs.kind, needs.ranks, needs.hosts, needs.workers) == ("cuda", 8, 2, 2)
    assert (needs.fullest, needs.used, needs.shares_memory) == ("rank 0", 7, False)
    assert needs.refused == needs.silent == ()
    assert "19001 tokens" in needs.data
    assert needs.run.path == needs.directory.path == str(tmp_path)


@pytest.mark.parametrize(
    ("checkpoint", "at_one_time"),
    [
        ({}, 0),
        ({"every": 10}, 3),
        ({"every": 10, "keep": 1}, 2),
        ({"every": 60}, 2),
        ({"every": 10, "keep": 0}, 10),
        ({"directory": "kept"}, 1),
        ({"every": 1000}, 1),
    ],
)
def test_while_a_checkpoint_is_written_the_older_ones_are_there(tmp_path, plan_of, text, checkpoint, at_one_time):
    plan = plan_of(data=text, train={"steps": 100}, checkpoint=checkpoint)
    assert _look(plan, tmp_path).kept == at_one_time * checkpoint_bytes(plan)


def test_all_that_refuses_a_job_is_told_at_once(tmp_path, plan_of, text):
    def full():
        raise JobError("the plan does not fit. Use more ranks.")

    plan = plan_of(data={**text, "path": str(tmp_path / "missing")}, parallel={"recompute": "full"})
    needs = _look(plan, tmp_path, memory=full)
    assert len(needs.refused) == 3
    assert needs.data is None
    assert needs.refused[1] == "the plan does not fit. Use more ranks."


def test_a_trial_that_breaks_is_not_known_rather_than_a_traceback(tmp_path, plan_of, text):
    needs = _look(plan_of(data=text), Path("/proc/self/no/such"), odd=lambda: 1 // 0)
    assert [each.at for each in needs.silent] == ["odd"]
