"""What keeps a job from starting is known before: what is only predicted, and data that does not fit the model."""

import pytest

from headway.errors import PlanError
from headway.plan.memory import checkpoint_bytes
from headway.plan.ready import read_data, refuse_what_is_only_predicted


def test_a_plan_that_can_be_trained_is_not_refused(plan_of):
    refuse_what_is_only_predicted(plan_of())


def test_what_is_only_predicted_is_refused_with_what_would_work(plan_of):
    with pytest.raises(PlanError, match=r"parallel.recompute full is predicted .* Train with parallel.recompute none"):
        refuse_what_is_only_predicted(plan_of(parallel={"recompute": "full"}))


def test_data_is_read_with_its_tokenizer(tmp_path, plan_of):
    (tmp_path / "text").write_text("to be or not to be " * 200)
    data = {"path": str(tmp_path / "text"), "sequence_length": 32, "validation": 0.1}
    assert "1 documents, 3801 tokens" in str(read_data(plan_of(data=data)))
    with pytest.raises(PlanError, match=r"data.tokenizer is mine.json, but .* is text"):
        read_data(plan_of(data={**data, "tokenizer": "mine.json"}))
    with pytest.raises(PlanError, match="there is no file or folder"):
        read_data(plan_of(data={**data, "path": str(tmp_path / "missing")}))


def test_a_checkpoint_takes_three_states_in_float32_and_something_for_each_part(plan_of):
    plan = plan_of(train={"precision": "bfloat16", "reduce_dtype": "bfloat16"})
    states = 12 * plan.num_parameters
    assert states < checkpoint_bytes(plan) < 1.5 * states
