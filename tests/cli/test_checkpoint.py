"""headway checkpoint: what it shows of checkpoints, whole and damaged, and its exit statuses."""

import json

import pytest

from headway import checkpoints
from headway.checkpoints import Manifest
from headway.cli.main import main
from headway.plan import plan as plans


@pytest.fixture
def run(tmp_path, plan_of):
    """A run with the checkpoints of steps 4 and 8, in which one file stands for the ranks'."""
    plan = plan_of(train={"steps": 20, "seed": 7}, parallel={"tensor": 2, "pipeline": 1, "data": 2})
    for step in (4, 8):
        at = checkpoints.partial(tmp_path / "checkpoints", step)
        at.mkdir(parents=True)
        files = {"__0_0.distcp": checkpoints.write(at / "__0_0.distcp", "x" * 5000)}
        files["plan.json"] = checkpoints.write(at / "plan.json", plans.dumps(plan))
        scale = {"value": 1024.0, "dynamic": True, "window": 1000, "streak": 3, "patience": 2}
        made = Manifest(
            step=step,
            updates=step - 1,
            seed=7,
            samples=900,
            next_sample=32 * step,
            learning_rate=2.5e-4,
            loss_scale=scale,
            layout=str(plan.layout),
            plan=plans.digest(plan),
            written="2026-11-29T12:00:00+00:00",
            files=files,
        )
        checkpoints.commit(tmp_path / "checkpoints", made)
    return tmp_path


def _call(capsys, *words):
    status = main(["checkpoint", *map(str, words)])
    return (status, *capsys.readouterr())


def test_a_run_shows_its_checkpoints_newest_first(run, capsys):
    status, out, _ = _call(capsys, "inspect", run)
    assert status == 0
    rows = [line.split() for line in out.splitlines() if "tensor=2" in line]
    assert [row[0] for row in rows] == ["8", "4"]
    assert all("2026-11-29T12:00:00+00:00" in row and "data=2" in row for row in rows)


def test_a_single_one_shows_what_it_holds(run, capsys):
    status, out, _ = _call(capsys, "inspect", run / "checkpoints" / "step-00000008")
    assert status == 0
    assert "8 of 20 steps, 7 updates of the weights" in out
    assert "256 of the order of seed 7, 900 an epoch" in out
    assert "0.00025 at the last step, loss scale 1024" in out
    assert "with two moments each, in float32" in out
    assert "__0_0.distcp   4.88 KiB" in out


def test_json_is_one_document_with_everything(run, capsys):
    status, out, err = _call(capsys, "inspect", run, "--json")
    assert (status, err) == (0, "")
    new, old = json.loads(out)["checkpoints"]
    assert (new["step"], old["step"], new["damage"]) == (8, 4, None)
    assert new["files"]["__0_0.distcp"]["bytes"] == 5000
    assert new["bytes"] == sum(file["bytes"] for file in new["files"].values())


def test_whole_ones_are_verified(run, capsys):
    status, out, _ = _call(capsys, "verify", run)
    assert status == 0
    assert out.count(": as it was written") == 2


def test_a_flipped_byte_is_found_by_reading_every_byte_only(run, capsys):
    shard = run / "checkpoints" / "step-00000008" / "__0_0.distcp"
    shard.write_text("y" + "x" * 4999)
    assert _call(capsys, "inspect", run)[0] == 0
    status, out, _ = _call(capsys, "verify", run)
    assert status == 1
    assert "step-00000008: its __0_0.distcp is not as it was written (its checksum differs)" in out
    status, out, _ = _call(capsys, "verify", run, "--json")
    assert status == 1
    assert [bool(each["damage"]) for each in json.loads(out)["checkpoints"]] == [True, False]


def test_a_plan_that_is_not_as_it_was_written_is_damage_and_no_wrong_input(run, capsys):
    plan = run / "checkpoints" / "step-00000008" / "plan.json"
    plan.write_text(plan.read_text().replace("{", "[", 1))
    status, out, err = _call(capsys, "inspect", plan.parent)
    assert (status, err) == (1, "")
    assert "cannot be gone on from: its plan.json is not as it was written" in out


def test_a_missing_file_is_seen_at_once(run, capsys):
    (run / "checkpoints" / "step-00000004" / "__0_0.distcp").unlink()
    status, out, _ = _call(capsys, "inspect", run)
    assert status == 1
    assert "cannot be gone on from: its __0_0.distcp is missing" in out


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_where_there_is_none_it_says_so(tmp_path, capsys, verb):
    status, out, err = _call(capsys, verb, tmp_path)
    assert (status, out) == (2, "")
    assert f"{tmp_path} holds no checkpoint. Name a step-" in err


def test_an_unknown_verb_is_refused_with_the_nearest(capsys):
    status, _, err = _call(capsys, "verfy")
    assert status == 2
    assert "no verb of checkpoint is called 'verfy'. Did you mean 'verify'?" in err
