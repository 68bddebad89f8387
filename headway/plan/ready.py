"""Ready: what is known to keep a job from starting before any process is started."""

from pathlib import Path

from headway.data import corpus, split, tokenizer
from headway.data.corpus import Corpus
from headway.errors import PlanError
from headway.plan.plan import Plan


def refuse_what_is_only_predicted(plan: Plan) -> None:
    """Raise PlanError for what can be planned and simulated, but not trained yet."""
    if (mode := plan.recompute.mode) != "none":
        raise PlanError(
            f"parallel.recompute {mode} is predicted (headway plan, headway simulate), but not trained yet. "
            f"Train with parallel.recompute none."
        )


def read_data(plan: Plan) -> Corpus:
    """The data of a job, read, and fit for its model: tokenizer, vocabulary, a sample on each side of the split.

    Raises PlanError where it is not.
    """
    found = corpus.load(plan.data.path, Path())
    tokenizer.check(found, plan.data.tokenizer, vocabulary=plan.model.vocabulary, folder_base=Path())
    length, share = plan.data.sequence_length, plan.data.validation
    split.split(found, validation=share, seed=plan.train.seed, sequence_length=length)
    return found
