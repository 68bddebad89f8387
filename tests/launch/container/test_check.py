"""Contradictions in what is asked, each explained with what would work."""

import pytest

from headway.errors import PlanError
from headway.launch.container.build import build
from headway.launch.container.profiles import Via
from headway.launch.container.spec import Device, Ipc, Mount, Port
from headway.launch.container.wanted import Wanted
from headway.units import Bytes


def _refusal(profile="ascend", ids=(0, 1), **more):
    with pytest.raises(PlanError) as refused:
        build(Wanted(profile, "image", "job", ids=ids, **more), None)
    return str(refused.value)


def _mount(source, target="/x"):
    return {"mounts": (Mount(source, target, read_only=False),)}


@pytest.mark.parametrize(
    ("asked", "said", "remedy"),
    [
        (
            {"ports": (Port(223, 22),)},
            "--publish 223:22 does nothing with --network host: engines discard it, and what listens at 22 inside is",
            "use --network bridge",
        ),
        ({"ports": (Port(1, 2),), "network": "none"}, "nothing leads into such a container", "use --network bridge"),
        (
            {"ipc": Ipc.HOST, "shm_size": Bytes(2**34)},
            "--shm-size 16.0 GiB does nothing with --ipc host",
            "Leave one of the two out.",
        ),
        ({"ipc": Ipc.PRIVATE}, "--ipc private alone leaves 64 MB of /dev/shm", "Add --shm-size 16GiB"),
        ({"shm_size": Bytes(0)}, "--shm-size 0 is no size", "Use --shm-size 16GiB"),
        ({"shm_size": Bytes(2**70)}, "is no size of a host's memory", "Use --shm-size 16GiB"),
        ({"privileged": True}, "so --devices 0-1 keeps none away", "Leave --privileged out, or the choice of devices."),
        (
            {"privileged": True, "ids": None, "devices": (Device("/dev/fuse", "/dev/fuse"),)},
            "so --device /dev/fuse keeps none away",
            "Leave --privileged out",
        ),
        (
            {"privileged": True, "ids": None, "via": Via.RUNTIME},
            "so --via runtime keeps none away",
            "Leave --privileged out",
        ),
        (
            {"environment": (("ASCEND_VISIBLE_DEVICES", "0"),)},
            "ASCEND_VISIBLE_DEVICES is for ascend-docker-runtime, which then disregards devices named one by one",
            "Choose them by --devices",
        ),
        (
            {"via": Via.RUNTIME, "devices": (Device("/dev/davinci0", "/dev/davinci0"),)},
            "--device /dev/davinci0 and --via runtime give the same thing in two ways",
            "Choose by --devices alone.",
        ),
        ({"profile": "cpu"}, "--devices 0-1 chooses among accelerators, and the profile cpu has none", "Leave it out."),
        ({"via": Via.CDI}, "the profile ascend gives no devices via cdi", "Its ways: devices, runtime."),
        (
            {"profile": "cpu", "ids": None, "via": Via.CDI},
            "the profile cpu gives no devices via cdi",
            "leave --via out",
        ),
        ({"profile": "ascent"}, "no profile is called 'ascent'", "Did you mean 'ascend'?"),
        ({"without": ("hccn",)}, "the profile ascend has no part of that name", "Did you mean 'hccn.conf'?"),
        (
            {"profile": "cpu", "ids": None, "without": ("x",)},
            "the profile cpu has no part of that name",
            "It has none.",
        ),
        (
            {"without": ("driver",)},
            "no container of the profile ascend works without it (the driver's libraries and tools)",
            "These can be left out: devmm_svm, dcmi, npu-smi,",
        ),
        (
            {"via": Via.RUNTIME, "without": ("dcmi",)},
            "--without dcmi does nothing with --via runtime",
            "Leave it out.",
        ),
        (
            _mount("/data", "/usr/local/dcmi"),
            "--mount /data and the part dcmi both go to /usr/local/dcmi",
            "another place",
        ),
        (_mount("/data", "/dev//davinci1"), "--mount /data and the part davinci1 both go to /dev/davinci1", "another"),
        (
            {"mounts": (Mount("/a", "/x", read_only=True), Mount("/b", "/x/", read_only=True))},
            "--mount /b and --mount /a both go to /x",
            "Choose another place",
        ),
        ({"environment": (("A", "1"), ("A", "2"))}, "--env A is given 2 times", "Give it once."),
        ({"ids": None}, "--devices is missing", "--devices 0-15 for one of 16 (A3)"),
    ],
)
def test_a_contradiction_is_explained_with_what_would_work(asked, said, remedy):
    message = _refusal(**asked)
    assert said in message
    assert remedy in message


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("/", "hands the host's / to the container"),
        ("//", "hands the host's / to the container"),
        ("/usr/..", "hands the host's / to the container"),
        ("/etc", "hands the host's /etc to the container"),
        ("/etc/", "hands the host's /etc to the container"),
        ("/usr/../etc/.", "hands the host's /etc to the container"),
        ("/dev", "hands the host's /dev to the container"),
        ("/var/run/docker.sock", "is the engine's socket"),
        ("/run/docker.sock", "is the engine's socket"),
        ("/run", "holds the engine's socket /run/docker.sock"),
        ("/var", "holds the engine's socket /var/run/docker.sock"),
        ("/run/user/1000/docker.sock", "is the engine's socket"),
        ("/run/user/1000", "holds the engine's socket /run/user/1000/docker.sock"),
    ],
)
def test_a_mount_that_gives_the_host_away_needs_to_be_meant(source, said):
    own = {"sockets": ("/run/docker.sock", "/var/run/docker.sock", "/run/user/1000/docker.sock")}
    message = _refusal(**_mount(source), **own)
    assert said in message
    assert "headway container has --allow-dangerous-mounts" in message
    made = build(Wanted("ascend", "image", "job", ids=(0,), dangerous_mounts=True, **_mount(source), **own), None)
    assert Mount(source, "/x", read_only=False) in made.spec.mounts


@pytest.mark.parametrize("source", ["/etc/localtime", "/data", "/variant", "/running", "/home/me/etc"])
def test_other_mounts_do_not(source):
    assert build(Wanted("ascend", "image", "job", ids=(0,), **_mount(source)), None).spec.mounts


def test_all_contradictions_are_told_at_once():
    lines = _refusal(ports=(Port(1, 2),), ipc=Ipc.PRIVATE, without=("x", "driver"), **_mount("/")).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["--publish", "--ipc", "--without", "--without", "--mount"]
