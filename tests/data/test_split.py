"""The split: whole documents are held out, and each side must have a sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.corpus import Corpus
from headway.data.split import split
from headway.errors import PlanError


def _corpus(*sizes):
    """Document i is `sizes[i] - 1` times the byte i + 1, and a 0."""
    texts = [bytes([i + 1]) * (size - 1) + b"\0" for i, size in enumerate(sizes)]
    return Corpus("made up", np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *sizes]))


def _tokens(stream):
    """The whole stream, in the type of the corpus."""
    return stream.read(np.arange(len(stream))).astype(stream.tokens.dtype)


def _documents(tokens):
    return [len(text) + 1 for text in tokens.tobytes().split(b"\0")[:-1]]


@given(st.lists(st.integers(2, 30), min_size=2, max_size=40), st.floats(0.01, 0.9), st.integers(0, 2**32))
def test_documents_are_whole_in_file_order_and_on_one_side_only(sizes, fraction, seed):
    corpus = _corpus(*sizes)
    both = split(corpus, validation=fraction, seed=seed, sequence_length=1)
    streams = [_tokens(both.train), _tokens(both.validation)]
    sides = [list(dict.fromkeys(side[side > 0].tolist())) for side in streams]
    assert all(side == sorted(side) and side for side in sides)
    assert sorted(sides[0] + sides[1]) == list(range(1, len(sizes) + 1))
    for tokens, side in zip(streams, sides, strict=True):
        assert _documents(tokens) == [sizes[i - 1] for i in side]


@given(st.lists(st.integers(2, 30), min_size=8, max_size=40), st.integers(0, 2**32))
def test_documents_are_held_out_until_the_fraction_is_reached_and_no_further(sizes, seed):
    corpus = _corpus(*sizes)
    held = split(corpus, validation=0.25, seed=seed, sequence_length=1).validation
    assert 0.25 * sum(sizes) <= len(held) < 0.25 * sum(sizes) + max(sizes) + 1


def test_the_seed_alone_decides_which_documents_are_held_out():
    corpus = _corpus(*[10] * 50)
    held = [_tokens(split(corpus, validation=0.1, seed=s, sequence_length=4).validation).tobytes() for s in (0, 0, 1)]
    assert held[0] == held[1] != held[2]


def test_one_document_is_cut_near_its_end():
    corpus = Corpus("book", np.arange(200, dtype=np.uint8), np.array([0, 200]))
    both = split(corpus, validation=0.1, seed=0, sequence_length=4)
    assert _tokens(both.train).tolist() == list(range(180))
    assert _tokens(both.validation).tolist() == list(range(180, 200))


def test_of_two_documents_one_is_always_left_to_train_on():
    both = split(_corpus(50, 50), validation=0.99, seed=0, sequence_length=4)
    assert (len(both.train), len(both.validation)) == (50, 50)


def test_no_fraction_holds_nothing_out():
    corpus = _corpus(20, 20)
    both = split(corpus, validation=0.0, seed=0, sequence_length=4)
    assert _tokens(both.train).tobytes() == corpus.tokens.tobytes()
    assert len(both.validation) == 0


def test_exactly_one_sample_on_each_side_is_enough():
    both = split(_corpus(5, 5), validation=0.5, seed=0, sequence_length=4)
    assert (len(both.train), len(both.validation)) == (5, 5)


def test_too_little_to_train_on_is_refused_with_the_numbers():
    with pytest.raises(PlanError, match=r"made up: 1 documents, 5 tokens leaves 5 tokens for training") as error:
        split(_corpus(5), validation=0.0, seed=0, sequence_length=5)
    assert "data.sequence_length 5 needs at least 6" in str(error.value)
    assert "Use a larger data.path" in str(error.value)


def test_too_little_to_validate_on_is_refused_with_a_fraction_that_works():
    corpus = _corpus(*[20] * 10)
    with pytest.raises(PlanError, match=r"leaves 20 tokens for validation \(data\.validation 0\.01\)") as error:
        split(corpus, validation=0.01, seed=0, sequence_length=40)
    assert "Use data.validation 0.21, data.validation 0 (no evaluation), or a larger data.path." in str(error.value)
    split(corpus, validation=0.21, seed=0, sequence_length=40)
    split(corpus, validation=0.0, seed=0, sequence_length=40)


def test_where_no_fraction_would_do_none_is_offered():
    with pytest.raises(PlanError, match=r"needs at least 51\. Use data\.validation 0 \(no evaluation\)"):
        split(_corpus(90), validation=0.1, seed=0, sequence_length=50)
