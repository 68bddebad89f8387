"""What a host has: looked for in a tree made for the test."""

import os

import pytest

from headway.launch.container.probe import look
from headway.launch.container.profiles import PROFILES, Kind
from headway.launch.container.spec import Device, Mount
from headway.launch.container.wanted import Wanted
from tests.launch.container.own_engine import ascend_tree

ASCEND, NVIDIA = PROFILES["ascend"], PROFILES["nvidia"]


def _wanted(**more):
    return Wanted("ascend", "image", "job", **more)


@pytest.mark.parametrize("num_devices", [8, 16])
def test_the_accelerators_of_a_host_are_counted_by_their_nodes(tmp_path, num_devices):
    host = look(ASCEND, _wanted(), str(ascend_tree(tmp_path, num_devices)))
    assert host.accelerators == tuple(range(num_devices))
    assert host.group == os.stat(tmp_path / "dev" / "davinci0").st_gid


def test_each_part_is_what_it_should_be(tmp_path):
    host = look(ASCEND, _wanted(), f"{ascend_tree(tmp_path)}/")
    assert host.root == str(tmp_path)
    for part in ASCEND.parts:
        assert host.parts[part.sources[0]] is part.kind


def test_an_empty_host_has_nothing(tmp_path):
    host = look(ASCEND, _wanted(), str(tmp_path))
    assert (host.accelerators, host.parts, host.group, host.cdi) == ((), {}, None, False)


def test_a_plain_file_is_no_accelerator(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "davinci0").touch()
    assert look(ASCEND, _wanted(), str(tmp_path)).accelerators == ()


@pytest.mark.parametrize("folder", ["etc/cdi", "var/run/cdi"])
def test_a_cdi_spec_is_found_where_engines_look_for_it(tmp_path, folder):
    assert not look(NVIDIA, _wanted(), str(tmp_path)).cdi
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "other.yaml").write_text("kind: vendor.com/nic\n")
    assert not look(NVIDIA, _wanted(), str(tmp_path)).cdi
    (tmp_path / folder / "nvidia.yaml").write_text("cdiVersion: 0.6.0\nkind: nvidia.com/gpu\n")
    assert look(NVIDIA, _wanted(), str(tmp_path)).cdi


def test_the_users_own_paths_are_looked_at_on_the_host_itself_and_links_followed(tmp_path):
    (tmp_path / "link").symlink_to("/etc")
    link, gone = str(tmp_path / "link"), str(tmp_path / "gone")
    wanted = _wanted(
        mounts=(Mount(link, "/a", read_only=True), Mount(gone, "/b", read_only=True)),
        devices=(Device("/dev/null", "/dev/x"),),
    )
    host = look(ASCEND, wanted, "/nowhere")
    assert host.places == {link: Kind.DIRECTORY, "/dev/null": Kind.DEVICE}
    assert host.real[link] == "/etc"
