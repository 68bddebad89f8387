"""A TrainJob's manifest: a golden one, accepted by Kubeflow's own types, and what is refused."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import PlanError
from headway.launch.train_job import LONGEST_NAME, Claim, TrainJob, claims, dumps, manifest, train_job_name

GOLDEN = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: gpt-ac3d41
  namespace: team
  labels:
    headway.dev/plan: ac3d411757fd
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    image: registry/headway:1
    numNodes: 2
    numProcPerNode: 8
    command:
    - sh
    - -c
    - cd -- "$0" && exec "$@"
    - /work
    - python
    - -m
    - torch.distributed.run
    - -m
    - headway
    - train
    - job.yaml
    env:
    - name: OMP_NUM_THREADS
      value: '1'
    - name: HF_TOKEN
      valueFrom:
        secretKeyRef:
          name: hub
          key: token
    resourcesPerNode:
      limits:
        nvidia.com/gpu: '8'
  runtimePatches:
  - manager: headway.dev/launch
    trainingRuntimeSpec:
      template:
        spec:
          replicatedJobs:
          - name: node
            template:
              spec:
                template:
                  spec:
                    volumes:
                    - name: claim-0
                      persistentVolumeClaim:
                        claimName: shared
                        readOnly: false
                    - name: claim-1
                      persistentVolumeClaim:
                        claimName: corpora
                        readOnly: true
                    - name: shared-memory
                      emptyDir:
                        medium: Memory
                    containers:
                    - name: node
                      volumeMounts:
                      - name: claim-0
                        mountPath: /work
                        readOnly: false
                      - name: claim-1
                        mountPath: /data
                        readOnly: true
                      - name: shared-memory
                        mountPath: /dev/shm
"""
WORDS = ("python", "-m", "torch.distributed.run", "-m", "headway", "train", "job.yaml")


def job(**changed):
    usual = {
        "name": "gpt-ac3d41",
        "image": "registry/headway:1",
        "words": WORDS,
        "workdir": "/work",
        "nodes": 2,
        "ranks_per_node": 8,
        "kind": "cuda",
        "environment": (("OMP_NUM_THREADS", "1"), ("HF_TOKEN", "secret:hub/token")),
        "claims": claims(["shared:/work", "corpora:/data:ro"]),
        "namespace": "team",
        "labels": (("headway.dev/plan", "ac3d411757fd"),),
    }
    return TrainJob(**{**usual, **changed})


def read_by_kubeflow(document):
    """The document after Kubeflow's own types have read and written it; what they do not know is refused."""
    types = pytest.importorskip("kubeflow_trainer_api.models", reason="kubeflow-trainer-api is not installed")
    return types.TrainerV1alpha1TrainJob.from_dict(document).to_dict()


def test_the_golden_manifest():
    assert dumps(job()) == GOLDEN


@pytest.mark.parametrize("kind", ["cpu", "cuda", "npu"])
def test_the_published_schema_knows_every_field(kind):
    document = yaml.safe_load(dumps(job(kind=kind)))
    assert read_by_kubeflow(document) == document


def test_the_published_schema_sees_a_field_that_is_misspelt():
    document = manifest(job())
    document["spec"]["trainer"]["numNode"] = document["spec"]["trainer"].pop("numNodes")
    assert read_by_kubeflow(document) != document


def test_devices_are_asked_for_by_their_own_names():
    asked = {kind: manifest(job(kind=kind))["spec"]["trainer"]["resourcesPerNode"] for kind in ("cpu", "cuda", "npu")}
    assert asked == {
        "cpu": {"limits": {"cpu": "8"}},
        "cuda": {"limits": {"nvidia.com/gpu": "8"}},
        "npu": {"limits": {"huawei.com/Ascend910": "8"}},
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "-x"}, "is no name of a TrainJob"),
        ({"name": "Gpt"}, "is no name of a TrainJob"),
        ({"name": "7b"}, "is no name of a TrainJob. Kubernetes wants .* a letter first"),
        ({"claims": (Claim("a", "/x"), Claim("b", "/x/"))}, "two things would be mounted at /x"),
        ({"claims": (Claim("a", "/dev/shm"),)}, "two things would be mounted at /dev/shm .it is memory"),
        ({"environment": (("HF_TOKEN", "secret:Hub/key"),)}, "'Hub' is no name of a Secret"),
        ({"namespace": "a b"}, "is no name of a namespace"),
        ({"image": "-x"}, "is no name of an image"),
        ({"image": "a\nb"}, "is no name of an image"),
        ({"claims": ()}, "pods share nothing by themselves"),
        ({"workdir": "a\nb"}, "cannot be passed to hosts"),
        ({"environment": (("http_proxy", "http://me:hush@proxy"),)}, "http_proxy looks like a secret"),
        ({"environment": (("HF_TOKEN", "hush"),)}, "HF_TOKEN looks like a secret, and a manifest is no place for one"),
    ],
)
def test_what_kubernetes_would_refuse_or_should_not_know_is_refused_before(changed, said):
    with pytest.raises(PlanError, match=said) as refused:
        job(**changed)
    assert "hush" not in str(refused.value)


def test_names_that_kubernetes_takes_are_taken():
    assert claims(["my.claim-7:/work", "7:/b"]) == (Claim("my.claim-7", "/work"), Claim("7", "/b"))
    assert job(namespace="2nd-team").namespace == "2nd-team"
    variable = manifest(job(environment=(("HF_TOKEN", "secret:my.hub/key"),)))["spec"]["trainer"]["env"][0]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "my.hub", "key": "key"}


@pytest.mark.parametrize("text", ["shared", "shared:work", "a:/b:/c", "a:/b:rx", ":/b", "A:/b", "-a:/b", "a:/b:ro:rw"])
def test_a_mount_that_is_none_is_refused(text):
    with pytest.raises(PlanError, match=r"--mount|is no name|is not absolute"):
        claims([text])


def test_claims_are_read_with_their_places_and_rights():
    assert claims(["a:/b", "c:/d:ro"]) == (Claim("a", "/b"), Claim("c", "/d", read_only=True))


@given(st.text())
def test_any_job_has_a_name_that_kubernetes_takes(name):
    made = train_job_name(name, "ac3d411757fd")
    assert len(made) <= LONGEST_NAME
    assert job(name=made).name == made


@given(
    st.lists(st.text(st.characters(blacklist_categories=("Cc", "Cs")))),
    st.text(st.characters(blacklist_categories=("Cs",))),
)
def test_words_and_values_survive_yaml(words, value):
    found = yaml.safe_load(dumps(job(words=tuple(words), environment=(("A", value),))))["spec"]["trainer"]
    assert found["command"][4:] == words
    assert found["env"][0].get("value", value) == value
