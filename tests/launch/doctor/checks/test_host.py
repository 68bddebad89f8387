"""Shared memory, pinned memory, disk, clock, ports and engine: well and not, each with its remedy."""

from dataclasses import replace

import pytest

from headway.launch.doctor.checks import host
from headway.launch.doctor.finding import Status
from headway.launch.doctor.machine import Clock, Engine, Network, RdmaPort, Silent, Space
from headway.units import Bytes
from tests.launch.doctor.machines import CPU, DISK, GIB, ascend

SHM = CPU.shared
SOCKET = "unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    ("space", "status", "remedy"),
    [
        (SHM, Status.OK, "nothing"),
        (replace(SHM, total=Bytes(2**26), free=Bytes(2**26)), Status.WARN, "--ipc=host, or with --shm-size"),
        (replace(SHM, free=Bytes(2**20)), Status.WARN, "ls -l /dev/shm"),
        (replace(SHM, path="/dev"), Status.WARN, "mount -t tmpfs"),
    ],
)
def test_shared_memory_has_room(space, status, remedy):
    found = host.shared(space)
    assert found.status is status
    assert remedy in found.remedy


def test_pinned_memory_is_limited_only_where_nothing_pins():
    limited = Bytes(8 * 2**20)
    assert host.memlock(CPU).status is Status.OK
    assert host.memlock(replace(CPU, memlock=limited)).status is Status.OK
    for machine in (
        ascend(),
        replace(CPU, network=Network(rdma=(RdmaPort("mlx5_0", 1, active=True, rate=None, ethernet=True),))),
    ):
        found = host.memlock(replace(machine, memlock=limited))
        assert found.status is Status.WARN
        assert "memlock=-1" in found.remedy


@pytest.mark.parametrize(
    ("space", "status"),
    [(DISK, Status.OK), (replace(DISK, free=Bytes(GIB)), Status.WARN), (replace(DISK, writable=False), Status.WARN)],
)
def test_there_is_room_on_the_disk_for_runs(space, status):
    assert host.disk(space).status is status


def test_a_clock_is_steered_by_a_time_server():
    assert "off by 2.00 ms at most" in host.clock(CPU.clock).what
    loose = host.clock(Clock(synchronised=False, error=16.0))
    assert loose.status is Status.WARN
    assert "chronyd" in loose.remedy


def test_the_port_where_ranks_meet_is_free_and_stays_so():
    assert host.ports(CPU).status is Status.OK
    busy = host.ports(replace(CPU, taken={29500: "in use"}))
    assert (busy.status, "(in use)" in busy.what) == (Status.WARN, True)
    given = host.ports(replace(CPU, passing=range(1024, 65536)))
    assert (given.status, "also of 20000-29999" in given.what) == (Status.WARN, True)


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({}, Status.OK, "are free"),
        ({"taken": {60003: "in use"}}, Status.WARN, "1 of HCCL's ports 60000-60015 are taken, like 60003"),
        ({"reserved": ()}, Status.WARN, "the kernel may give them to any connection"),
        ({"reserved": (), "passing": range(32768, 60000)}, Status.OK, "are free"),
    ],
)
def test_hccls_ports_are_free_and_kept_free(changes, status, said):
    found = host.hccl_ports(replace(ascend(), **changes))
    assert found.status is status
    assert said in found.what


@pytest.mark.parametrize(
    ("engine", "status", "said"),
    [
        (Engine(SOCKET, there=False), Status.OK, "no container engine"),
        (Engine(SOCKET, there=True, trouble="Permission denied"), Status.WARN, "does not answer: Permission denied"),
        (
            Engine(SOCKET, there=True, version="28.3.0", runtimes=("ascend", "runc")),
            Status.OK,
            "runtimes: ascend, runc",
        ),
    ],
)
def test_an_engine_answers_or_it_is_said_why_not(engine, status, said):
    found = host.engine(engine, needs_runtime=True)
    assert found.status is status
    assert said in found.what
    assert "without ascend-docker-runtime" not in found.what


def test_an_ascend_host_without_the_runtime_gives_devices_one_by_one():
    assert "without ascend-docker-runtime" in host.engine(CPU.engine, needs_runtime=True).what


def test_memory_that_is_nearly_gone_is_worth_a_look():
    assert host.memory(CPU).status is Status.OK
    assert host.memory(replace(CPU, available=Bytes(GIB))).status is Status.WARN


def test_a_look_that_hung_is_itself_a_finding():
    hung = replace(
        CPU, silent=(Silent("/dev/shm", "it took longer than 5.00 s"),), shared=None, scratch=None, clock=None
    )
    found = list(host.check(hung))
    assert found[-1].what == "/dev/shm could not be looked at: it took longer than 5.00 s"
    assert found[-1].status is Status.WARN


def test_a_space_says_where_it_is():
    assert "/data" in host.disk(Space("/data", 1, 1, writable=False)).what
