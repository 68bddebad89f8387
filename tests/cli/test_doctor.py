"""headway doctor: what it prints of described hosts, and how it ends on this machine with and without a job."""

import json
from dataclasses import replace

import pytest

from headway.cli import doctor
from headway.cli.main import main
from headway.launch.doctor.examine import examine
from headway.launch.doctor.npu_smi import Table
from tests.launch.doctor.machines import CPU, ascend, needs, npu, nvidia

SUBJECTS = ("software", "devices", "network", "host")


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("to be or not to be " * 1000)
    path = tmp_path / "small.yaml"
    path.write_text("data: {path: text, sequence_length: 32}\nparallel: {pipeline: 2, data: 1}\n")
    return str(path)


@pytest.mark.parametrize("machine", [CPU, ascend(), nvidia()], ids=["cpu", "npu", "cuda"])
def test_findings_are_a_table_by_subject_in_100_columns(machine, capsys):
    doctor._print(machine, examine(machine), None)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    begun = [line.split()[0] for line in out.splitlines() if line[:1].isalpha()]
    assert tuple(word for word in begun if word in SUBJECTS) == SUBJECTS
    assert "a job could start here: 0 to mend first, 0 to look at, " in out


def test_what_a_tool_wrote_cannot_change_the_terminal(capsys):
    odd = Table("23.0.3", tuple(npu(i, name="\x1b[2J\x07910B") for i in range(8)))
    machine = replace(ascend(table=odd), name="host-7")
    doctor._print(machine, examine(machine), None)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "·[2J·910B" in out


def test_a_long_path_is_shown_whole(capsys):
    path = "/data/" + "-".join(f"part{i}" for i in range(30))
    machine = replace(CPU, scratch=replace(CPU.scratch, path=path))
    doctor._print(machine, examine(machine), None)
    said = "".join(capsys.readouterr().out.split())
    assert path[-100:] in said


def test_the_document_has_the_numbers_of_every_finding(plan_of):
    plan = plan_of()
    found = examine(ascend(), needs(kind="cuda", shares_memory=False))
    document = json.loads(json.dumps(doctor._document(ascend(), found, plan)))
    assert (document["host"], document["job"], document["could_start"]) == ("host-7", "job", False)
    assert len(document["findings"]) == len(found)
    devices = next(each for each in document["findings"] if (each["subject"], each["name"]) == ("job", "devices"))
    assert devices["status"] == "fail"
    assert devices["numbers"] == {"wanted": 8, "there": 0}
    assert all(each["remedy"] for each in document["findings"])


def test_a_change_without_a_job_is_refused(capsys):
    assert main(["doctor", "--set", "train.steps=3"]) == 2
    assert "no job is named" in capsys.readouterr().err


@pytest.mark.dist
def test_a_job_could_start_on_this_machine(capsys):
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert "a job could start here: 0 to mend first" in out
    assert "looking at this host" in err
    for word in (*SUBJECTS, "gloo opens a connection", "nothing to do"):
        assert word in out


@pytest.mark.dist
def test_a_job_that_fits_this_machine_says_so_in_one_document(job, capsys):
    assert main(["doctor", job, "--set", "checkpoint.every=50", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["job"], document["could_start"]) == ("small", True)
    names = [each["name"] for each in document["findings"] if each["subject"] == "job"]
    assert names == ["data", "hosts", "devices", "backend", "memory", "cores", "checkpoints", "run directory"]


@pytest.mark.dist
def test_a_job_that_cannot_start_ends_with_1_and_says_all_that_is_in_its_way(job, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/mine").write_text("")
    changes = ("cluster=ascend-910b", "data.path=missing", "run.directory=run", "parallel.recompute=full")
    words = [word for change in changes for word in ("--set", change)]
    assert main(["doctor", job, *words, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    failed = {each["name"]: each for each in document["findings"] if each["status"] == "fail"}
    assert {"job", "devices", "backend"} <= set(failed)
    said = " ".join(each["what"] for each in document["findings"] if each["name"] == "job")
    for word in ("there is no file or folder", "run holds files already", "parallel.recompute full is predicted"):
        assert word in said
    assert not document["could_start"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]


@pytest.mark.dist
def test_tools_that_hang_or_write_nonsense_are_findings_in_time(tmp_path, monkeypatch, capsys):
    for name, text in (("npu-smi", "sleep 60"), ("nvidia-smi", "head -c 100000 /dev/urandom")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert main(["doctor", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
    assert "did not end within 8.00 s" in found["npu-smi"]["what"]
    assert found["nvidia-smi"]["status"] == "warn"
