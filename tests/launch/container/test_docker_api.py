"""The arguments of the `docker` package: the same container as the line makes, in its words."""

import pytest

from headway.launch.container.build import build
from headway.launch.container.docker_api import keywords
from headway.launch.container.docker_line import words
from headway.launch.container.profiles import Via
from headway.launch.container.spec import Mount, Port
from headway.launch.container.wanted import Wanted
from headway.units import Bytes


def _keywords(profile, **more):
    return keywords(build(Wanted(profile, "image", "job", **more), None).spec)


def test_devices_have_their_rights_and_mounts_cannot_be_written_to():
    found = _keywords("ascend", ids=(3,))
    assert found["devices"][0] == "/dev/davinci3:/dev/davinci3:rwm"
    assert found["mounts"][0] == {
        "Type": "bind",
        "Source": "/usr/local/Ascend/driver",
        "Target": "/usr/local/Ascend/driver",
        "ReadOnly": True,
    }
    assert found["ulimits"] == [
        {"Name": "memlock", "Soft": -1, "Hard": -1},
        {"Name": "nofile", "Soft": 1_048_576, "Hard": 1_048_576},
    ]


@pytest.mark.parametrize(
    ("asked", "request_"),
    [
        ({}, {"Driver": "", "Capabilities": [["gpu"]], "Count": -1}),
        ({"ids": (0, 2)}, {"Driver": "", "Capabilities": [["gpu"]], "DeviceIDs": ["0", "2"]}),
        ({"via": Via.CDI}, {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}),
        ({"via": Via.CDI, "ids": (1,)}, {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=1"]}),
    ],
)
def test_gpus_are_requested_of_the_engine_or_of_cdi(asked, request_):
    assert _keywords("nvidia", **asked)["device_requests"] == [request_]


def test_ports_are_grouped_by_that_of_the_container():
    found = _keywords("cpu", network="bridge", ports=(Port(1, 80), Port(2, 80), Port(3, 53, "udp", "127.0.0.1")))
    assert found["ports"] == {"80/tcp": [("", 1), ("", 2)], "53/udp": [("127.0.0.1", 3)]}


def test_both_renderers_are_told_everything():
    """A value of the spec that one of the two forgot would make two containers: each is in both."""
    wanted = Wanted(
        "ascend",
        "image:1",
        "job",
        ("command",),
        ids=(5,),
        mounts=(Mount("/source", "/target", read_only=False),),
        workdir="/workdir",
        environment=(("VARIABLE", "value"),),
        network="net1",
        ports=(Port(8123, 80),),
        shm_size=Bytes(12_345),
        user="1234",
        privileged=False,
    )
    spec = build(wanted, None).spec
    line, api = " ".join(words(spec)), str(keywords(spec))
    for value in ("image:1", "job", "command", "davinci5", "/source", "/target", "/workdir", "VARIABLE=value", "net1"):
        assert value in line
        assert value in api
    for value in ("8123", "80/tcp", "12345", "1234", "private", "409600", "CAP_IPC_LOCK", "memlock", "headway.devices"):
        assert value in line
        assert value in api
