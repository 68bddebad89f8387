"""Split: which documents are trained on and which are held out for validation."""

import math
from dataclasses import dataclass

import numpy as np

from headway.data.corpus import Corpus
from headway.data.shuffle import SPLIT, permutation
from headway.data.stream import Stream, of_documents, stream
from headway.errors import PlanError


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The two streams of the corpus's tokens, their documents in its order; `validation` may be empty."""

    train: Stream
    validation: Stream


def split(corpus: Corpus, *, validation: float, seed: int, sequence_length: int) -> Split:
    """Hold out documents, in an order that `seed` gives, until they make up the fraction `validation` of the tokens.

    A corpus of one document is cut near its end instead. Raises PlanError unless each side has a sample: at least
    sequence_length + 1 tokens (validation only where something is to be held out).
    """
    both = _cut(corpus, validation, seed)
    needed = sequence_length + 1
    if len(both.train) < needed:
        raise PlanError(
            f"{corpus} leaves {len(both.train)} tokens for training (data.validation {validation:g}), but "
            f"data.sequence_length {sequence_length} needs at least {needed}. "
            f"Use a larger data.path, or a smaller data.sequence_length or data.validation."
        )
    if validation and len(both.validation) < needed:
        raise PlanError(
            f"{corpus} leaves {len(both.validation)} tokens for validation (data.validation {validation:g}), but "
            f"data.sequence_length {sequence_length} needs at least {needed}. {_remedy(corpus, needed)}"
        )
    return both


def _cut(corpus: Corpus, validation: float, seed: int) -> Split:
    tokens, total = corpus.tokens, len(corpus.tokens)
    wanted = math.ceil(validation * total)
    if corpus.num_documents == 1 or not wanted:
        return Split(stream(tokens, (0, total - wanted)), stream(tokens, (total - wanted, total)))
    sizes = np.diff(corpus.documents)
    order = permutation(corpus.num_documents, seed, SPLIT)
    count = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1
    held = np.zeros(corpus.num_documents, bool)
    held[order[: min(count, corpus.num_documents - 1)]] = True
    return Split(of_documents(tokens, corpus.documents, ~held), of_documents(tokens, corpus.documents, held))


def _remedy(corpus: Corpus, needed: int) -> str:
    """The least fraction, in hundredths, that holds out enough; where there is none, not to hold anything out."""
    hundredths = math.ceil(100 * needed / len(corpus.tokens))
    some = f"data.validation {hundredths / 100:g}, " if len(corpus.tokens) * (100 - hundredths) >= 100 * needed else ""
    return f"Use {some}data.validation 0 (no evaluation), or a larger data.path."
