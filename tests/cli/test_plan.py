"""headway plan: what it shows, the file it writes, the document it prints, and the status of a misfit."""

import dataclasses
import json
from pathlib import Path

import pytest

from headway.cli.main import main
from headway.cluster.presets import device
from headway.cluster.spec import Cluster, Device, Link
from headway.plan import read as reader
from headway.plan.plan import digest, read

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(set(FOLDER.glob("*.yaml")) - {FOLDER / "cluster.yaml", FOLDER / "fabric.yaml"})


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("model: gpt-tiny\ncluster: a100-80gb-hdr\n")
    return str(path)


def test_the_tables_say_who_holds_what_and_fit_100_columns(job, capsys):
    assert main(["plan", job]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    for said in ("embedding, layers 0, 1", "layers 2, 3, head", "{0,1}, {2,3}", "{0,2}, {1,3}", "1f1b, P=2 M=4 V=1"):
        assert said in out
    assert "Fits: rank 0 needs 1.54 GiB of 80.0 GiB (1.9%), " in out
    assert "balanced: Ett|ttL" in out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["parallel.split=E|t*4L"], ["by hand: E|t*4L", "Dearest: stage 1 (layers 0–3, head) with "]),
        (
            ["parallel.pipeline=3", "parallel.split=[2, 0, 2]"],
            ["by hand: Ett||ttL", "(passes on)                       0       0 s        0 s        0 B              –"],
        ),
        (
            ["parallel.pipeline=1", "parallel.schedule=interleaved", "parallel.chunks=2"],
            ["Stages 0 and 1 share one weight (tokens); their rank holds it once, each row counts it"],
        ),
        (["parallel.pipeline=8"], ["balanced: E|||(t|)*4L", "4 × 8.00 KiB"]),
        (["parallel.schedule=interleaved", "parallel.chunks=4"], ["interleaved, P=2 M=4 V=4", "balanced: E|||(t|)*4L"]),
        (["model=gpt-175b", "parallel.pipeline=32", "data.sequence_length=2048"], ["layers 3–5", "2–4 ×"]),
    ],
)
def test_stages_are_shown_with_their_split_times_and_memory_in_100_columns(job, capsys, changes, said):
    main(["plan", job, *(word for change in changes for word in ("--set", change))])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    for column in ("stage", "ranks", "blocks", "parameters", "forward", "backward", "states", "activations"):
        assert column in out
    for text in said:
        assert text in out, out


def test_tensor_groups_that_do_not_fit_into_a_node_are_named(job, capsys):
    large = ["--set", "cluster=a100-80gb-hdr", "--set", "model=gpt-1.3b", "--set", "data.tokenizer=none"]
    main(["plan", job, *large, "--set", "parallel.tensor=16"])
    assert "Tensor groups of 16 do not fit into nodes of 8 devices: " in capsys.readouterr().out
    main(["plan", job, *large, "--set", "parallel.tensor=8"])
    assert "Tensor groups" not in capsys.readouterr().out


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_fits(path, capsys):
    assert main(["plan", str(path)]) == 0
    assert "Fits:" in capsys.readouterr().out


def test_shared_keys_and_values_are_shown(job, capsys):
    assert main(["plan", job, "--set", "model=llama-3-8b", "--set", "data.tokenizer=none"]) == 0
    assert "llama: 32 layers, hidden 4096, heads 32 (8 key-value), vocabulary 128256" in capsys.readouterr().out


