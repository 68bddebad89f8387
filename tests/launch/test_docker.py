"""A host's part as a run of Docker: golden lines here and behind ssh, mounts, secrets, and what ends it."""

import shlex
from pathlib import PurePosixPath

import pytest

from headway.launch import docker
from headway.launch.docker import Image, container_name, with_mounts
from headway.launch.launch_plan import Bind, Host, Site, launch_plan

RUN = PurePosixPath("/work/runs/one")
MODEL = {"layers": 2, "hidden": 32, "heads": 2, "feed_forward": 64, "vocabulary": 256, "positions": 64}
SECRET = (("HF_TOKEN", "hush"), ("OMP_NUM_THREADS", "1"))


@pytest.fixture
def launch(plan_of):
    def make(cluster, *hosts, mounts=(), variables=SECRET):
        sizes, train = {"pipeline": 1, "data": 4}, {"global_batch": 4, "microbatch": 1}
        plan = plan_of(cluster=cluster, model=MODEL, parallel=sizes, data={"sequence_length": 32}, train=train)
        made = launch_plan(plan, RUN, [Host(name) for name in hosts], Site("python3", "/work", variables))
        return with_mounts(made, mounts)

    return make


def test_the_golden_line_on_this_machine(launch):
    made = launch("local-cpu", "localhost")
    command = docker.command(made, made.hosts[0], Image("me/headway:1", "cpu", probed=True))
    assert shlex.join(command.words) == (
        "docker run --rm -i --pull=never --env=HF_TOKEN --name=headway-one-a4de1854-0 --label=headway.profile=cpu "
        "--network=host --ipc=host --pids-limit=409600 --mount=type=bind,source=/work,target=/work --workdir=/work "
        "--env=OMP_NUM_THREADS=1 me/headway:1 sh -c '\"$@\"; exit $?' sh "
        "python3 -m headway.train.agent /work/runs/one 4 0 stdin"
    )
    assert command.environment == (("HF_TOKEN", "hush"),)
    assert command.kill(0) == ("docker", "rm", "--force", "headway-one-a4de1854-0")


def test_behind_ssh_the_same_run_takes_its_secrets_from_stdin(launch):
    made = launch("a100-80gb-hdr", "root@a", "b")
    image = Image("me/headway:1", "cuda", ("infiniband",))
    command = docker.command(made, made.hosts[1], image)
    assert command.first == b"hush\n"
    inner = shlex.split(shlex.split(command.words[-1])[-1])
    assert inner[inner.index("env") + 1 :][:6] == ["docker", "run", "--rm", "-i", "--pull=never", "--env=HF_TOKEN"]
    assert {'--gpus="device=0,1"', "--name=headway-one-a4de1854-1", "--env=PET_NODE_RANK=1"} < {*inner}
    assert "hush" not in " ".join(command.words) + docker.shown(made, made.hosts[1], image)
    assert command.kill(7)[-2:] == ("b", "docker rm --force headway-one-a4de1854-1")


def test_an_ascend_host_that_nobody_looks_at_gets_all_parts_but_those_left_out(launch):
    made = launch("ascend-910b", "a", "b")
    words = docker.shown(made, made.hosts[0], Image("cann:9", "npu", ("firmware", "add-ons")))
    assert "--device=/dev/davinci0 --device=/dev/davinci1 --device=/dev/davinci_manager" in words
    assert "/usr/local/Ascend/driver" in words
    assert "/usr/local/Ascend/firmware" not in words


def test_the_jobs_directories_are_in_their_places_unless_a_mount_has_them(launch):
    def seen(*mounts):
        return [(each.source, each.target) for each in launch("local-cpu", "a", mounts=mounts).hosts[0].mounts]

    assert seen() == [("/work", "/work")]
    assert seen(Bind("/nfs/work", "/work")) == [("/nfs/work", "/work")]
    assert seen(Bind("/data", "/data")) == [("/data", "/data"), ("/work", "/work")]


def test_secrets_are_masked_where_the_line_is_shown(launch):
    made = launch("local-cpu", "localhost", variables=(*SECRET, ("http_proxy", "http://me:hush@proxy")))
    shown = docker.shown(made, made.hosts[0], Image("me/headway:1", "cpu", probed=True))
    assert "hush" not in shown
    assert "hush" not in shlex.join(
        docker.command(made, made.hosts[0], Image("me/headway:1", "cpu", probed=True)).words
    )
    assert "--env=HF_TOKEN " in shown


@pytest.mark.parametrize(
    ("run", "name"), [("/a/b c$(d)", "headway-b-c-d--a9a899af-0"), ("/runs/x", "headway-x-12cdc224-0")]
)
def test_a_container_is_called_after_its_run(run, name):
    assert container_name(run, 0) == name


def test_runs_of_one_name_in_two_places_do_not_end_each_others_containers():
    assert container_name("/mine/run", 0) != container_name("/theirs/run", 0)
