"""Specs of containers from what is wanted and what the host has."""

import pytest

from headway.errors import PlanError
from headway.launch.container.build import IDLE, build
from headway.launch.container.probe import Host, look
from headway.launch.container.profiles import PROFILES, Kind, Via
from headway.launch.container.spec import Access, Device, Gpus, Ipc, Mount
from headway.launch.container.wanted import Wanted
from headway.units import Bytes
from tests.launch.container.own_engine import ascend_tree


def _wanted(profile="ascend", **more):
    return Wanted(profile, "image", "job", **more)


def _host(profile="ascend", ids=range(8), less=(), **more):
    """A host that has everything of a profile but what is in `less`."""
    parts = {source: part.kind for part in PROFILES[profile].parts for source in part.sources[:1]}
    parts = {path: Kind.DIRECTORY if kind is Kind.DEVICES else kind for path, kind in parts.items() if path not in less}
    return Host("", tuple(ids), parts, more.pop("places", {}), more.pop("real", {}), more.pop("group", None), **more)


def _on(host, profile="ascend", **more):
    return build(_wanted(profile, **more), host)


@pytest.mark.parametrize(("num_devices", "label"), [(8, "0-7"), (16, "0-15")])
def test_an_a2_and_an_a3_host_give_all_their_devices(num_devices, label):
    spec = _on(_host(ids=range(num_devices), cdi=False)).spec
    nodes = [f"/dev/davinci{each}" for each in range(num_devices)]
    assert spec.devices == tuple(
        Device(node, node) for node in [*nodes, "/dev/davinci_manager", "/dev/hisi_hdc", "/dev/devmm_svm"]
    )
    assert dict(spec.labels) == {"headway.profile": "ascend", "headway.devices": label}


def test_a_tree_of_a_host_gives_the_same_container_as_a_host_of_which_nothing_is_known(tmp_path):
    root = str(ascend_tree(tmp_path))
    known = _on(look(PROFILES["ascend"], _wanted(), root)).spec
    unknown = build(_wanted(ids=tuple(range(8))), None).spec
    assert [each.target for each in known.devices] == [each.target for each in unknown.devices]
    assert [each.target for each in known.mounts] == [each.target for each in unknown.mounts]
    assert {each.source.removeprefix(root) for each in known.mounts} == {each.source for each in unknown.mounts}


def test_the_drivers_files_cannot_be_written_to():
    spec = _on(_host(cdi=False)).spec
    assert spec.mounts
    assert all(each.read_only for each in spec.mounts)


def test_no_container_is_privileged_unless_asked_for():
    assert not _on(_host(cdi=False)).spec.privileged
    made = _on(_host(cdi=False), privileged=True)
    assert made.spec.privileged
    assert made.spec.devices == ()  # it sees them all
    assert made.spec.mounts  # but no driver
    assert "accelerators are not kept apart" in made.notes[0]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/dev/davinci_manager", "this host lacks what a container of profile ascend needs: /dev/davinci_manager"),
        ("/dev/hisi_hdc", "/dev/hisi_hdc (host to device communication)"),
        ("/dev/devmm_svm", "leave out what this kind of host has not: --without devmm_svm"),
        ("/usr/local/Ascend/driver", "/usr/local/Ascend/driver (the driver's libraries and tools)"),
        ("/usr/local/dcmi", "--without dcmi"),
        ("/usr/local/bin/npu-smi", "/usr/local/bin/npu-smi or /usr/local/sbin/npu-smi (shows the devices)"),
        ("/etc/ascend_install.info", "--without ascend_install.info"),
    ],
)
def test_a_host_without_what_is_needed_is_refused_and_the_part_named(path, said):
    with pytest.raises(PlanError) as refused:
        _on(_host(less=(path,), cdi=False))
    assert said in str(refused.value)
    assert "Install the driver" in str(refused.value)


