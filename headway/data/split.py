"""Split: which documents are trained on and which are held out for validation."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.data.corpus import Corpus
from headway.data.shuffle import SPLIT, permutation
from headway.errors import PlanError


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The two token streams, uint8, their documents in the order of the corpus; `validation` may be empty."""

    train: NDArray[np.uint8]
    validation: NDArray[np.uint8]


def split(corpus: Corpus, *, validation: float, seed: int, sequence_length: int) -> Split:
    """Hold out documents, in an order that `seed` gives, until they make up the fraction `validation` of the tokens.

    A corpus of one document is cut near its end instead. Raises PlanError unless each side has a sample: at least
    sequence_length + 1 tokens (validation only where something is to be held out).
    """
    both = _cut(corpus, validation, seed) if validation else Split(corpus.tokens, corpus.tokens[:0])
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
    tokens, wanted = corpus.tokens, math.ceil(validation * len(corpus.tokens))
    if corpus.num_documents == 1:
        return Split(tokens[:-wanted], tokens[-wanted:])
    sizes = np.diff(corpus.documents)
    order = permutation(corpus.num_documents, seed, SPLIT)
    count = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1
    held = np.zeros(corpus.num_documents, bool)
    held[order[: min(count, corpus.num_documents - 1)]] = True
    mask = np.repeat(held, sizes)
    return Split(tokens[~mask], tokens[mask])


def _remedy(corpus: Corpus, needed: int) -> str:
    """The least fraction, in hundredths, that holds out enough; where there is none, not to hold anything out."""
    hundredths = math.ceil(100 * needed / len(corpus.tokens))
    some = f"data.validation {hundredths / 100:g}, " if len(corpus.tokens) * (100 - hundredths) >= 100 * needed else ""
    return f"Use {some}data.validation 0 (no evaluation), or a larger data.path."
