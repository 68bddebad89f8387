"""What each profile needs: the published lists, and required, usual and optional told apart."""

from headway.launch.container.profiles import PROFILES, Need, Via, parts

ASCEND = PROFILES["ascend"]


def _places(need):
    return {part.sources[0] for part in ASCEND.parts if part.need is need}


def test_an_ascend_container_needs_what_the_driver_and_the_tools_need():
    assert _places(Need.REQUIRED) == {"/dev/davinci_manager", "/dev/hisi_hdc", "/usr/local/Ascend/driver"}
    assert _places(Need.USUAL) == {
        "/dev/devmm_svm",
        "/usr/local/dcmi",
        "/usr/local/bin/npu-smi",
        "/etc/ascend_install.info",
    }
    assert _places(Need.OPTIONAL) == {"/etc/hccn.conf", "/usr/local/Ascend/firmware", "/usr/local/Ascend/add-ons"}


def test_the_files_that_break_an_image_are_in_no_profile():
    for profile in PROFILES.values():
        assert not any("bashrc" in source for part in profile.parts for source in part.sources)


def test_the_chosen_devices_come_first_and_are_required():
    found = parts(ASCEND, Via.DEVICES, (2, 5))
    assert [part.sources for part in found[:2]] == [("/dev/davinci2",), ("/dev/davinci5",)]
    assert {part.need for part in found[:2]} == {Need.REQUIRED}
    assert found[2:] == ASCEND.parts


def test_with_the_runtime_only_what_it_does_not_bring_is_mounted():
    names = [part.name for part in parts(ASCEND, Via.RUNTIME, (0, 1))]
    assert names == ["ascend_install.info", "hccn.conf", "firmware", "add-ons"]


def test_names_of_parts_are_those_of_options():
    for profile in PROFILES.values():
        names = [part.name for part in profile.parts]
        assert len(set(names)) == len(names)
        assert all(name == name.lower() and " " not in name for name in names)


def test_rdma_brings_the_right_to_pin_memory():
    (infiniband,) = PROFILES["nvidia"].parts
    assert (infiniband.sources, infiniband.need) == (("/dev/infiniband",), Need.OPTIONAL)
    assert infiniband.capability == "CAP_IPC_LOCK"
