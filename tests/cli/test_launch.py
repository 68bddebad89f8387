"""headway launch: what a dry run shows, what is refused, what kubectl is told, and jobs on several nodes that train."""

import json
import os
import re
import shlex
import stat
import sys

import pytest
import yaml
from click.testing import CliRunner

from headway.cli.main import cli
from headway.launch.launch_plan import default_port

JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
parallel: {pipeline: 2, data: 1}
data: {sequence_length: 32, path: text.txt, validation: 0}
train: {steps: 3, global_batch: 8, microbatch: 4}
run: {directory: run}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 100)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "hosts").write_text("node1 slots=8\nroot@node2\n")
    (tmp_path / "twice").write_text("node1\nroot@node1\n")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("NCCL_", "TORCH_", "OMP_", "PYTORCH_", "CUDA_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def say(*words, status=0):
    """What a verb that prints and starts nothing writes to stdout."""
    done = CliRunner().invoke(cli, ["launch", *words])
    assert done.exit_code == status, done.output
    return done.stdout


def refused(*words):
    done = CliRunner().invoke(cli, ["launch", *words])
    error = done.exception
    assert getattr(error, "exit_status", None) == 2 or done.exit_code == 2, done.output
    return str(error) if hasattr(error, "exit_status") else done.output


def test_a_dry_run_on_this_machine_prints_a_line_a_node_and_makes_nothing(folder):
    lines = say("job.yaml", "--on", "local", "--nodes", "2", "--dry-run").splitlines()
    for rank, line in enumerate(lines):
        words = shlex.split(line)
        assert words[:5] == ["cd", "--", str(folder), "&&", "env"]
        assert {f"PET_NODE_RANK={rank}", "PET_NNODES=2", "PET_MASTER_ADDR=127.0.0.1", "GLOO_SOCKET_IFNAME=lo"} < {
            *words
        }
        assert words[-7:] == [sys.executable, "-m", "headway.train.agent", str(folder / "run"), "1", "0", "stdin"]
    assert len(lines) == 2
    assert not (folder / "run").exists()


def test_a_dry_run_by_ssh_prints_what_is_run_with_secrets_masked(folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hush")
    words = ("job.yaml", "--on", "ssh", "--hostfile", "hosts", "--dry-run", "--interface", "eth0")
    text = say(*words, "--env", "HF_TOKEN", "--env", "A=it's $(here)", "--python", "/opt/python")
    assert "hush" not in text
    first, second = text.splitlines()
    found = shlex.split(first, comments=True)
    assert found[:3] == ["ssh", "-T", "-o"]
    assert found[-3:-1] == ["--", "node1"]
    inner = shlex.split(shlex.split(found[-1])[-1])
    assert {"A=it's $(here)", "GLOO_SOCKET_IFNAME=eth0", "PET_MASTER_ADDR=node1", "OMP_NUM_THREADS=1"} < {*inner}
    assert f"PET_MASTER_PORT={default_port(folder / 'run')}" in inner
    assert inner[-7:-4] == ["/opt/python", "-m", "headway.train.agent"]
    assert first.endswith("  # stdin: HF_TOKEN=****")
    assert "-- root@node2 " in second


def test_as_json_a_dry_run_is_one_document_without_secrets(folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hush")
    text = say("job.yaml", "--on", "ssh", "--hostfile", "hosts", "--dry-run", "--env", "HF_TOKEN", "--json")
    document = json.loads(text)
    assert "hush" not in text
    assert [(host["name"], host["ranks"]) for host in document["hosts"]] == [("node1", [0, 1]), ("root@node2", [1, 1])]
    assert len(document["lines"]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--on", "local"), "JOB is missing"),
        (("job.yaml", "--on", "ssh"), "--on ssh needs --hostfile"),
        (("job.yaml", "--on", "local", "--hostfile", "hosts"), "--on local is this machine alone"),
        (("job.yaml", "--on", "ssh", "--hostfile", "none"), "the hostfile none cannot be read"),
        (("job.yaml", "--on", "ssh", "--hostfile", "hosts", "--nodes", "3"), "but the hostfile names 2"),
        (("job.yaml", "--on", "local", "--nodes", "3"), "2 ranks .* do not divide over 3 hosts. Use 2 or 1"),
        (("job.yaml", "--on", "local", "--nodes", "2", "--max-restarts", "1"), "--max-restarts is for one host"),
        (("job.yaml", "--on", "local", "--image", "x"), "are for containers .docker, kubernetes., not for local"),
        (("job.yaml", "--on", "local", "--namespace", "x"), "--namespace is for --on kubernetes"),
        (("job.yaml", "--on", "local", "--partition", "gpu"), "--partition is for --on slurm, not for local"),
        (("job.yaml", "--on", "kubernetes", "--no-kill-on-bad-exit"), "--kill-on-bad-exit is for --on slurm, not for"),
        (("job.yaml", "--on", "docker"), "--on docker needs --image"),
        (
            ("job.yaml", "--on", "docker", "--image", "x", "--nodes", "2"),
            "--on docker is one container on this machine",
        ),
        (("job.yaml", "--on", "docker", "--image", "-x"), "is no name of an image"),
        (("job.yaml", "--on", "docker", "--image", "x", "--mount", "/none:/x"), "there is no /none on this host"),
        (("job.yaml", "--on", "local", "--interface", "-x"), "is no name of a network interface"),
        (("job.yaml", "--on", "local", "--env", "A=b\nc"), "the value of A has control characters"),
        (("job.yaml", "--on", "local", "--rank-table", "t"), "a rank table is for Ascend's devices"),
        (("job.yaml", "--on", "local", "--set", 'run.directory="a\\nb"'), "cannot be passed to hosts"),
        (("job.yaml", "--on", "ssh", "--hostfile", "twice"), "line 2: node1 is there twice"),
        (("job.yaml", "--on", "local", "--answer-within", "0"), "--answer-within 0 leaves no host any time"),
        (("job.yaml", "--on", "local", "--answer-within", "nan"), "--answer-within nan leaves no host any time"),
        (
            ("job.yaml", "--on", "local", "--workdir", "there"),
            "data.path text.txt is relative, and hosts start in there",
        ),
        (("job.yaml", "--on", "local", "--set", "data.path=stdlib", "--workdir", "x"), "--workdir x is not the same"),
        (("job.yaml", "--on", "local", "--set", "data.path=stdlib", "--workdir", "/no/x"), "no directory /no/x here"),
        (("job.yaml", "--on", "local", "--set", "data.path=stdlib", "--workdir", ""), "the path '' cannot be passed"),
        (("job.yaml", "--on", "local", "--python", "/no/python"), "/no/python cannot be started here"),
        (("job.yaml", "--on", "ssh", "--hostfile", "hosts", "--fabric", "hpn"), "local-cpu has no NVIDIA devices"),
        (("job.yaml", "--on", "local", "--nccl", "2"), "is no version of NCCL"),
        (("job.yaml", "--on", "local", "--status", "x"), "give one of them"),
        (("--on", "local", "--status", "x"), "belongs to the headway launch that started it"),
        (("--on", "kubernetes", "--status", "-x"), "is no name of a TrainJob"),
        (("--on", "kubernetes", "--status", "x", "--logs", "x"), "give one of them"),
        (("job.yaml", "--on", "kubernetes"), "--on kubernetes needs --image"),
        (
            ("job.yaml", "--on", "kubernetes", "--image", "x", "--mount", "a:/b", "--workdir", "b"),
            "--workdir b is not the same place",
        ),
        (("job.yaml", "--on", "kubernetes", "--image", "x", "--env", "HOME"), "--env HOME: nothing of this machine's"),
        (("job.yaml", "--on", "kubernetes", "--image", "x"), "pods share nothing by themselves"),
        (("job.yaml", "--on", "kubernetes", "--image", "x", "--hostfile", "hosts"), "--hostfile is not for"),
        (("job.yaml", "--on", "moon"), "'moon' is not one of"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_before_anything_is_made(folder, words, said):
    assert re.search(said, refused(*words))
    assert not (folder / "run").exists()


def test_one_host_of_a_hostfile_may_be_started_again(folder):
    (line,) = say(
        "job.yaml", "--on", "ssh", "--hostfile", "hosts", "--nodes", "1", "--max-restarts", "3", "--dry-run"
    ).splitlines()
    assert " 2 3 stdin" in line


@pytest.mark.parametrize("words", [("--on", "ssh", "--hostfile", "hosts"), ("--on", "docker", "--image", "x")])
def test_without_its_program_nothing_is_made(folder, monkeypatch, words):
    monkeypatch.setenv("PATH", str(folder))
    assert " cannot be started here (No such file or directory). Install it." in refused("job.yaml", *words)
    assert not (folder / "run").exists()


def test_a_dry_run_in_a_container_mounts_a_run_directory_that_is_not_made_yet(folder):
    run = folder.parent / "runs, it's mine"
    line = say("job.yaml", "--on", "docker", "--image", "x", "--set", f"run.directory={run}", "--dry-run")
    assert f'--mount=type=bind,"source={run}","target={run}"' in shlex.split(line)
    assert not run.exists()


def test_many_hosts_are_counted_rather_than_named(folder):
    (folder / "many").write_text("".join(f"node{i}\n" for i in range(64)))
    layout = [
        word for each in ("parallel.data=32", "train.microbatch=1", "train.global_batch=64") for word in ("--set", each)
    ]
    done = CliRunner().invoke(cli, ["launch", "job.yaml", "--on", "ssh", "--hostfile", "many", *layout, "--dry-run"])
    assert "hosts      1 rank on each of 64 hosts (node0 node1" in done.stderr
    assert "node15 and 48 more), meeting at node0:" in done.stderr
    assert len(done.stdout.splitlines()) == 64


ASCEND = (
    "job.yaml",
    "--on",
    "ssh",
    "--hostfile",
    "hosts",
    "--set",
    "cluster=ascend-910b",
    "--rank-table",
    "table.json",
)


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (
            "echo 'cat: /etc/hccn.conf: Permission denied' >&2; exit 1",
            "of node1 cannot be read .cat: .*Permission denied",
        ),
        ("printf 'address_0=\\377\\n'", "of node1: \N{REPLACEMENT CHARACTER} is no IP address .device 0."),
        ("exec sleep 60", "of node1 cannot be read .no answer for 1 s.. Leave --rank-table out"),
    ],
)
def test_a_host_that_tells_no_addresses_of_devices_ends_the_launch_before_anything_is_made(
    folder, monkeypatch, does, said
):
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    done = CliRunner().invoke(cli, ["launch", *ASCEND, "--answer-within", "1"])
    assert re.search(said, str(done.exception))
    assert not (folder / "run").exists()
    assert not (folder / "table.json").exists()


def test_several_nodes_on_this_machine_would_take_the_same_devices(folder):
    said = refused("job.yaml", "--on", "local", "--nodes", "2", "--set", "cluster=h800-hpn")
    assert "several nodes on this machine would take the same devices (H800-80GB)" in said


def test_nccl_is_told_the_rails_and_planes_of_the_fabric(folder):
    words = ("job.yaml", "--on", "ssh", "--hostfile", "hosts", "--set", "cluster=h800-hpn", "--dry-run")
    assert "NCCL_IB_HCA==mlx5_0:1:0:0,mlx5_1:1:0:1" in say(*words, "--fabric", "hpn", "--nccl", "2.30.5")
    assert "may not know rails and planes" in refused(*words, "--fabric", "hpn", "--nccl", "2.27.3")


MANIFEST = ("job.yaml", "--on", "kubernetes", "--image", "me/headway:1", "--mount", "shared:/work", "--nodes", "2")


def test_a_dry_run_on_kubernetes_prints_the_manifest(folder):
    text = say(*MANIFEST, "--dry-run", "--set", "train.steps=5", "--namespace", "team")
    found = yaml.safe_load(text)
    trainer = found["spec"]["trainer"]
    assert (found["kind"], found["metadata"]["namespace"]) == ("TrainJob", "team")
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 1)
    assert shlex.join(trainer["command"][3:]) == (
        "/work python -m torch.distributed.run --max-restarts 0 -m headway train job.yaml --set=train.steps=5"
    )
    assert json.loads(say(*MANIFEST, "--dry-run", "--set", "train.steps=5", "--namespace", "team", "--json")) == found


@pytest.fixture
def kubectl(folder, monkeypatch):
    """A stand-in that keeps its words and its input, and fails if its name is there."""
    program = folder / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho "$@" >> words\n[ "$1" = create ] && cat > created\n'
        '[ -e fails ] && cat fails >&2 && exit 1\nprintf "done: %s \\377\\n" "$1"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return folder


def test_kubectl_is_handed_the_manifest_and_answers_for_the_job(kubectl):
    text = say(*MANIFEST)
    name = yaml.safe_load((kubectl / "created").read_text())["metadata"]["name"]
    assert f"{name} was created: 2 pods, ranks in each: 1." in text
    assert "done: get" in say("--on", "kubernetes", "--status", name)
    say("--on", "kubernetes", "--namespace", "team", "--logs", name)
    say("--on", "kubernetes", "--cancel", name)
    assert (kubectl / "words").read_text().splitlines() == [
        "create -f -",
        f"get trainjobs.trainer.kubeflow.org {name} -o wide",
        f"logs --selector jobset.sigs.k8s.io/jobset-name={name} --prefix --tail=-1 --namespace team",
        f"delete trainjobs.trainer.kubeflow.org {name} --wait=false",
    ]


def test_what_kubectl_says_is_passed_on(kubectl):
    (kubectl / "fails").write_text("the server is away")
    done = CliRunner().invoke(cli, ["launch", *MANIFEST])
    assert str(done.exception) == "kubectl create ended with status 1: the server is away"


def test_a_job_that_is_there_already_is_to_be_ended_first(kubectl):
    (kubectl / "fails").write_text("Error from server (AlreadyExists): it exists")
    done = CliRunner().invoke(cli, ["launch", *MANIFEST])
    assert "(AlreadyExists): it exists\nEnd that first (--cancel NAME), or change the job." in str(done.exception)


def test_as_json_each_answer_about_a_pod_is_one_document(kubectl):
    assert json.loads(say(*MANIFEST, "--json"))["name"].startswith("job-")
    for question in ("cancel", "logs"):
        found = json.loads(say("--on", "kubernetes", f"--{question}", "gpt-1", "--json"))
        assert found[question].startswith("done: ")


def test_what_pods_say_need_not_be_utf_8(kubectl):
    assert say("--on", "kubernetes", "--logs", "gpt-1") == "done: logs \N{REPLACEMENT CHARACTER}\n"


def test_a_dry_run_ends_no_job(kubectl):
    line = say("--on", "kubernetes", "--cancel", "gpt-1", "--dry-run", "--namespace", "team")
    assert line == "kubectl delete trainjobs.trainer.kubeflow.org gpt-1 --wait=false --namespace team\n"
    assert not (kubectl / "words").exists()


def test_without_kubectl_the_manifest_can_be_printed(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    assert "kubectl cannot be started here (No such file or directory)" in refused(*MANIFEST)
