"""The fabric of a cluster as a plan keeps it: names, and files of which nothing is needed any more."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from headway.cluster import presets
from headway.errors import PlanError
from headway.fabric.topologies import named
from headway.plan import network
from headway.plan import plan as plans
from tests.fabric.test_simai import SMALL

EXAMPLE = Path(__file__).parents[2] / "examples/fabric.yaml"
SIZES = {"nic_speed": "100Gbps"}


def _cluster(fabric, **changes):
    return dataclasses.replace(presets.preset("h800-hpn"), fabric=fabric, **changes)


def _same(one, other):
    return one.name == other.name and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("lower", "upper", "capacity", "segment")
    )


def test_a_name_is_kept_in_its_shortest_form(tmp_path):
    assert network.kept("hpn") == "hpn"
    assert network.kept("hpn pods=1 segments=2") == "hpn segments=2"
    (tmp_path / "own.yaml").write_text("{family: dcn+, pods: 3}\n")
    assert network.kept("own.yaml", tmp_path) == "dcn+ pods=3"


@pytest.mark.parametrize(("file", "text"), [("own.yaml", EXAMPLE.read_text("utf-8")), ("topology", SMALL)])
def test_a_file_is_kept_with_all_that_it_tells(tmp_path, file, text):
    from headway.plan.fabric import fabric

    (tmp_path / file).write_text(text)
    built, kept = fabric(file, tmp_path), network.kept(file, tmp_path)
    (tmp_path / file).unlink()
    assert _same(network.loads(kept), built)
    assert network.name(kept) == built.name


def test_a_plan_with_a_fabric_survives_its_file(plan_of):
    for fabric in ("hpn nic_speed=100Gbps", str(EXAMPLE)):
        plan = plan_of(cluster={"preset": "a100-80gb-hdr", "fabric": fabric, "between": {"line": 0}})
        again = plans.loads(plans.dumps(plan))
        assert again == plan
        assert plans.digest(again) == plans.digest(plan)


def test_a_job_with_a_fabric_that_fits_is_planned(plan_of):
    assert plan_of(cluster={"preset": "h800-hpn", "fabric": "hpn"}).cluster.fabric == "hpn"
    assert plan_of(cluster="h800-hpn").cluster.fabric == "none"


def test_spare_hosts_are_not_for_jobs():
    assert network.of_cluster(_cluster("hpn segments=1"), 1024).num_gpus == 1088
    with pytest.raises(PlanError, match=r"129 hosts of 8 devices, but cluster.fabric hpn segments=1 has 128 active"):
        network.of_cluster(_cluster("hpn segments=1"), 1032)


def test_a_card_is_all_its_ports():
    assert set(named("hpn segments=1").card_rates) == {50e9}
    assert set(named("single-tor").card_rates) == {50e9}


def test_a_cluster_that_does_not_tell_its_line_takes_any_card_that_is_fast_enough():
    between = dataclasses.replace(presets.preset("a100-80gb-hdr").between, line=0.0)
    assert network.of_cluster(_cluster("hpn", between=between), 64).name == "hpn"


def test_a_text_that_is_no_document_is_refused():
    with pytest.raises(PlanError, match=r"cluster.fabric of the plan is no JSON document. Plan the job again."):
        network.loads("{oops")