def test_the_json_document_agrees_with_the_plan_that_was_written(job, tmp_path, capsys):
    target = tmp_path / "plan.json"
    assert main(["plan", job, "--json", "--output", str(target)]) == 0
    found = json.loads(capsys.readouterr().out)
    plan = read(target)
    assert found["digest"] == digest(plan)
    assert found["layout"] == {"tensor": 1, "context": 1, "data": 2, "pipeline": 2, "world": 4}
    assert found["groups"]["data"] == [[0, 1], [2, 3]]
    assert [stage["blocks"] for stage in found["stages"]] == [list(stage) for stage in plan.stages]
    assert found["split"] == {"name": "balanced", "layout": "Ett|ttL"}
    worst = max(found["stages"], key=lambda each: each["forward_seconds"] + each["backward_seconds"])
    assert found["dearest"]["stage"] == worst["stage"]
    for stage in found["stages"]:
        assert stage["backward_seconds"] > stage["forward_seconds"] > 0
        held = found["memory"][str(stage["ranks"][0])]
        assert stage["states"] == held["parameters"] + held["gradients"] + held["optimizer"]
        assert stage["activations"]["peak"] == held["activations"]
        assert stage["activations"]["microbatch"] * stage["activations"]["in_flight"] == held["activations"]
    assert found["parameters"] == sum(unit.numel for unit in plan.units)
    assert found["schedule"] | {"bubble": 0} == {
        "name": "1f1b", "pipeline": 2, "microbatches": 4, "chunks": 1, "bubble": 0,
    }  # fmt: skip
    assert set(found["memory"]) == {"0", "1", "2", "3"}
    for peaks in found["memory"].values():
        assert peaks.pop("total") == sum(peaks.values())
    assert found["fits"] is found["peak"]["fits"] is True
    peak = found["peak"]
    assert peak["bytes"] == sum(peak["made_of"].values()) == peak["by_rank"][str(peak["ranks"][0])]
    assert peak["room"] == found["device_memory"] == peak["bytes"] + peak["margin"]


def test_a_plan_read_back_is_the_same_plan(job, tmp_path, capsys):
    target = tmp_path / "plan.json"
    assert main(["plan", job, "--json", "--output", str(target)]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["plan", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_a_plan_that_does_not_fit_is_shown_and_exits_1(job, capsys):
    changes = ["model=gpt-22b", "data.sequence_length=2048", "train.global_batch=8", "train.microbatch=2"]
    assert main(["plan", job, *(word for change in changes for word in ("--set", change))]) == 1
    printed = capsys.readouterr()
    assert "Does not fit: rank 0 needs" in printed.out
    assert printed.err.startswith("Error: the plan does not fit: rank 0 needs")
    assert "What would help: " in printed.err


def test_many_data_replicas_are_shown_as_one_row(job, capsys):
    changes = ["parallel.data=64", "train.global_batch=256"]
    assert main(["plan", job, *(word for change in changes for word in ("--set", change))]) == 0
    out = capsys.readouterr().out
    assert "0–63" in out
    assert "(64 groups)" in out


def test_a_file_that_cannot_be_written_is_the_users_mistake(job, tmp_path, capsys):
    assert main(["plan", job, "--output", str(tmp_path / "none" / "plan.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_the_example_of_a_cluster_file_is_a_cluster(tmp_path, capsys):
    (tmp_path / "job.yaml").write_text(f"cluster: {FOLDER / 'cluster.yaml'}\ntrain: {{precision: bfloat16}}\n")
    assert main(["plan", str(tmp_path / "job.yaml")]) == 0
    assert "two-boxes: 2 × 8 A100-40GB, 40.0 GiB each" in capsys.readouterr().out


def test_the_example_of_a_cluster_file_shows_every_key_with_the_numbers_of_the_known_device():
    example = reader.mapping(FOLDER / "cluster.yaml", "cluster file")
    own, known = reader.decode(Cluster, example, "cluster").device, device("A100-40GB")
    fields = {field.name for field in dataclasses.fields(Device)} - {"sources"}
    assert example["device"].keys() == fields
    assert example["inside"].keys() == example["between"].keys() == {field.name for field in dataclasses.fields(Link)}
    assert own.peak.items() <= known.peak.items()
    assert own.matmul.items() <= known.matmul.items()
    for name in fields - {"peak", "matmul"}:
        assert getattr(own, name) == getattr(known, name), name