def test_every_part_that_is_missing_is_named_at_once():
    with pytest.raises(PlanError) as refused:
        _on(_host(less=("/dev/hisi_hdc", "/dev/devmm_svm", "/usr/local/dcmi"), cdi=False))
    assert "/dev/hisi_hdc" in str(refused.value)
    assert str(refused.value).endswith("--without devmm_svm --without dcmi.")


def test_what_a_kind_of_host_has_not_can_be_left_out():
    made = _on(_host(less=("/dev/devmm_svm",), cdi=False), without=("devmm_svm",))
    assert "/dev/devmm_svm" not in [each.source for each in made.spec.devices]


def test_an_optional_part_is_left_out_where_it_is_missing():
    made = _on(_host(less=("/etc/hccn.conf", "/usr/local/Ascend/add-ons"), cdi=False))
    assert [part.name for part in made.absent] == ["hccn.conf", "add-ons"]
    assert "/etc/hccn.conf" not in [each.source for each in made.spec.mounts]


def test_npu_smi_is_taken_from_where_the_host_has_it(tmp_path):
    root = ascend_tree(tmp_path, without=("npu-smi",))
    (root / "usr/local/sbin").mkdir()
    (root / "usr/local/sbin/npu-smi").touch()
    spec = _on(look(PROFILES["ascend"], _wanted(), str(root))).spec
    assert Mount(f"{root}/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi", read_only=True) in spec.mounts


def test_a_directory_that_an_engine_made_in_place_of_a_file_is_found_out(tmp_path):
    root = ascend_tree(tmp_path, without=("npu-smi",))
    (root / "usr/local/bin/npu-smi").mkdir(parents=True)
    with pytest.raises(PlanError) as refused:
        _on(look(PROFILES["ascend"], _wanted(), str(root)))
    assert f"{root}/usr/local/bin/npu-smi is a directory, not a file" in str(refused.value)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ((), "this host has no /dev/davinci0, nor any other number: no accelerator, or no driver"),
        ((0, 1), "this host has no /dev/davinci2, /dev/davinci3; it has devices 0-1"),
    ],
)
def test_devices_that_the_host_has_not_are_named(ids, said):
    with pytest.raises(PlanError) as refused:
        _on(_host(ids=ids, cdi=False), ids=(1, 2, 3))
    assert said in str(refused.value)


def test_the_runtime_is_told_by_its_variable_and_gets_no_list_of_devices():
    spec = _on(_host(cdi=False), ids=(0, 1, 2, 6), via=Via.RUNTIME).spec
    assert (spec.runtime, spec.devices) == ("ascend", ())
    assert spec.environment == (("ASCEND_VISIBLE_DEVICES", "0-2,6"),)
    assert "/usr/local/Ascend/driver" not in [each.source for each in spec.mounts]
    assert "/etc/hccn.conf" in [each.source for each in spec.mounts]


def test_memory_is_shared_with_the_host_or_of_a_stated_size_never_both():
    assert (_on(_host(cdi=False)).spec.ipc, _on(_host(cdi=False)).spec.shm_size) == (Ipc.HOST, None)
    spec = _on(_host(cdi=False), shm_size=Bytes(2**34)).spec
    assert (spec.ipc, spec.shm_size) == (Ipc.PRIVATE, 2**34)


def test_nvidia_gpus_come_by_cdi_where_a_spec_exists_and_else_by_the_engines_option():
    assert _on(_host("nvidia", cdi=True), "nvidia").spec.gpus == Gpus(Access.CDI, ())
    assert _on(_host("nvidia", cdi=False), "nvidia").spec.gpus == Gpus(Access.GPUS, ())
    assert _on(_host("nvidia", cdi=True), "nvidia", ids=(0, 2), via=Via.GPUS).spec.gpus == Gpus(Access.GPUS, (0, 2))
    assert build(_wanted("nvidia"), None).spec.gpus == Gpus(Access.GPUS, ())


def test_privileged_gpus_still_get_the_drivers_libraries():
    assert _on(_host("nvidia", cdi=False), "nvidia", privileged=True).spec.gpus == Gpus(Access.GPUS, ())


