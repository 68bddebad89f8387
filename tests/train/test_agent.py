"""What an agent says where its host would not meet the others, before it answers and after, and whom it meets."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headway.train.agent import keep_quiet_about_partings, run_id

BEGIN = "import pathlib, sys; from headway.train import agent; sys.exit(agent.main(pathlib.Path(sys.argv[1]), 1, 0))"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "plan.json").touch()
    return tmp_path


def ask(run, **place):
    """Exit status and what is said by an agent that finds an obstacle: it imports no torch for that."""
    variables = {f"PET_{name}": str(value) for name, value in place.items()}
    words = [sys.executable, "-m", "headway.train.agent", str(run), "1", "0", "stdin"]
    environment = {**os.environ, **variables}
    leash, held = os.pipe()  # held here: its end would end the agent
    try:
        done = subprocess.run(
            words, check=False, env=environment, stdin=leash, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(leash)
        os.close(held)
    return done.returncode, done.stderr.strip()


def test_a_run_directory_that_is_not_here_is_named(tmp_path):
    said = f"{tmp_path}/gone/plan.json is not here: all hosts must share the run's directory."
    assert ask(tmp_path / "gone") == (2, said)


def test_a_meeting_place_that_nobody_knows_is_named(run):
    status, said = ask(run, NNODES=2, NODE_RANK=1, MASTER_ADDR="no-such-host.invalid", MASTER_PORT=29500)
    assert status == 2
    assert said.startswith("no-such-host.invalid, where the ranks are to meet, is not known here (")
    assert said.endswith("give --address.")


def test_a_port_that_is_taken_is_named(run):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, said = ask(run, NNODES=2, NODE_RANK=0, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    assert (status, said) == (
        2,
        f"port {port}, where the ranks are to meet, cannot be had (Address already in use): give --port.",
    )


def test_hosts_of_one_run_know_each_other_and_no_others():
    assert run_id(Path("/runs/one")) == run_id(Path("/runs/one")) != run_id(Path("/runs/two"))


@pytest.mark.dist
def test_a_port_that_another_program_has_come_to_since_is_said_in_a_line(run):
    (run / "log").mkdir()
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        place = {"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        variables = {**os.environ, **{f"PET_{name}": value for name, value in place.items()}}
        words = [sys.executable, "-c", BEGIN, str(run)]
        done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 1
    assert f"the hosts do not meet at 127.0.0.1:{port} (" in done.stderr
    assert "Give a --port that is free on the first host" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_agent_that_parts_late_logs_no_traceback(monkeypatch):
    """torch's own barrier, whose store is gone."""
    from torch.distributed.elastic.agent.server import api

    late = SimpleNamespace(
        _worker_group=SimpleNamespace(state="SUCCEEDED", group_world_size=2), _store=None, _exit_barrier_timeout=1
    )
    said = []
    monkeypatch.setattr(api.logger, "filters", [])
    monkeypatch.setattr(api.logger, "handle", lambda record: api.logger.filter(record) and said.append(record.msg))
    api.SimpleElasticAgent._exit_barrier(late)
    assert said == ["Error waiting on exit barrier. Elapsed: %s seconds"]
    keep_quiet_about_partings()
    api.SimpleElasticAgent._exit_barrier(late)
    assert len(said) == 1
