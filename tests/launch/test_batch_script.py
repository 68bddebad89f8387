"""The batch script for Slurm: a golden one, hostile words that stay words, and what it does when it is told to stop."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path, PurePath

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.launch.batch_script import Request, batch_script, job_name, output, request_more
from headway.launch.launch_plan import Bind, HostLaunch, LaunchPlan
from headway.launch.site_containers import parse_container

GOLDEN = Path(__file__).parent.parent / "golden" / "slurm_two_nodes.sbatch"
# what the nouns let through: no control characters
WORDS = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1)
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('A'), os.environ['PET_NODE_RANK']]))"


def launch(number=2, run="/work/runs/mine", arguments=("/usr/bin/python3", "-m", "headway.train.agent", "/work/run")):
    hosts = tuple(HostLaunch(f"node-{i}", i, (2 * i, 2), tuple(arguments), (), "/work") for i in range(number))
    return LaunchPlan("tiny", "0123456789ab", str(run), 2, "node-0", 21234, hosts)


def directives(request, kind="cpu", made=None):
    script = batch_script(made or launch(), request, kind, ())
    return [line.removeprefix("#SBATCH --") for line in script.split("\n") if line.startswith("#SBATCH")]


def test_the_golden_script():
    request = Request("gpu", "physics", "high", "1-12:00:00", exclusive=True, more=(("gres", "npu:2"),))
    script = batch_script(launch(), request, "npu", (("A", "b c"), ("OMP_NUM_THREADS", "1"), ("PET_NNODES", "7")))
    assert script == GOLDEN.read_text()


MOUNTS = (Bind("/lustre/corpora", "/data", read_only=True), Bind("/work", "/work"))


def _contained(container):
    hosts = tuple(replace(host, mounts=MOUNTS) for host in launch().hosts)
    variables = (("MY_NAME", "b c"), ("OMP_NUM_THREADS", "1"), ("PATH", "/opt/slurm/bin"), ("PET_NNODES", "7"))
    return batch_script(replace(launch(), hosts=hosts), Request(), "cuda", variables, parse_container(container))


def test_the_golden_script_whose_agents_pyxis_starts_in_an_image():
    assert _contained("pyxis:nvcr.io#nvidia/pytorch:26.08-py3") == GOLDEN.with_name("slurm_pyxis.sbatch").read_text()


def test_apptainer_is_started_on_the_node_and_starts_the_agent_in_its_image():
    assert (
        _contained("apptainer:/images/my.sif")
        .split(" agent \\\n")[1]
        .startswith(
            "    apptainer exec --nv --no-home --bind /lustre/corpora:/data:ro --bind /work:/work --pwd /work "
            "/images/my.sif /usr/bin/python3 -m headway.train.agent /work/run </dev/null &\n"
        )
    )


def test_only_what_is_asked_for_is_asked_of_slurm():
    assert directives(Request(warn=0), made=launch(1)) == [
        "job-name=headway-tiny",
        "nodes=1",
        "ntasks-per-node=1",
        "cpus-per-task=2",
        "comment=/work/runs/mine",
        "chdir=/work",
        "output=/work/runs/mine/launch/slurm-%j.out",
        "open-mode=append",
        "requeue",
        "export=NONE",
    ]
    assert "gpus-per-node=2" in directives(Request(), "cuda")
    own = directives(Request(more=request_more(("cpus-per-task=32", "--gpus-per-node=h100:4", "contiguous"))), "cuda")
    assert {"cpus-per-task=32", "gpus-per-node=h100:4", "contiguous"} <= set(own)
    assert len(own) == len({line.partition("=")[0] for line in own})


def test_a_node_that_fails_ends_the_others_unless_that_is_not_wanted():
    assert " --kill-on-bad-exit=1 " in batch_script(launch(), Request(), "cpu", ())
    assert " --kill-on-bad-exit=0 " in batch_script(launch(), Request(kill_on_bad_exit=False), "cpu", ())


def test_names_of_jobs_are_recognised_and_plain():
    assert job_name("my job; x") == "headway-my-job-x"
    assert job_name("") == "headway-job"
    assert output(PurePath("/r"), "7") == PurePath("/r/launch/slurm-7.out")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"partition": "a\n#SBATCH --uid=0"}, "control characters"),
        ({"account": "a\rb"}, "control characters"),
        ({"qos": "-v"}, "reads like another option"),
        ({"partition": "--wrap=x"}, "reads like another option"),
        ({"account": " "}, "is empty"),
        ({"qos": "a\\b"}, "backslash"),
        ({"time": "soon"}, "is none of Slurm's"),
        ({"time": "1:2:3\n"}, "is none of Slurm's"),
        ({"warn": -1}, "not in Slurm's range"),
        ({"warn": 65536}, "not in Slurm's range"),
        ({"more": (("signal", "B:TERM@1"),)}, "--sbatch signal cannot be given. Headway sets it itself."),
        ({"more": (("partition", "a"),)}, "--sbatch partition cannot be given. Use --partition."),
        ({"more": (("Gres", "a"),)}, "is no long name of an option"),
        ({"more": (("gres=a\n#SBATCH -x", "a"),)}, "is no long name of an option"),
        ({"more": (("gres", "a\nb"),)}, "control characters"),
        ({"more": (("gres", "-x"),)}, "reads like another option"),
    ],
)
def test_what_a_line_cannot_hold_or_would_be_read_otherwise_is_refused(fields, said):
    with pytest.raises(PlanError, match=re.escape(said)):
        Request(**fields)


@pytest.mark.parametrize("run", ["/work/a\nb", "/work/a\\b"])
def test_a_run_directory_that_no_line_can_hold_is_refused(run):
    with pytest.raises(PlanError):
        batch_script(launch(run=run), Request(), "cpu", ())


@given(st.text(min_size=1), st.text(min_size=1))
@example('a" --wrap="x', "x # y")
def test_a_hostile_value_is_refused_or_is_the_value_of_its_own_line(partition, gres):
    try:
        request = Request(partition=partition, more=(("gres", gres),))
    except PlanError:
        return
    found = directives(request)
    plain = directives(Request(partition="x", more=(("gres", "x"),)))
    assert len(found) == len(plain)
    for name, value in (("partition", partition), ("gres", gres)):
        (written,) = [line for line in found if line.startswith(f"{name}=")]
        assert _read_by_slurm(written.removeprefix(f"{name}=")) == value


def _read_by_slurm(written):
    """A value as sbatch parses a line of a script: quotes group, a backslash keeps the next character, spaces end."""
    read, quote, signs = "", "", iter(written)
    for sign in signs:
        if sign == "\\":
            read += next(signs)
        elif quote or sign in "\"'":
            quote = "" if sign == quote else quote or sign
            read += sign if quote and sign != quote else ""
        else:
            assert not sign.isspace()
            assert sign != "#"
            read += sign
    assert not quote
    return read


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with an srun that starts one node's part here, and a scontrol that knows one node and notes requeues."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "srun").write_text('#!/bin/bash\nwhile [ "$1" != sh ]; do shift; done\nSLURM_NODEID=1 exec "$@"\n')
    (folder / "scontrol").write_text(
        '#!/bin/bash\ncase "$1 $2" in\n'
        '"show hostnames") printf "n7\\nn8\\n" ;;\n'
        '"show node") echo "NodeName=n7 Arch=x NodeAddr=10.0.0.7 NodeHostName=n7" ;;\n'
        '"show job") echo "JobId=7 Restarts=0 PreemptTime=$PREEMPTED SuspendTime=None Comment=/a PreemptTime=2" ;;\n'
        'requeue*) echo "requeue $2" >>"$NOTES"; eval "$REQUEUES" ;;\nesac\n'
    )
    (folder / "apptainer").write_text('#!/bin/bash\nwhile [ "$1" != my.sif ]; do shift; done\nshift\nexec "$@"\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    return folder


def _start(programs, script, folder, **variables):
    (folder / "script").write_text(script)
    path = f"{programs}:{os.environ['PATH']}"
    slurms = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[7-8]", "NOTES": str(folder / "notes")}
    slurms |= {"REQUEUES": 'kill "$PPID"', "PREEMPTED": "None"}  # to requeue a job ends its script
    return subprocess.Popen(
        ["bash", str(folder / "script")],
        env={**os.environ, **slurms, **variables, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@settings(max_examples=15)
@given(arguments=st.lists(WORDS, max_size=4), value=WORDS, name=WORDS)
@example(arguments=["$(touch x)", "`x`", "'", '"', "\\", "-n", "*", ""], value="$HOME; exit 3", name="$(x) '\"&;")
def test_hostile_words_reach_the_agent_as_they_are_and_run_nothing(programs, tmp_path_factory, arguments, value, name):
    folder = tmp_path_factory.mktemp("hostile")
    run = folder / re.sub(r"[/\\]", "_", name)[:60].encode()[:200].decode(errors="ignore")
    run.mkdir(exist_ok=True)
    made = launch(run=run, arguments=[sys.executable, "-c", SHOW, *arguments])
    process = _start(programs, batch_script(made, Request(), "cpu", (("A", value),)), folder)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert json.loads(out) == [arguments, value, "1"]
    assert sorted(path.name for path in folder.iterdir()) == sorted({run.name, "script"} - {""})


def test_an_agent_in_a_container_knows_its_place_and_its_variables(programs, tmp_path):
    made = launch(run=tmp_path, arguments=[sys.executable, "-c", SHOW, "b c"])
    script = batch_script(made, Request(), "cpu", (("A", "$(x)"),), parse_container("apptainer:my.sif"))
    process = _start(programs, script, tmp_path)
    assert json.loads(process.communicate(timeout=60)[0]) == [["b c"], "$(x)", "1"]


def _agent(*lines):
    """What an agent stands for: shell commands, with the run's directory in $1."""
    return ("/bin/bash", "-c", "\n".join(lines), "agent")


