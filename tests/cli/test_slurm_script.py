"""headway launch --on slurm where there is no Slurm: the script that would be submitted, and what is refused."""

import json
import re

import pytest

from headway.cli.main import main

JOB = """
model: {layers: 2, hidden: 32, heads: 2, feed_forward: 64, vocabulary: 256, positions: 64}
cluster: a100-80gb-hdr
parallel: {pipeline: 2, data: 2}
data: {sequence_length: 32, path: text.txt, validation: 0}
train: {steps: 3, global_batch: 16, microbatch: 4}
run: {directory: run}
"""


@pytest.fixture
def launch(tmp_path, monkeypatch, capsys):
    """A function that runs the verb in a folder with a job, where the PATH has none of Slurm's programs."""
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 100)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = main(["launch", "job.yaml", "--on", "slurm", *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return status, said.out, said.err

    return run


def test_a_dry_run_prints_the_script_with_secrets_masked_and_makes_nothing(launch, tmp_path):
    words = ("--nodes", "2", "--partition", "gpu", "--exclusive", "--env", "MY_TOKEN=hush", "--env", "A=b c")
    status, script, err = launch(*words, "--dry-run")
    assert status == 0, err
    assert script.startswith("#!/bin/bash\n")
    for line in ("#SBATCH --partition=gpu", "#SBATCH --exclusive", "#SBATCH --gpus-per-node=2", "export A='b c'"):
        assert f"\n{line}\n" in script
    assert f"export PATH={tmp_path}/bin" in script
    assert "hush" not in script
    assert "export MY_TOKEN='****'" in script
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "job.yaml", "text.txt"]
    status, out, _ = launch(*words, "--dry-run", "--json")
    assert status == 0
    assert json.loads(out)["script"] == script


def test_a_dry_run_of_a_question_prints_what_would_be_asked_and_asks_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))  # no Slurm is there
    run = tmp_path / "a run"
    (run / "launch").mkdir(parents=True)
    (run / "launch" / "slurm.json").write_text('{"job": "7", "name": "headway-a"}')
    for question, said in (
        ("--cancel", "scancel 7"),
        ("--status", "scontrol show job --oneliner 7"),
        ("--logs", f"cat '{run}/launch/slurm-7.out'"),
    ):
        assert main(["launch", "--on", "slurm", question, str(run), "--dry-run"]) == 0
        assert capsys.readouterr().out == f"{said}\n"


def test_by_default_a_job_takes_the_nodes_that_its_cluster_would(launch):
    status, script, _ = launch("--dry-run")
    assert status == 0
    assert re.findall(r"^#SBATCH --(nodes=.*|gpus-per-node=.*)$", script, re.MULTILINE) == [
        "nodes=1",
        "gpus-per-node=4",
    ]


def test_in_a_container_the_agents_have_the_images_python_and_the_jobs_directories(launch, tmp_path):
    words = ("--container", "apptainer:/images/my.sif", "--mount", "/data/c4:/data:ro", "--env", "A=b")
    status, script, err = launch("--nodes", "2", "--dry-run", *words)
    assert status == 0, err
    assert (
        f"--bind /data/c4:/data:ro --bind {tmp_path}:{tmp_path} --pwd {tmp_path} /images/my.sif python3 -m " in script
    )
    status, script, err = launch("--nodes", "2", "--dry-run", "--container", "pyxis:a/b:1", "--env", "A=b")
    assert status == 0, err
    assert (
        f" --container-image=a/b:1 --container-mounts={tmp_path}:{tmp_path} --container-workdir={tmp_path} " in script
    )
    assert re.search(r" --container-env=A,(?!.*\bPATH\b)[A-Z_,]+ --no-container-mount-home ", script)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "3"), "4 ranks (tensor=1 context=1 data=2 pipeline=2) do not divide over 3 hosts"),
        (("--hostfile", "hosts"), "--hostfile is not for --on slurm"),
        (("--image", "a"), "A container is --container"),
        (("--mount", "/a:/b"), "name it with --container pyxis:IMAGE or apptainer:IMAGE"),
        (("--container", "docker:a"), "write pyxis:IMAGE or apptainer:IMAGE"),
        (("--container", "pyxis:$(a)"), "is no image"),
        (("--container", "pyxis:a", "--mount", "/a+b:/b"), "has a colon, comma or plus"),
        (("--partition", "a\n#SBATCH --uid=0"), "control characters"),
        (("--partition", "a\udcff"), "control characters, bytes that are no UTF-8 or a backslash"),
        (("--workdir", "/elsewhere"), "data.path text.txt is relative, and hosts start in /elsewhere"),
        (("--partition", "-x"), "reads like another option"),
        (("--sbatch", "output=/etc/passwd"), "--sbatch output cannot be given. Headway sets it itself."),
        (("--nodes", "2", "--max-restarts", "1"), "--max-restarts is for one host"),
        ((), "sbatch cannot be started (No such file or directory). Run this where Slurm is installed."),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(launch, tmp_path, words, said):
    status, out, err = launch(*words)
    assert status == 2
    assert said in err
    assert out == ""
    assert not (tmp_path / "run").exists(), "so that the next try may have its name"


def test_another_target_has_no_such_container(launch, capsys):
    assert main(["launch", "job.yaml", "--on", "local", "--container", "pyxis:a"]) == 2
    assert "--container is for --on slurm, not for local" in capsys.readouterr().err


@pytest.mark.parametrize("question", ["--status", "--cancel", "--logs"])
def test_a_directory_that_is_no_run_of_slurm_and_a_job_beside_it_are_refused(question, tmp_path, capsys):
    assert main(["launch", "--on", "slurm", question, str(tmp_path)]) == 2
    assert f"{tmp_path} is no run that headway launch --on slurm has submitted." in capsys.readouterr().err
    assert main(["launch", "job.yaml", "--on", "slurm", question, "5"]) == 2
    assert "give one of them" in capsys.readouterr().err
