"""The words of the command line that say what is wanted of a container."""

import pytest

from headway.errors import PlanError
from headway.launch.container.spec import Device, Mount, Port
from headway.launch.container.wanted import parse_device, parse_mount, parse_port, parse_variable


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/data:/data", Mount("/data", "/data", read_only=False)),
        ("/data:/in:ro", Mount("/data", "/in", read_only=True)),
        ("/data:/in:rw", Mount("/data", "/in", read_only=False)),
        ('/a:b, "c\'d":/in', Mount('/a:b, "c\'d"', "/in", read_only=False)),
    ],
)
def test_a_mount_is_a_place_here_and_a_place_there(text, mount):
    assert parse_mount(text) == mount


@pytest.mark.parametrize("text", ["/data", "/data:", ":/data", "", "ro", "/data:ro"])
def test_half_a_mount_is_refused_with_an_example(text):
    with pytest.raises(PlanError, match="write it as LOCAL:DOCKER or LOCAL:DOCKER:ro, like /data:/data:ro"):
        parse_mount(text)


def test_a_relative_path_is_refused():
    with pytest.raises(PlanError, match="which is not absolute"):
        parse_mount(".:/work")


def test_a_device_has_the_same_name_inside_unless_another_is_given():
    assert parse_device("/dev/fuse") == Device("/dev/fuse", "/dev/fuse")
    assert parse_device("/dev/a:/dev/b") == Device("/dev/a", "/dev/b")


def test_a_port_may_have_an_address_and_a_protocol():
    assert parse_port("8080:80") == Port(8080, 80)
    assert parse_port("127.0.0.1:8080:80/udp") == Port(8080, 80, "udp", "127.0.0.1")


@pytest.mark.parametrize("text", ["80", "a:b", "1:2:3:4", "80:80/x", "80:80 --privileged"])
def test_what_is_no_port_is_refused(text):
    with pytest.raises(PlanError, match="write it as HOST:CONTAINER"):
        parse_port(text)


def test_a_variable_has_a_value_which_may_have_an_equals_sign():
    assert parse_variable("A=b=c") == ("A", "b=c")
    with pytest.raises(PlanError, match="write it as NAME=VALUE"):
        parse_variable("A")