def _run(programs, folder, *lines, **variables):
    run = folder / "run"
    run.mkdir()
    made = launch(run=run, arguments=[*_agent(*lines), str(run)])
    return run, lambda: _start(programs, batch_script(made, Request(), "cpu", ()), folder, **variables)


WAITS = 'touch "$1/started"; while [ ! -e "$1/control/stop" ]; do sleep 0.05; done; cp "$1/control/stop" "$1/said"'
STOPS = 'sleep 0.2; mv "$1/control/stop" "$1/control/stopped"'


def _tell(process, run):
    deadline = time.monotonic() + 30
    while not (run / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR1)  # to the shell alone
    return process.communicate(timeout=60)[0]


@pytest.mark.parametrize(
    "requeues",
    [
        'kill "$PPID"',
        'kill "$PPID"; kill $$',
        '(sleep 0.2; kill "$PPID") & kill $$',
        '(sleep 0.2; kill -USR1 "$PPID"; kill "$PPID") &',
    ],
    ids=["the script", "scontrol with it", "scontrol first", "later, after another USR1"],
)
def test_usr1_asks_by_the_control_file_and_the_answer_puts_the_job_back_in_line(programs, tmp_path, requeues):
    run, start = _run(programs, tmp_path, WAITS, STOPS, REQUEUES=requeues)
    process = start()
    out = _tell(process, run)
    assert process.returncode == 0
    assert (run / "said").read_text() == "Slurm sent USR1 to job 7\n"
    assert (tmp_path / "notes").read_text() == "requeue 7\n"
    assert "the job stops at the end of its step" in out


