"""Going on from a checkpoint: what a job may change since then, what it may not, and how it is told."""

import pytest

from headway.errors import PlanError
from headway.plan.resume import check, done, none_whole

JOB = {
    "model": {"preset": "gpt-tiny", "layers": 4},
    "parallel": {"pipeline": 2, "data": 2},
    "data": {"sequence_length": 128},
    "train": {"global_batch": 32, "microbatch": 4},
}


def _changed(plan_of, section, **fields):
    return plan_of(**{**JOB, section: {**JOB.get(section, {}), **fields}})


@pytest.mark.parametrize(
    ("section", "fields"),
    [
        ("parallel", {"pipeline": 4, "data": 1}),
        ("parallel", {"tensor": 4, "pipeline": 1, "data": 1}),
        ("parallel", {"pipeline": 2, "data": 1, "schedule": "interleaved", "chunks": 2}),
        ("parallel", {"split": [3, 1]}),
        ("parallel", {"unit_bytes": 0}),
        ("train", {"microbatch": 1}),
        ("checkpoint", {"every": 5, "directory": "elsewhere"}),
        ("run", {"directory": "elsewhere"}),
    ],
)
def test_another_layout_goes_on_without_a_word(plan_of, section, fields):
    assert check(plan_of(**JOB), _changed(plan_of, section, **fields), "x") == []


@pytest.mark.parametrize(
    ("section", "fields", "said"),
    [
        (
            "model",
            {"layers": 3},
            "x was written with model.layers 4, but the job has 3. To go on from it use model.layers 4",
        ),
        ("model", {"vocabulary": 512}, "written with model.vocabulary 256, but the job has 512."),
        ("model", {"tied": False}, "written with model.tied True, but the job has False."),
        (
            "train",
            {"global_batch": 64},
            "written with train.global_batch 32, but the job has 64. To go on from it use train.",
        ),
        ("train", {"seed": 1}, "written with train.seed 0, but the job has 1."),
        ("data", {"sequence_length": 64}, "written with data.sequence_length 128, but the job has 64."),
        ("data", {"validation": 0.5}, "written with data.validation 0.01, but the job has 0.5."),
    ],
)
def test_what_would_not_be_the_same_training_is_refused_with_the_numbers_and_a_remedy(plan_of, section, fields, said):
    with pytest.raises(PlanError) as refused:
        check(plan_of(**JOB), _changed(plan_of, section, **fields), "x")
    assert said in str(refused.value)
    assert "to train anew, another checkpoint.directory or run.directory." in str(refused.value)


def test_a_batch_that_the_new_data_axis_keeps_is_no_other_batch(plan_of):
    assert check(plan_of(**JOB), _changed(plan_of, "parallel", pipeline=1, data=8), "x") == []


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_master_weights_in_float32_go_on_in_any_precision_that_keeps_them(plan_of, precision):
    saved = _changed(plan_of, "train", precision="bfloat16")
    told = check(saved, _changed(plan_of, "train", precision=precision), "x")
    assert told == ([] if precision == "bfloat16" else [f"train.precision: bfloat16 → {precision}"])


def test_weights_are_never_rounded_to_a_narrower_type_but_may_go_on_in_a_wider(plan_of):
    wide = _changed(plan_of, "train", precision="float64", reduce_dtype="float64")
    with pytest.raises(PlanError, match=r"float64, which train\.precision float32 would round to float32\. To go on"):
        check(wide, plan_of(**JOB), "x")
    assert len(check(plan_of(**JOB), wide, "x")) == 2  # precision and reduce_dtype


def test_other_changes_are_told_one_by_one(plan_of):
    train = {**JOB["train"], "steps": 300, "label_smoothing": 0.1}
    job = {**JOB, "optimizer": {"lr": 1e-3, "betas": [0.9, 0.99]}, "train": train}
    told = check(plan_of(**JOB), plan_of(**job), "x")
    assert told == [
        "optimizer.lr: 0.0003 → 0.001",
        "optimizer.betas: [0.9, 0.95] → [0.9, 0.99]",
        "train.steps: 200 → 300",
        "train.label_smoothing: 0.0 → 0.1",
    ]


def test_a_job_that_has_done_all_its_steps_is_told_what_to_do():
    assert done("x/step-00000200", 200).startswith(
        "x/step-00000200 has done all 200 steps (train.steps): nothing is left"
    )


def test_where_none_is_whole_each_is_told_with_what_is_wrong():
    assert none_whole({"step-00000008": "its .metadata is missing", "step-00000004": "it has no plan"}).endswith(
        "to train from the first step.\n  step-00000008: its .metadata is missing\n  step-00000004: it has no plan"
    )
