"""A plan on hosts: which ranks where, where they meet, and what is refused."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.launch.launch_plan import Bind, Host, Site, check_host, default_port, launch_plan, notes
from headway.plan import build
from headway.plan.job import Job
from headway.plan.read import decode

RUN = PurePosixPath("/work/runs/one")
SITE = Site("/opt/venv/bin/python", "/work", (("OMP_NUM_THREADS", "1"),))


def plan(**parallel):
    job = {
        "model": {"layers": 4, "hidden": 32, "heads": 4, "feed_forward": 64, "vocabulary": 256, "positions": 64},
        "parallel": {"pipeline": 1, "data": 1, **parallel},
        "data": {"sequence_length": 32},
        "train": {"steps": 1, "global_batch": 8, "microbatch": 1},
    }
    return build.build(decode(Job, job, "job"))


def test_each_host_has_consecutive_ranks_in_the_order_of_the_layout():
    made = launch_plan(plan(pipeline=2, data=2), RUN, [Host("b", 2), Host("root@a", 8)], SITE)
    assert [(host.name, host.node_rank, host.ranks) for host in made.hosts] == [("b", 0, (0, 2)), ("root@a", 1, (2, 2))]
    assert (made.num_ranks, made.ranks_per_host, made.address) == (4, 2, "b")


def test_arguments_are_the_same_everywhere_and_only_the_place_differs():
    first, second = launch_plan(plan(pipeline=2), RUN, [Host("a"), Host("b")], SITE).hosts
    assert first.arguments == second.arguments
    assert first.arguments[-5:] == ("headway.train.agent", str(RUN), "1", "0", "stdin")
    differing = dict(set(second.environment) - set(first.environment))
    assert differing == {"PET_NODE_RANK": "1"}
    assert dict(first.environment)["PET_NNODES"] == "2"


def test_one_host_meets_nobody():
    (only,) = launch_plan(plan(pipeline=2), RUN, [Host("a")], SITE).hosts
    assert only.environment == SITE.variables


def test_ranks_meet_on_the_first_host_without_its_user_unless_told():
    hosts = [Host("root@a"), Host("b")]
    assert launch_plan(plan(data=2), RUN, hosts, SITE).address == "a"
    told = launch_plan(plan(data=2), RUN, hosts, Site("/python", "/work", address="10.0.0.1", port=29500))
    assert (told.address, told.port) == ("10.0.0.1", 29500)


def test_runs_in_other_directories_meet_at_other_ports():
    ports = {default_port(PurePosixPath(f"/runs/{i}")) for i in range(50)}
    assert len(ports) > 45
    assert all(20_000 <= port < 30_000 for port in ports)


def test_cores_have_no_numbers():
    job = plan(data=2)
    assert launch_plan(job, RUN, [Host("a")], SITE).hosts[0].devices == ()


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ([], "no hosts are given"),
        ([Host("a"), Host("b"), Host("c")], "4 ranks .* do not divide over 3 hosts. Use 2 or 4"),
        ([Host("a", 4), Host("b", 1)], "host b has slots=1, but gets 2 of the 4 ranks"),
        ([Host("a"), Host("a")], "host a is named twice"),
        ([Host("a"), Host("root@a")], "host a is named twice"),
    ],
)
def test_hosts_that_do_not_fit_are_refused_with_the_numbers(hosts, said):
    with pytest.raises(PlanError, match=said):
        launch_plan(plan(data=4), RUN, hosts, SITE)


def test_a_tensor_group_across_hosts_and_another_number_than_planned_are_said():
    job = plan(tensor=4)
    said = notes(job, launch_plan(job, RUN, [Host("a"), Host("b")], SITE))
    assert said[0].startswith("each tensor group of 4 ranks lies across 2 hosts of 2")
    assert said[1] == "the prediction is for 4 ranks on a node, as local-cpu has them; here are 2."
    assert notes(job, launch_plan(job, RUN, [Host("a")], SITE)) == ()


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=x", "a b", "a\nb", "", "a;b", "$(a)", "`a`", "a@b@c", "a/b", "--", "root@-x", "a\x00", "ä"]
)
def test_hostile_names_of_hosts_are_refused(name):
    with pytest.raises(PlanError, match="is no name of a host"):
        Host(name)


@pytest.mark.parametrize("name", ["node1", "node-1.example.org", "root@10.0.0.1", "fe80::1%eth0", "::1", "n_1", "7"])
def test_usual_names_of_hosts_are_taken(name):
    assert Host(name).name == name


@given(st.text())
def test_no_name_that_is_taken_can_be_an_option_or_several_words(name):
    try:
        check_host(name)
    except PlanError:
        return
    assert not name.startswith("-")
    assert len(name.split()) == 1
    assert not set(name) & set("'\"$`\\;|&<>(){}*?!#~ \t\n")


@pytest.mark.parametrize("path", ["", "-rf", "a\nb", "a\x1bb", "a\udcffb"])
def test_paths_that_no_line_holds_are_refused(path):
    with pytest.raises(PlanError, match="cannot be passed to hosts"):
        Bind("/a", path)
    with pytest.raises(PlanError, match="cannot be passed to hosts"):
        Site("/python", path)


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ({"address": "-x"}, "is no address"),
        ({"address": "root@a"}, "is no address"),
        ({"port": 0}, "port 0 does not exist"),
        ({"python": "/a=b/python"}, "has a '='"),
        ({"directory": "work"}, "--workdir work is not the same place on every host"),
    ],
)
def test_a_site_that_cannot_be_is_refused(site, said):
    with pytest.raises(PlanError, match=said):
        Site(**{"python": "/python", "directory": "/work", **site})


def test_a_hosts_part_as_it_may_be_printed_has_no_secrets():
    site = Site("/python", "/work", (("A", "b"), ("HF_TOKEN", "hush")))
    made = launch_plan(plan(data=2), RUN, [Host("a"), Host("b")], site)
    assert [dict(host.public.environment)["HF_TOKEN"] for host in made.hosts] == ["****", "****"]
    assert "hush" not in repr([host.public for host in made.hosts])
    assert made.hosts[0].public.arguments == made.hosts[0].arguments


def test_several_hosts_do_not_start_again_by_themselves():
    again = Site("/python", "/work", max_restarts=1)
    assert launch_plan(plan(data=2), RUN, [Host("a")], again).hosts[0].arguments[-2] == "1"
    with pytest.raises(PlanError, match="--max-restarts is for one host: on several, start the job again"):
        launch_plan(plan(data=2), RUN, [Host("a"), Host("b")], again)
