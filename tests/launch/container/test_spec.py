"""The spec of a container: what is refused in it, value by value."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.launch.container.spec import ContainerSpec, Device, Mount, Port, normal, parse_ids, show_ids

PLAIN = ContainerSpec("busybox:1", "job", ("true",), (("headway.profile", "cpu"),))


@pytest.mark.parametrize(
    "name", ["", "j", "-rm", "--privileged", "a b", "job;reboot", "../images", "a/b", "job\n", "ü1"]
)
def test_a_name_that_docker_takes_for_none_is_refused(name):
    with pytest.raises(PlanError, match="is no name of a container"):
        dataclasses.replace(PLAIN, name=name)


@pytest.mark.parametrize("image", ["", "-v/:/host", "a b", "$(reboot)", "a;b", "a\n"])
def test_an_image_that_could_be_an_option_or_a_command_is_refused(image):
    with pytest.raises(PlanError, match="is no name of an image"):
        dataclasses.replace(PLAIN, image=image)


@pytest.mark.parametrize(
    "image", ["busybox", "quay.io/ascend/cann:8.5.0-910b-ubuntu22.04-py3.11", "localhost:5000/a/b_c@sha256:" + "0" * 64]
)
def test_images_have_the_names_that_registries_give_them(image):
    assert dataclasses.replace(PLAIN, image=image).image == image


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"network": "--privileged"}, "is no name of a network"),
        ({"user": "-u0"}, "is no name of a user"),
        ({"workdir": "work"}, "the work directory is 'work', which is not absolute"),
        ({"workdir": "/w\x00"}, r"holds the character '\x00'"),
        ({"environment": (("A B", ""),)}, "'A B' is no name of a variable"),
        ({"environment": (("-e", ""),)}, "'-e' is no name of a variable"),
        ({"workdir": "/w\udcff"}, r"holds the character '\udcff'"),
        ({"command": ("\x9b2J",)}, r"holds the character '\x9b'"),
        ({"environment": (("A", "\x1b[2J"),)}, r"the value of A holds the character '\x1b'"),
        ({"command": ("echo", "\x00")}, "a word of the command holds the character"),
    ],
)
def test_hostile_values_are_refused(change, said):
    with pytest.raises(PlanError) as refused:
        dataclasses.replace(PLAIN, **change)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("data", "/data", "a mount's place on the host is 'data', which is not absolute"),
        ("/data", "data", "a mount's place in the container is 'data', which is not absolute"),
        ("/a\nb", "/data", r"holds the character '\n'"),
        ("/data", "/", "/data cannot be mounted over the container's /"),
        ("/data", "/x/..", "/data cannot be mounted over the container's /"),
    ],
)
def test_a_mount_has_two_whole_paths(source, target, said):
    with pytest.raises(PlanError) as refused:
        Mount(source, target, read_only=True)
    assert said in str(refused.value)


def test_a_device_whose_path_has_a_colon_cannot_be_told_to_an_engine():
    with pytest.raises(PlanError, match="has a colon"):
        Device("/dev/a:b", "/dev/a")


@pytest.mark.parametrize("number", [0, 65_536])
def test_ports_are_ports(number):
    with pytest.raises(PlanError, match=rf"there is no port {number}\."):
        Port(number, 80)


@given(st.sets(st.integers(0, 1023), min_size=1))
def test_numbers_of_devices_survive_being_written_as_ranges(numbers):
    ids = tuple(sorted(numbers))
    assert parse_ids(show_ids(ids)) == ids


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "7-0", "0,,1", "0-99999", "0x1", "٣", "all"])
def test_what_is_no_list_of_devices_is_refused(text):
    with pytest.raises(PlanError, match=r"is no list of devices\. Write it like 0-7 or 0,2,4-5\."):
        parse_ids(text)


def test_a_device_is_named_once():
    with pytest.raises(PlanError, match="names device 3 twice"):
        parse_ids("0-3,3")


@pytest.mark.parametrize(
    ("path", "found"),
    [("/", "/"), ("//etc", "/etc"), ("/etc/", "/etc"), ("/a/../etc/.", "/etc"), ("/..", "/"), ("/a//b", "/a/b")],
)
def test_a_path_is_compared_by_where_it_leads(path, found):
    assert normal(path) == found
