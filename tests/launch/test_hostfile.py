"""Hostfiles as DeepSpeed and MPI write them, and what is wrong with others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.launch.hostfile import chosen, parse, read
from headway.launch.launch_plan import Host


def test_hosts_come_in_the_files_order_with_their_slots():
    text = "# rack 3\nnode2 slots=8\n\n  node1   # no slots: any number\nroot@10.0.0.3 slots=16\r\n"
    assert parse(text) == (Host("node2", 8), Host("node1"), Host("root@10.0.0.3", 16))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no hosts"),
        ("# nothing\n\n", "names no hosts"),
        ("a slots=8\na slots=4", "line 2: a is there twice"),
        ("a slots=8\nroot@a", "line 2: a is there twice"),
        ("a slot=8", "line 1: 'a slot=8' is no host with its slots"),
        ("a slots=8 slots=8", "is no host with its slots"),
        ("a slots=-1", "is no host with its slots"),
        ("a\nb slots=0", "line 2: host b has slots=0"),
        ("-oProxyCommand=touch slots=8", "line 1: '-oProxyCommand=touch' is no name of a host"),
        ("a;reboot", "line 1: 'a;reboot' is no name of a host"),
    ],
)
def test_a_line_that_is_wrong_is_named(text, said):
    with pytest.raises(PlanError, match=said):
        parse(text)


def test_the_first_hosts_are_taken_and_no_more_than_there_are():
    hosts = parse("a\nb\nc")
    assert chosen(hosts, 2) == hosts[:2]
    assert chosen(hosts, None) == hosts
    with pytest.raises(PlanError, match="--nodes 4 are asked for, but the hostfile names 3"):
        chosen(hosts, 4)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(PlanError, match="cannot be read"):
        read(tmp_path / "hosts")
    (tmp_path / "hosts").write_bytes(b"\xef\xbb\xbfnode1\n")
    assert read(tmp_path / "hosts") == (Host("node1"),), "as editors of Windows write UTF-8"
    (tmp_path / "hosts").write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="it is no UTF-8 text"):
        read(tmp_path / "hosts")


@given(st.text())
def test_any_text_is_hosts_or_refused(text):
    try:
        hosts = parse(text)
    except PlanError:
        return
    assert hosts