def test_rdma_devices_are_given_where_the_host_has_them():
    spec = _on(_host("nvidia", cdi=False), "nvidia").spec
    assert spec.devices == (Device("/dev/infiniband", "/dev/infiniband"),)
    assert spec.capabilities == ("CAP_IPC_LOCK",)
    without = _on(_host("nvidia", less=("/dev/infiniband",), cdi=False), "nvidia").spec
    assert (without.devices, without.capabilities) == ((), ())
    assert dict(without.ulimits) == {"memlock": -1, "stack": 67_108_864}


def test_a_host_without_gpus_is_told_so():
    with pytest.raises(PlanError, match=r"this host has no /dev/nvidia0, nor any other number"):
        _on(_host("nvidia", ids=(), cdi=False), "nvidia")


def test_a_cpu_container_needs_nothing_of_its_host():
    spec = _on(Host("", (), {}, {}, {}, None, cdi=False), "cpu").spec
    assert (spec.devices, spec.mounts, spec.gpus) == ((), (), None)
    assert dict(spec.labels) == {"headway.profile": "cpu"}
    assert (spec.network, spec.ipc, spec.pids_limit) == ("host", Ipc.HOST, 409_600)


@pytest.mark.parametrize("user", [None, "0", "root", "root:1000"])
def test_root_needs_no_group(user):
    assert _on(_host(group=1000, cdi=False), user=user).spec.groups == ()


def test_another_user_is_put_into_the_group_that_owns_the_devices():
    assert _on(_host(group=1002, cdi=False), user="1000").spec.groups == (1002,)
    assert _on(_host(group=0, cdi=False), user="1000").spec.groups == ()  # never root's
    assert _on(_host("nvidia", group=1002, cdi=False), "nvidia", user="1000").spec.groups == ()  # all may use those
    assert "--group-add" in build(_wanted(ids=(0,), user="1000"), None).notes[0]


def test_a_container_waits_to_be_stopped_unless_it_is_given_a_command_or_a_terminal():
    assert build(_wanted("cpu"), None).spec.command == IDLE
    assert build(_wanted("cpu", terminal=True), None).spec.command == ("bash",)
    assert build(_wanted("cpu", command=("python", "train.py"), terminal=True), None).spec.command[0] == "python"


def test_a_work_directory_outside_of_every_mount_is_remarked_on():
    mounts = (Mount("/d", "/work", read_only=False),)
    assert build(_wanted("cpu", mounts=mounts, workdir="/work/run"), None).notes == ()
    assert build(_wanted("cpu", mounts=mounts, workdir="/work"), None).notes == ()
    (note,) = build(_wanted("cpu", mounts=mounts, workdir="/works"), None).notes
    assert note.startswith("the work directory /works is in no --mount")


def test_the_users_own_paths_must_be_there():
    host = _host("cpu", ids=(), cdi=False, places={"/file": Kind.FILE}, real={"/gone": "/gone"})
    with pytest.raises(PlanError) as refused:
        _on(
            host,
            "cpu",
            mounts=(Mount("/gone", "/x", read_only=True),),
            devices=(Device("/file", "/y"), Device("/no", "/z")),
        )
    assert str(refused.value).splitlines() == [
        "--mount /gone:/x: there is no /gone on this host. Make it, or correct the path.",
        "--device /file: /file is a file. Name a device node, or a directory of them.",
        "--device /no: there is no /no on this host. Name a device node, or a directory of them.",
    ]


def test_a_link_to_a_dangerous_place_is_followed():
    host = _host("cpu", ids=(), cdi=False, places={"/x/link": Kind.DIRECTORY}, real={"/x/link": "/etc"})
    with pytest.raises(PlanError, match="--mount /x/link:/a leads to /etc, which hands the host's /etc"):
        _on(host, "cpu", mounts=(Mount("/x/link", "/a", read_only=True),))
