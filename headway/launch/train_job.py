"""TrainJob: a job for Kubeflow Trainer v2 on Kubernetes, and its manifest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from headway.errors import PlanError
from headway.launch.environment import Variables, is_secret
from headway.launch.interfaces import Kind
from headway.launch.launch_plan import check_path

API_VERSION = "trainer.kubeflow.org/v1alpha1"
MANAGER = "headway.dev/launch"  # who owns the patch of the runtime
NODE = "node"  # what torch-distributed calls its replicated job and its container
LONGEST_NAME = 40  # Kubernetes' 63, less what JobSet adds for a pod: -node-0-0-xxxxx
RESOURCES = {"cuda": "nvidia.com/gpu", "npu": "huawei.com/Ascend910"}
SHARED_MEMORY = "/dev/shm"
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # RFC 1123
# what Kubernetes takes for the name of each kind of thing
_NAMES = {
    "TrainJob": (rf"(?=[a-z]){_LABEL}", "at most 63 small letters, digits and hyphens, a letter first"),
    "namespace": (_LABEL, "at most 63 small letters, digits and hyphens, no hyphen first or last"),
    "claim": (rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*", "small letters, digits, hyphens and dots"),
    "Secret": (rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*", "small letters, digits, hyphens and dots"),
}
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,253}")
_SECRET_OF = re.compile(r"secret:([^/]+)/(.+)")


@dataclass(frozen=True, slots=True)
class Claim:
    """A persistent volume claim that every pod mounts at `path`."""

    name: str
    path: str
    read_only: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "claim")
        check_path(self.path)
        if not self.path.startswith("/"):
            raise PlanError(f"the mount path {self.path} is not absolute. Write the whole path, from / on.")


@dataclass(frozen=True, slots=True)
class TrainJob:
    """A job of `nodes` pods, each with `ranks_per_node` workers that torchrun starts.

    The runtime (torch-distributed) tells torchrun its place by PET_ variables. `words` is the command in `workdir`.
    """

    name: str
    image: str
    words: tuple[str, ...]
    workdir: str
    nodes: int
    ranks_per_node: int
    kind: Kind
    environment: Variables = ()
    claims: tuple[Claim, ...] = ()
    namespace: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    runtime: str = "torch-distributed"

    def __post_init__(self) -> None:
        check_name(self.name, "TrainJob")
        if self.namespace is not None:
            check_name(self.namespace, "namespace")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*", self.image):
            raise PlanError(f"{self.image!r} is no name of an image. Write it like name:tag or registry/name:tag.")
        if not self.claims:
            raise PlanError(
                "pods share nothing by themselves, and all must see the job, its data and the run's directory. Mount "
                "a claim: --mount CLAIM:/work --workdir /work."
            )
        places = [claim.path.rstrip("/") for claim in self.claims]
        twice = next((place for place in (*places, SHARED_MEMORY) if [*places, SHARED_MEMORY].count(place) > 1), None)
        if twice is not None:
            used = " (it is memory, for NCCL and data workers)" if twice == SHARED_MEMORY else ""
            raise PlanError(f"two things would be mounted at {twice}{used}. Give each --mount a place of its own.")
        check_path(self.workdir)
        for name, value in self.environment:
            if is_secret(name, value) and not _SECRET_OF.fullmatch(value):
                raise PlanError(
                    f"{name} looks like a secret, and a manifest is no place for one. Keep it in a Secret, and name "
                    f"that: --env {name}=secret:NAME/KEY."
                )
            _variable(name, value)


def train_job_name(job: str, digest: str) -> str:
    """A name that Kubernetes takes, from a job's and its plan's digest.

    >>> train_job_name("GPT_175b (long)", "ac3d411757fd")
    'gpt-175b-long-ac3d41'
    """
    plain = re.sub(r"[^a-z0-9]+", "-", job.lower()).strip("-")
    begun = plain if plain[:1].isalpha() else f"job-{plain}"
    return f"{begun[: LONGEST_NAME - 7].strip('-')}-{digest[:6]}"


def claims(mounts: Sequence[str]) -> tuple[Claim, ...]:
    """Claims from `CLAIM:PATH` or `CLAIM:PATH:ro`."""
    found = []
    for text in mounts:
        name, *rest = text.split(":")
        if not rest or len(rest) > 2 or rest[1:] not in ([], ["ro"], ["rw"]):
            raise PlanError(f"--mount {text}: write it as CLAIM:PATH or CLAIM:PATH:ro, like shared:/work.")
        found.append(Claim(name, rest[0], rest[1:] == ["ro"]))
    return tuple(found)


def manifest(job: TrainJob) -> dict[str, Any]:
    """The TrainJob as Kubernetes reads it."""
    metadata: dict[str, Any] = {"name": job.name}
    if job.namespace is not None:
        metadata["namespace"] = job.namespace
    if job.labels:
        metadata["labels"] = dict(job.labels)
    limits = {RESOURCES[job.kind]: str(job.ranks_per_node)} if job.kind != "cpu" else {"cpu": str(job.ranks_per_node)}
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {
            "runtimeRef": {"name": job.runtime},
            "trainer": {
                "image": job.image,
                "numNodes": job.nodes,
                "numProcPerNode": job.ranks_per_node,
                # a pod starts where its image says
                "command": ["sh", "-c", 'cd -- "$0" && exec "$@"', job.workdir, *job.words],
                "env": [_variable(name, value) for name, value in job.environment],
                "resourcesPerNode": {"limits": limits},
            },
            "runtimePatches": [{"manager": MANAGER, "trainingRuntimeSpec": _patch(_pod(job))}],
        },
    }


def dumps(job: TrainJob) -> str:
    """The manifest as YAML."""
    return yaml.safe_dump(manifest(job), sort_keys=False, width=1000)


def check_name(name: str, what: Literal["TrainJob", "namespace", "claim", "Secret"]) -> None:
    """Raise PlanError for what Kubernetes does not take for a name; no program takes the rest for an option."""
    pattern, wanted = _NAMES[what]
    if not re.fullmatch(pattern, name):
        raise PlanError(f"{name!r} is no name of a {what}. Kubernetes wants {wanted}.")


def _pod(job: TrainJob) -> dict[str, Any]:
    """The part of the pods that the trainer's own fields do not reach: volumes."""
    volumes: list[dict[str, Any]] = [
        {"name": f"claim-{i}", "persistentVolumeClaim": {"claimName": claim.name, "readOnly": claim.read_only}}
        for i, claim in enumerate(job.claims)
    ]
    mounts: list[dict[str, Any]] = [
        {"name": f"claim-{i}", "mountPath": claim.path, "readOnly": claim.read_only}
        for i, claim in enumerate(job.claims)
    ]
    # a pod has 64 MiB there by itself, too little for NCCL and for data workers
    volumes.append({"name": "shared-memory", "emptyDir": {"medium": "Memory"}})
    mounts.append({"name": "shared-memory", "mountPath": SHARED_MEMORY})
    return {"volumes": volumes, "containers": [{"name": NODE, "volumeMounts": mounts}]}


def _patch(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod's part where a runtime keeps it: JobSet, replicated job, Job, pod."""
    template = {"spec": {"template": {"spec": pod}}}
    return {"template": {"spec": {"replicatedJobs": [{"name": NODE, "template": template}]}}}


def _variable(name: str, value: str) -> dict[str, Any]:
    match = _SECRET_OF.fullmatch(value)
    if not match:
        return {"name": name, "value": value}
    check_name(match[1], "Secret")
    if not _KEY.fullmatch(match[2]):
        raise PlanError(f"--env {name}: '{match[2]}' is no key of a Secret. Keys have letters, digits, - _ and dots.")
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": match[1], "key": match[2]}}}
