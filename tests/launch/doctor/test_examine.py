"""All checks together: healthy hosts have nothing to mend, and a host of which nothing is known no traceback."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.launch.doctor import npu_smi, nvidia_smi
from headway.launch.doctor.examine import examine, kind_of
from headway.launch.doctor.finding import NOTHING, Finding, Status, Subject, could_start
from headway.launch.doctor.machine import Gpus, Machine, Npus, Silent
from tests.launch.doctor.machines import CPU, ascend, needs, nvidia

GOLDEN = Path(__file__).parents[2] / "golden"
HOSTS = {"cpu": CPU, "npu": ascend(), "cuda": nvidia()}


@pytest.mark.parametrize("kind", HOSTS)
def test_a_healthy_host_has_nothing_to_mend_and_nothing_to_look_at(kind):
    found = examine(HOSTS[kind])
    assert [each for each in found if each.status is not Status.OK] == []
    assert could_start(found)
    assert kind_of(HOSTS[kind]) == kind


@pytest.mark.parametrize("kind", HOSTS)
def test_a_job_of_its_kind_fits_a_healthy_host(kind):
    found = examine(HOSTS[kind], needs(kind=kind, shares_memory=kind == "cpu"))
    assert [each for each in found if each.status is not Status.OK] == []
    assert [each.subject for each in found] == sorted((each.subject for each in found), key=list(Subject).index)
    assert found[-1].subject is Subject.JOB


@pytest.mark.parametrize(("kind", "other"), [(a, b) for a in ("npu", "cuda") for b in HOSTS if a != b])
def test_a_job_does_not_start_on_a_host_of_another_kind(kind, other):
    found = examine(HOSTS[other], needs(kind=kind, shares_memory=False))
    assert not could_start(found)
    assert {"devices", "backend"} <= {each.name for each in found if each.status is Status.FAIL}


def test_a_host_of_which_nothing_is_known_gives_findings_and_no_traceback():
    bare = Machine("?", "?", 1, 1, 1, silent=(Silent("Ascend devices", "it took longer than 18.0 s"),))
    found = examine(bare, needs())
    assert any(each.what == "Ascend devices could not be looked at: it took longer than 18.0 s" for each in found)
    assert not could_start(found)  # nobody knows whether torch works
    examine(replace(CPU, npus=Npus(), gpus=Gpus()))


def test_a_finding_that_is_not_well_must_say_what_to_do():
    Finding(Subject.HOST, "x", Status.OK, "well")
    with pytest.raises(AssertionError, match="x says nothing"):
        Finding(Subject.HOST, "x", Status.WARN, "ill", NOTHING)


@given(st.data())
def test_whatever_the_tools_wrote_is_judged_without_a_traceback(data):
    def mutated(name):
        text = list((GOLDEN / name).read_text(encoding="utf-8"))
        for _ in range(data.draw(st.integers(0, 6))):
            where = data.draw(st.integers(0, len(text) - 1))
            text[where] = data.draw(st.sampled_from(["|", "", "\n", "0", "9" * 12, "\t", "-", "GPU0", "OK", "²"]))
        return "".join(text)

    table = npu_smi.parse(
        mutated(data.draw(st.sampled_from(["npu-smi-310.txt", "npu-smi-910b.txt", "npu-smi-a3.txt"])))
    )
    listed = data.draw(
        st.lists(st.sampled_from(["0", "", "x", "81559", "99999999999", "[N/A]"]), min_size=8, max_size=8)
    )
    found, odd = nvidia_smi.gpus(", ".join(listed))
    host = replace(
        nvidia(listed=found, odd=odd, topology=nvidia_smi.topology(mutated("nvidia-smi-topo.txt"))),
        npus=Npus((0,), table, trouble=data.draw(st.sampled_from([None, "it hung"]))),
    )
    for kind in ("npu", "cuda"):
        assert all(each.what and each.remedy for each in examine(host, needs(kind=kind, shares_memory=False)))
