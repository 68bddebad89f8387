"""This host itself: disks, ports, clock."""

import socket

import pytest

from headway.launch.doctor.looking import host


def test_the_space_of_a_path_that_is_not_made_yet_is_that_of_the_nearest_directory(tmp_path):
    found = host.space(tmp_path / "runs" / "mine")
    assert found.path == str(tmp_path)
    assert 0 < found.free <= found.total
    assert found.writable
    (tmp_path / "file").write_text("")
    assert not host.space(tmp_path / "file").writable


def test_a_port_that_somebody_listens_at_is_taken_and_one_that_was_used_is_not():
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert host.taken([port]) == {port: "in use"}
    assert host.taken([port]) == {}


def test_the_clock_answers_without_rights():
    found = host.clock()
    assert found is None or found.error >= 0


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("60000-60015,61000", (range(60000, 60016), range(61000, 61001))),
        ("", ()),
        ("1-2-3,x,70", (range(70, 71),)),
    ],
)
def test_ports_that_the_kernel_reserves_are_read(text, ranges):
    assert host._ranges(text) == ranges
