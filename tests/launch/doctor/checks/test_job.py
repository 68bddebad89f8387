"""Whether a job fits a host: devices, backend, memory, cores, disk, and what it is refused for."""

from dataclasses import replace

import pytest

from headway.launch.doctor.checks import job
from headway.launch.doctor.finding import Status
from headway.launch.doctor.machine import Npus, Silent, Torch
from headway.launch.doctor.npu_smi import Table
from headway.units import Bytes
from tests.launch.doctor.machines import CPU, DISK, GIB, ascend, needs, npu, nvidia, torch


def test_what_a_job_is_refused_for_is_split_into_what_and_what_to_do():
    found = job.refused("data.path: there is no file or folder /x. Name one with text in it, or stdlib.")
    assert found.status is Status.FAIL
    assert found.what == "data.path: there is no file or folder /x"
    assert found.remedy == "Name one with text in it, or stdlib."
    assert job.refused("nothing works").remedy == "Change the job."


@pytest.mark.parametrize(
    ("kind", "machine", "ranks", "status"),
    [
        ("cpu", CPU, 8, Status.OK),
        ("npu", ascend(), 8, Status.OK),
        ("npu", ascend(nodes=(0, 1), table=None), 8, Status.FAIL),
        ("npu", CPU, 1, Status.FAIL),
        ("cuda", nvidia(), 8, Status.OK),
        ("cuda", ascend(), 8, Status.FAIL),
    ],
)
def test_there_are_as_many_devices_as_ranks(kind, machine, ranks, status):
    found = job.devices(needs(kind=kind, ranks=ranks), machine)
    assert found.status is status


def test_a_job_over_several_hosts_says_how_many():
    found = job.hosts(needs(hosts=4), CPU)
    assert found.what == "the job takes 4 hosts with 8 ranks each; this is host-7"
    assert job.hosts(needs(ranks=1), CPU).what == "the job takes this host alone, with 1 rank"


@pytest.mark.parametrize(
    ("kind", "tried", "status"),
    [
        ("cpu", torch(), Status.OK),
        ("cpu", torch(backends=()), Status.FAIL),
        ("cpu", Torch("it hung"), Status.FAIL),
        ("cpu", None, Status.FAIL),
        ("npu", torch(backends=("gloo", "hccl"), devices={"npu": (GIB,) * 8}), Status.OK),
        ("npu", torch(backends=("gloo", "hccl"), devices={"npu": (GIB,) * 7}), Status.FAIL),
        ("cuda", torch(devices={"cuda": (GIB,) * 8}), Status.FAIL),
    ],
)
def test_torch_has_the_backend_and_shows_the_devices(kind, tried, status):
    machine = replace(CPU, software=replace(CPU.software, torch=tried))
    assert job.backend(needs(kind=kind), machine).status is status


def test_the_fullest_rank_has_room_on_the_device_with_the_least():
    wanted = needs(kind="npu", shares_memory=False, fullest="rank 3", used=Bytes(60 * GIB))
    assert job.memory(wanted, ascend()).status is Status.OK
    chips = [npu(i, used=Bytes(10 * GIB) if i == 5 else Bytes(GIB)) for i in range(8)]
    held = job.memory(wanted, ascend(table=Table("1", tuple(chips))))
    assert held.status is Status.FAIL
    assert held.what == "rank 3 takes 60.0 GiB; the device with the least room has 54.0 GiB free of 64.0 GiB"
    assert held.remedy.startswith("End what takes the rest")
    small = job.memory(replace(wanted, used=Bytes(70 * GIB)), ascend())
    assert small.remedy.startswith("Use a smaller train.microbatch")
    assert job.memory(replace(wanted, ranks=4), ascend(table=Table("1", tuple(chips)))).status is Status.OK


def test_where_the_tool_says_nothing_torch_is_believed_and_where_nobody_does_it_is_said():
    wanted = needs(kind="npu", shares_memory=False, used=Bytes(63 * GIB))
    mute = replace(ascend(), npus=Npus(tuple(range(8))))
    assert job.memory(wanted, mute).status is Status.OK
    unknown = replace(mute, software=None)
    assert job.memory(wanted, unknown).status is Status.WARN


@pytest.mark.parametrize(
    ("used", "available", "status"),
    [(4 * GIB, 500 * GIB, Status.OK), (4 * GIB, 5 * GIB, Status.FAIL), (511 * GIB, 500 * GIB, Status.FAIL)],
)
def test_ranks_on_a_cpu_share_the_hosts_memory_and_each_brings_torch(used, available, status):
    found = job.memory(needs(used=Bytes(used)), replace(CPU, available=Bytes(available)))
    assert found.status is status
    assert found.numbers["needed"] == used + 8 * job.PROCESS


def test_more_ranks_than_cores_are_slow_but_start():
    assert job.cores(needs(), CPU).status is Status.OK
    few = job.cores(needs(), replace(CPU, cores=2))
    assert (few.status, "longer than predicted" in few.what) == (Status.WARN, True)
    waiting = job.cores(needs(kind="npu"), replace(CPU, cores=8))
    assert (waiting.status, "devices wait for their host" in waiting.what) == (Status.WARN, True)
    assert waiting.remedy == "Use at most 4 ranks here, or a host with 16 cores."


@pytest.mark.parametrize(
    ("kept", "space", "status"),
    [(30, DISK, Status.OK), (500, DISK, Status.FAIL), (30, replace(DISK, writable=False), Status.FAIL)],
)
def test_checkpoints_that_lie_on_disk_at_one_time_have_room(kept, space, status):
    assert job.disk(Bytes(kept * GIB), space).status is status


def test_a_run_directory_that_cannot_be_written_keeps_the_job_from_starting():
    assert job.run(DISK).status is Status.OK
    assert job.run(replace(DISK, writable=False)).status is Status.FAIL


def test_a_job_that_keeps_no_checkpoints_needs_no_room_for_them():
    names = [each.name for each in job.check(needs(kept=Bytes(0), run=None), CPU)]
    assert "checkpoints" not in names
    assert "run directory" not in names


def test_data_that_could_not_be_read_in_time_is_worth_a_look():
    slow = needs(silent=(Silent("the data", "it took longer than 15.0 s"),), refused=("no. Yes.",), data="a corpus")
    found = {each.name: each for each in job.check(slow, CPU)}
    assert found["the data"].status is Status.WARN
    assert found["job"].status is Status.FAIL
    assert found["data"].what == "data and tokenizer fit the model: a corpus"
