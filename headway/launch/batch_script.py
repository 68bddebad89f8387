"""A LaunchPlan as a batch script of Slurm, which stops the job when it is pre-empted and puts it back in line."""

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import PurePath

from headway import control
from headway.errors import PlanError
from headway.launch.environment import UNSPOKEN, Variables
from headway.launch.interfaces import Kind
from headway.launch.launch_plan import LaunchPlan, check_path
from headway.launch.site_containers import Container, inside

FOLDER = "launch"  # in the run's directory: the script, the record of its job, and what it prints
PREFIX = "headway-"  # of the names of jobs that are Headway's to ask about and to cancel
_BARE = re.compile(r"[A-Za-z0-9_./:,=@%+*-]+")
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_TIME = re.compile(r"(\d+-)?\d+(:\d\d){0,2}|UNLIMITED", re.IGNORECASE)
_OURS = {"job-name", "nodes", "ntasks", "ntasks-per-node", "array", "chdir", "comment", "output", "error", "open-mode"}
_OURS |= {"export", "export-file", "requeue", "no-requeue", "signal"}
_NAMED = {"partition", "account", "qos", "time", "exclusive"}  # these have options of their own


@dataclass(frozen=True, slots=True)
class Request:
    """What Slurm is asked for beside nodes and tasks; None leaves it to the site.

    `time` is Slurm's limit (`30`, `12:00:00`, `2-0`). `warn` is how many seconds before its end the job is told to
    stop, and 0 if it is not; Slurm's own pre-emption tells it where the site has `send_user_signal`. With
    `kill_on_bad_exit` a node whose agent fails ends the others. `more` are further options of sbatch, by long names.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | None = None
    exclusive: bool = False
    kill_on_bad_exit: bool = True
    warn: int = 300
    more: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for option in ("partition", "account", "qos"):
            _check_value(option, getattr(self, option) or "x")
        if self.time is not None and not _TIME.fullmatch(self.time):
            raise PlanError(f"--time {self.time!r} is none of Slurm's. Write minutes, or 12:00:00, or 2-00:00:00.")
        if not 0 <= self.warn <= 65535:
            raise PlanError(f"--warn {self.warn} is not in Slurm's range. Use 0 (never) to 65535 seconds.")
        for option, value in self.more:
            if not _OPTION.fullmatch(option):
                raise PlanError(f"--sbatch {option!r} is no long name of an option. Write like --sbatch gres=npu:8.")
            if option in _OURS or option in _NAMED:
                own = f"Use --{option}." if option in _NAMED else "Headway sets it itself."
                raise PlanError(f"--sbatch {option} cannot be given. {own}")
            _check_value(option, value or "x")


def request_more(words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Further options of sbatch from `NAME=VALUE` or `NAME`, with or without the hyphens.

    >>> request_more(("gres=npu:8", "--hint=nomultithread", "contiguous"))
    (('gres', 'npu:8'), ('hint', 'nomultithread'), ('contiguous', ''))
    """
    parted = (word.removeprefix("--").partition("=") for word in words)
    return tuple((name, value) for name, _, value in parted)


def job_name(name: str) -> str:
    """The name that a job of Headway has in Slurm; what is no letter, digit, dot or underscore becomes a hyphen."""
    return PREFIX + (re.sub(r"[^A-Za-z0-9_.]+", "-", name) or "job")[:80]


def output(run: PurePath, job: str) -> PurePath:
    """Where the batch script of a job (its number, or Slurm's `%j` for it) prints."""
    return run / FOLDER / f"slurm-{job}.out"


def batch_script(
    launch: LaunchPlan, request: Request, kind: Kind, variables: Variables, container: Container | None = None
) -> str:
    """The script for sbatch. `kind` is that of the device; `variables` are exported, in place of the submitter's.

    Each node's agent runs in a `container`, if there is one, with the mounts of the launch; the script never does.

    One agent a node, as on every other target, rather than a task a rank: each node then has the logs, the exit
    statuses and the reports of its ranks, and one command line serves all targets. USR1 reaches the batch shell alone
    (`B:`), never an agent: torchrun would pass it on to workers that it would then end. The shell asks by the run's
    control file instead, on the node of rank 0, so that no other node's cache of the file system can hide it; when the
    run has answered, the job is put back in line. A requeued job has the same number, script and run directory, and
    goes on from the checkpoint. Raises PlanError for what a line of the script cannot hold.
    """
    number = len(launch.hosts)
    check_path(launch.run)
    directives = [f"#SBATCH {line}" for line in _directives(launch, request, kind)]
    own = tuple((name, value) for name, value in variables if not name.startswith("PET_"))
    exports = [f"export {name}={shlex.quote(value)}" for name, value in own]
    # an image has a PATH of its own
    part = replace(launch.hosts[0], environment=tuple(each for each in own if each[0] != "PATH"))
    options, words = inside(container, part, kind)
    srun = ["srun", f"--nodes={number}", f"--ntasks={number}", "--ntasks-per-node=1", "--export=ALL"]
    srun += [f"--kill-on-bad-exit={int(request.kill_on_bad_exit)}", *options]
    parts = (
        f"#!/bin/bash\n# {launch.digest}: {number} nodes × {launch.ranks_per_host} ranks, by headway launch --on slurm",
        "\n".join(directives),
        f"run={shlex.quote(launch.run)}",
        _TRAP,
        "\n".join(["export SLURM_EXPORT_ENV=ALL", *exports]),
        _ALONE if number == 1 else _MEETING.format(number=number, port=launch.port, address=_address(launch)),
        f'{shlex.join(srun)} ${{SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"}} \\\n'
        f'    sh -c \'export PET_NODE_RANK="$SLURM_NODEID"; exec "$@"\' agent \\\n'
        f"    {shlex.join(words)} </dev/null &",
        _END,
    )
    return "\n\n".join(parts)


