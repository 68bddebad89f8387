"""What a process learns from its environment: its place in a job that torchrun or Slurm's srun started."""

import os

import pytest

from headway.env import (
    Worker,
    bound_interfaces,
    expand_hosts,
    for_docker,
    for_tools,
    parent,
    processor_flags,
    worker,
)
from headway.errors import PlanError

TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
BATCH_SHELL = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}
STEP = BATCH_SHELL | {
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_ID": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "node[07-08]",
    "SLURM_JOB_NODELIST": "node[01-08]",
}


def test_a_worker_of_torchrun_has_its_place_and_where_to_meet():
    assert worker(TORCHRUN) == Worker(3, 1, 4, "node1", 29500)


def test_a_task_of_srun_has_its_place_and_meets_on_the_first_host_of_its_step():
    assert worker(STEP) == Worker(3, 1, 4, "node07", 20000 + 16 * 7 + 2)


def test_a_step_on_one_host_needs_no_name_of_it():
    assert worker(STEP | {"SLURM_STEP_NODELIST": "node07"}).address == "127.0.0.1"


def test_the_place_to_meet_can_be_said():
    said = worker(STEP | {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"})
    assert (said.address, said.port) == ("10.0.0.1", 1234)


def test_steps_of_one_job_and_neighbouring_jobs_meet_at_different_ports_of_the_stated_range():
    ports = {
        worker(STEP | {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}).port
        for job in range(123_456, 123_466)
        for step in range(16)
    }
    assert len(ports) == 160
    assert all(20_000 <= port < 30_000 for port in ports)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        BATCH_SHELL,  # sbatch's script
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"},  # salloc's shell
        STEP | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},  # srun --pty bash
        {"RANK": "0"},  # set by something else
    ],
)
def test_whoever_was_not_started_as_one_of_several_starts_the_workers(variables):
    assert worker(variables) is None


def test_torchrun_inside_a_step_is_torchrun():
    assert worker(STEP | TORCHRUN) == worker(TORCHRUN)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("localhost", ["localhost"]),
        ("a,b", ["a", "b"]),
        ("node[03-05,9]", ["node03", "node04", "node05", "node9"]),
        ("node[098-101]", ["node098", "node099", "node100", "node101"]),
        ("rack[1-2]-node[0,2]", ["rack1-node0", "rack1-node2", "rack2-node0", "rack2-node2"]),
        ("gpu-[7],login.example.org", ["gpu-7", "login.example.org"]),
    ],
)
def test_slurms_lists_of_hosts_are_written_out(text, hosts):
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize(
    "text", ["", "a,,b", ",a", "node[1-", "node1]", "node[5-3]", "node[]", "node[a-b]", "node[[1]]"]
)
def test_what_is_no_list_of_hosts_is_refused_with_its_text(text):
    with pytest.raises(PlanError, match="as Slurm writes them"):
        expand_hosts(text)


def test_the_processors_flags_are_words_and_of_x86_alone():
    flags = processor_flags()
    assert all(flag.strip() == flag and " " not in flag for flag in flags)
    assert not flags or "fpu" in flags


def test_a_process_has_a_parent_and_none_that_is_not_there():
    assert parent(os.getpid()) == os.getppid()
    assert parent(2**31 - 1) is None


def test_only_what_says_where_the_engine_is_is_handed_to_docker():
    variables = {"DOCKER_HOST": "unix:///x", "DOCKER_CERT_PATH": "/c", "HOME": "/root", "PASSWORD": "secret"}
    assert for_docker(variables) == {"DOCKER_HOST": "unix:///x", "DOCKER_CERT_PATH": "/c"}


def test_tools_are_asked_in_english_and_bound_interfaces_are_those_that_are_set():
    assert for_tools({"PATH": "/bin", "LC_ALL": "de_DE"}) == {"PATH": "/bin", "LC_ALL": "C"}
    variables = {"GLOO_SOCKET_IFNAME": "eth0", "HCCL_IF_IP": "", "NCCL_DEBUG": "WARN"}
    assert bound_interfaces(variables) == {"GLOO_SOCKET_IFNAME": "eth0"}
