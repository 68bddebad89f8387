"""Jobs of two ranks that hang, each in its own way, are ended in time by a report that names the cause."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from headway.train.pulse import Pulse
from headway.train.watch import Watch
from tests.train.launching import start_ranks

pytestmark = pytest.mark.dist
SCRIPT = Path(__file__).parent / "hanging.py"
CASES = ("sleeps", "circle", "stops")
HANG_AFTER = 4  # as in the script


@pytest.fixture(scope="module")
def hung(tmp_path_factory):
    """Case → (exit statuses, stderr of each rank, the report, the steps done), of jobs that ran side by side."""
    folders = {case: tmp_path_factory.mktemp(case) for case in CASES}
    for folder in folders.values():
        (folder / "log").mkdir()
    jobs = {case: start_ranks(SCRIPT, [case, str(folder)], 2) for case, folder in folders.items()}
    try:
        _wait_for_steps(folders["stops"])
        os.kill(jobs["stops"][0].pid, signal.SIGSTOP)  # rank 0, which keeps the store
        stopped = time.monotonic()
        found = {}
        for case in ("stops", "circle", "sleeps"):
            texts = [rank.communicate(timeout=90)[0].decode() for rank in jobs[case]]
            if case == "stops":
                assert time.monotonic() - stopped < HANG_AFTER + 8
            report = json.loads((folders[case] / "log" / "hang.json").read_text())
            found[case] = ([rank.returncode for rank in jobs[case]], texts, report, _steps(folders[case]))
    finally:
        for ranks in jobs.values():
            for rank in ranks:
                rank.kill()
                rank.communicate()
    return found


def _steps(folder):
    return [int(path.read_text() or 0) for path in sorted(folder.glob("rank-*.steps"))]


def _wait_for_steps(folder):
    deadline = time.monotonic() + 90
    while not (steps := _steps(folder)) or min(steps) < 3:
        assert time.monotonic() < deadline, list(folder.iterdir())
        time.sleep(0.05)


@pytest.mark.full
def test_a_rank_that_sleeps_in_its_forward_is_named_and_ends_the_job(hung):
    statuses, texts, report, _ = hung["sleeps"]
    assert statuses == [1, 1]
    assert report["causes"] == [1]
    assert (
        "it is in step 4 at 1F0 (forward, stage 1, micro-batch 0) and waits for nobody; rank 0 waits for it."
        in (report["text"])
    )
    assert "for rank 1, which is in 1F0 since" in report["text"]
    slept = re.search(r"rank 1: step 4 · 1F0 for ([\d.]+) s", report["text"])
    assert HANG_AFTER <= float(slept[1]) < HANG_AFTER + 8, "named in time"
    assert sum(report["text"] in text for text in texts) == 1, "told once"
    assert not any("Traceback" in text for text in texts)


@pytest.mark.full
def test_a_save_that_takes_longer_than_hang_after_does_not_end_the_job(hung):
    assert hung["sleeps"][3] == [3, 3]  # the save was after the second of them


@pytest.mark.full
def test_ranks_that_wait_for_each_other_are_named_as_a_circle(hung):
    statuses, _, report, _ = hung["circle"]
    assert statuses == [1, 1]
    assert report["causes"] == [0, 1]
    assert report["text"].startswith(
        "ranks 0, 1 wait for each other in a circle: rank 0 (0RECV_B0) for rank 1, rank 1 (1RECV_F1) for rank 0."
    )


@pytest.mark.full
def test_a_stopped_rank_is_named_and_killed_even_if_it_keeps_the_store(hung):
    statuses, _, report, _ = hung["stops"]
    assert statuses == [-signal.SIGKILL, 1]
    assert report["causes"] == [0]
    assert "The job's store does not answer: this is what rank 1 and the run's directory know." in report["text"]


def test_a_rank_is_known_by_its_file_as_soon_as_all_have_joined(tmp_path, plan_of):
    """One that is stopped before the watchdog's first tick has told nobody else where it is."""
    (tmp_path / "log").mkdir()
    watch = Watch(plan_of(parallel={"pipeline": 2, "data": 1}), 1, Pulse(), lambda: pytest.fail("nobody asks"))
    watch.joined(tmp_path)
    found = json.loads((tmp_path / "log" / "rank-1.position").read_text())
    assert (found["rank"], found["pid"], found["ended"]) == (1, os.getpid(), False)