def test_a_job_whose_ranks_were_told_to_end_since_it_was_pre_empted_is_put_back(programs, tmp_path):
    _, start = _run(programs, tmp_path, "exit 143", PREEMPTED="2026-11-30T08:58:31")
    process = start()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (tmp_path / "notes").read_text() == "requeue 7\n"
    assert "headway: pre-empted; job 7 goes back in line" in out


def test_a_job_that_slurm_does_not_put_back_says_so_and_has_failed(programs, tmp_path):
    refuses = "echo Requested operation is presently disabled; exit 1"
    run, start = _run(programs, tmp_path, WAITS, STOPS, REQUEUES=refuses)
    process = start()
    out = _tell(process, run)
    assert process.returncode == 1
    assert "disabled\nheadway: it cannot go back in line; launched again, it goes on from its checkpoint\n" in out


@pytest.mark.parametrize(
    ("then", "status"),
    [("exit 0", 0), ('mv "$1/control/stop" "$1/control/stopped"; exit 3', 3)],
    ids=["done with all steps", "failed"],
)
def test_a_job_that_was_told_to_stop_and_cannot_go_on_is_not_put_back(programs, tmp_path, then, status):
    run, start = _run(programs, tmp_path, WAITS, then)
    process = start()
    _tell(process, run)
    assert process.returncode == status
    assert not (tmp_path / "notes").exists()


def test_a_run_that_a_person_stops_by_its_file_stays_stopped(programs, tmp_path):
    _, start = _run(programs, tmp_path, 'touch "$1/control/stopped" || exit 5')
    (tmp_path / "run" / "control").mkdir()
    process = start()
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert not (tmp_path / "notes").exists()


def test_a_second_start_takes_nothing_of_the_first_for_its_own(programs, tmp_path):
    run, start = _run(programs, tmp_path, 'ls "$1/log" "$1/control"; exit 4', SLURM_RESTART_COUNT="2")
    for folder, name in (("control", "stop"), ("control", "stopped"), ("log", "rank-0.error.json")):
        (run / folder).mkdir(exist_ok=True)
        (run / folder / name).touch()
    (run / "summary.json").touch()
    process = start()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 4
    assert [line for line in out.split() if not line.endswith(":")] == []
    assert (run / "log-before-restart-2" / "rank-0.error.json").exists()
    assert not (run / "summary.json").exists()


def test_several_nodes_meet_at_the_first_ones_address_as_slurm_knows_it_and_one_meets_nobody(programs, tmp_path):
    show = 'echo "$PET_NNODES $PET_NODE_RANK $PET_MASTER_ADDR $PET_MASTER_PORT"'
    made = launch(run=tmp_path, arguments=_agent(show))
    there = {"PET_NNODES": "9"}
    for plan, said in (
        (made, "2 1 10.0.0.7 21234\n"),
        (replace(made, address="10.1.1.1"), "2 1 10.1.1.1 21234\n"),
        (launch(1, tmp_path, _agent('echo "${PET_NNODES-none}"')), "none\n"),
    ):
        process = _start(programs, batch_script(plan, Request(), "cpu", ()), tmp_path, **there)
        assert process.communicate(timeout=60)[0] == said