def _directives(launch: LaunchPlan, request: Request, kind: Kind) -> list[str]:
    each, more = launch.ranks_per_host, dict(request.more)
    pattern = str(output(PurePath(launch.run.replace("%", "%%")), "%j"))
    options: dict[str, str | None] = {
        "job-name": job_name(launch.job),
        "nodes": str(len(launch.hosts)),
        "ntasks-per-node": "1",
        "cpus-per-task": more.pop("cpus-per-task", str(each)),
        "gpus-per-node": more.pop("gpus-per-node", str(each) if kind == "cuda" else None),
        "partition": request.partition,
        "account": request.account,
        "qos": request.qos,
        "time": request.time,
        "exclusive": "" if request.exclusive else None,
        **more,
        "comment": launch.run,
        "chdir": launch.hosts[0].directory,
        "output": pattern,
        "open-mode": "append",
        "requeue": "",
        "signal": f"B:USR1@{request.warn}" if request.warn else None,
        "export": "NONE",
    }
    return [
        f"--{name}={_quoted(value)}" if value else f"--{name}" for name, value in options.items() if value is not None
    ]


def _quoted(value: str) -> str:
    """A value as sbatch reads it from a line of a script."""
    if UNSPOKEN.search(value) or "\\" in value:
        raise PlanError(
            f"{value!r} cannot be written into a batch script: it has control "
            f"characters, bytes that are no UTF-8 or a backslash."
        )
    return value if _BARE.fullmatch(value) else '"' + value.replace('"', '\\"') + '"'


def _check_value(option: str, value: str) -> None:
    if value.startswith("-") or not value.strip():
        raise PlanError(f"--{option} {value!r} is no value: it is empty, or reads like another option.")
    _quoted(value)


def _address(launch: LaunchPlan) -> str:
    """Where the nodes meet: what was asked for, or the address of the job's first node, which Slurm alone knows."""
    return shlex.quote(launch.address) if launch.address != launch.hosts[0].name else '"${address:-$first}"'


_TRAP = f"""\
# USR1 means: stop soon. The run is asked by a file, and answers by another.
asked= woken=
ask() {{
    asked=1 woken=1
    mkdir -p -- "$run/{control.FOLDER}"
    echo "Slurm sent USR1 to job $SLURM_JOB_ID" >"$run/{control.FOLDER}/{control.STOP}"
    echo "headway: USR1 at $(date); the job stops at the end of its step"
}}
trap ask USR1

# what an earlier start has left is not taken for this one's
rm -f -- "$run/{control.FOLDER}/{control.STOP}" "$run/{control.FOLDER}/{control.STOPPED}" "$run/summary.json"
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ] && [ -d "$run/log" ]; then
    mv -- "$run/log" "$run/log-before-restart-$SLURM_RESTART_COUNT"
fi
mkdir -p -- "$run/log"
[ -z "$asked" ] || ask"""

_ALONE = "unset PET_NNODES"  # one node's agent meets nobody

_MEETING = """\
# node names need not resolve; Slurm's addresses of nodes do
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || exit 1
first=${{nodes%%$'\\n'*}}
address=$(scontrol show node --oneliner "$first" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p')
export PET_NNODES={number} PET_MASTER_ADDR={address} PET_MASTER_PORT={port}"""

_END = f"""\
step=$!
while :; do
    woken=
    wait "$step"
    status=$?
    [ -n "$woken" ] || break  # not woken by the trap: the step has ended
done
again=
if [ "$status" -eq 0 ] && [ -n "$asked" ] && [ -e "$run/{control.FOLDER}/{control.STOPPED}" ]; then
    again="stopped with a checkpoint"
elif [ "$status" -ne 0 ] && [[ $(scontrol show job --oneliner "$SLURM_JOB_ID") =~ ' PreemptTime='([^ ]+) ]] &&
    [ "${{BASH_REMATCH[1]}}" != None ]; then
    again="pre-empted"  # and, at this site, the ranks were told to end, not this shell
fi
if [ -n "$again" ]; then
    echo "headway: $again; job $SLURM_JOB_ID goes back in line"
    # Slurm ends this script for it, and scontrol too, which then has done its work: neither is a failure of the job
    trap 'exit 0' TERM
    trap '' USR1
    scontrol requeue "$SLURM_JOB_ID" || [ $? -gt 128 ] || {{
        echo "headway: it cannot go back in line; launched again, it goes on from its checkpoint"
        exit 1
    }}
    for _ in {{1..60}}; do sleep 1; done
fi
exit "$status"
"""
