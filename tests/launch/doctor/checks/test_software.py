"""Software that is missing, old, broken by a plug-in or of another release is named with what to install."""

from dataclasses import replace

import pytest

from headway.launch.doctor.checks import software
from headway.launch.doctor.finding import Status
from headway.launch.doctor.machine import Gpus, Torch
from tests.launch.doctor.machines import CPU, PACKAGES, ascend, torch

BROKEN = Torch("it ended with status 1: ImportError: libhccl.so: cannot open shared object file")


def _changed(**changes):
    return replace(CPU.software, **changes)


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ({}, Status.OK, "Python 3.11.7, Headway 0.1.0"),
        ({"numpy": None}, Status.FAIL, "numpy is missing (at least 1.26)"),
        ({"torch": "2.9.1"}, Status.FAIL, "torch 2.9.1 (at least 2.11)"),
        ({"torch": "2.11.0rc1"}, Status.OK, "all that it needs"),
        ({"numpy": "1.26"}, Status.OK, "all that it needs"),
        ({"tensorboard": None}, Status.WARN, "runs write no event files"),
        ({"numpy": "odd"}, Status.FAIL, "numpy odd"),
    ],
)
def test_packages_that_are_missing_or_old_are_named(packages, status, said):
    installed = {name: version for name, version in (PACKAGES | packages).items() if version}
    found = software.packages(_changed(packages=installed))
    assert found.status is status
    assert said in found.what
    assert ("headway[train]" in found.remedy) is (status is not Status.OK)


def test_torch_that_is_not_there_keeps_every_job_from_starting():
    found = software.torch(_changed(torch=None))
    assert (found.status, "not installed" in found.what) == (Status.FAIL, True)


def test_torch_that_a_plugin_breaks_is_told_from_torch_that_is_broken():
    ascends = replace(ascend().software, torch=BROKEN)
    found = software.torch(ascends)
    assert found.status is Status.FAIL
    assert "imports, but not with its plug-ins (torch_npu)" in found.what
    assert "set_env.sh" in found.remedy
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in found.remedy
    both = software.torch(replace(ascends, bare=BROKEN))
    assert both.what.startswith("torch does not import: it ended with status 1")
    assert "--force-reinstall" in both.remedy


def test_another_plugin_is_not_told_to_source_cann():
    other = _changed(plugins=("other",), torch=BROKEN, bare=torch())
    assert "set_env" not in software.torch(other).remedy


def test_torch_that_works_only_with_its_plugins_is_worth_a_look():
    found = software.torch(replace(ascend().software, bare=BROKEN))
    assert found.status is Status.WARN


def test_gloo_must_be_there_and_able_to_connect():
    assert software.gloo(torch()).status is Status.OK
    assert software.gloo(torch(backends=())).status is Status.FAIL
    bad = software.gloo(torch(gloo="Unable to find address for: nope"))
    assert bad.status is Status.FAIL
    assert "GLOO_SOCKET_IFNAME" in bad.remedy


@pytest.mark.parametrize(
    ("theirs", "ours", "status"),
    [("2.13.0", "2.13.0+cpu", Status.OK), ("2.13.0.post2", "2.13.1", Status.OK), ("2.10.0", "2.13.0", Status.WARN)],
)
def test_torch_npu_and_torch_go_in_pairs(theirs, ours, status):
    found = software.torch_npu(_changed(packages=PACKAGES | {"torch": ours, "torch-npu": theirs}))
    assert found.status is status
    if status is Status.WARN:
        assert found.remedy == "Install torch-npu 2.13.*, or torch 2.10.*."


def test_torch_npu_wants_torch_without_cuda():
    found = software.torch_npu(replace(ascend().software, torch=torch(cuda="12.4")))
    assert found.status is Status.WARN
    assert "CPU build" in found.remedy


@pytest.mark.parametrize(
    ("driver", "nodes", "status"),
    [
        ((12, 4), (0,), Status.OK),
        ((12, 8), (0,), Status.OK),
        ((11, 8), (0,), Status.WARN),
        (None, (0,), Status.WARN),
        (None, (), Status.OK),
    ],
)
def test_the_driver_knows_the_major_version_of_cuda_that_torch_is_built_for(driver, nodes, status):
    assert software.cuda("12.6", Gpus(nodes, cuda=driver)).status is status


def test_what_every_host_must_have_alike_is_one_line():
    found = software.same(ascend().software)
    assert "torch 2.13.0+cpu" in found.what
    assert "Ascend driver 24.1.rc2" in found.what
    assert found.numbers["torch-npu"] == "2.13.0"


def test_software_that_could_not_be_looked_at_gives_nothing():
    assert list(software.check(replace(CPU, software=None))) == []
