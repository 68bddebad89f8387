"""Token files as corpora: named, split, read and checked like texts, and never copied."""

import itertools
import tracemalloc

import numpy as np
import pytest

from headway.data import tokenizer
from headway.data.corpus import Corpus, load
from headway.data.indexed import write
from headway.data.samples import Samples, Slice
from headway.data.split import split
from headway.errors import PlanError


def _pair(folder, documents, dtype="uint16", name="x"):
    write(folder / name, [np.array(document, np.int64) for document in documents], np.dtype(dtype))
    return name


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "int64"])
@pytest.mark.parametrize("end", ["", ".idx", ".bin"])
def test_a_prefix_or_either_file_is_a_corpus_in_its_own_type(tmp_path, dtype, end):
    name = _pair(tmp_path, [[1, 2], [], [3, 4, 5], []], dtype, "text.v2_document")
    corpus = load(name + end, tmp_path)
    assert corpus.tokens.tolist() == [1, 2, 3, 4, 5]
    assert (corpus.tokens.dtype, corpus.tokens.flags.owndata) == (dtype, False)
    assert (corpus.documents.tolist(), corpus.prepared) == ([0, 2, 5], True)
    assert str(corpus) == f"{tmp_path / name}: 2 documents, 5 tokens"


def test_a_folder_and_a_prefix_of_the_same_name_are_not_mistaken_for_each_other(tmp_path):
    _pair(tmp_path, [[1, 2]])
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a").write_text("text")
    with pytest.raises(PlanError, match=r"data\.path: x is a folder and a token file\. Name x/ or x\.idx\."):
        load("x", tmp_path)
    assert load("x/", tmp_path).tokens.tobytes() == b"text\0"
    assert load("x.idx", tmp_path).tokens.tolist() == [1, 2]


def test_a_token_file_trains_on_the_same_samples_as_its_text(tmp_path):
    sizes = np.random.default_rng(0).integers(2, 60, 40)
    texts = [bytes([i % 250 + 1]) * (size - 1) + b"\0" for i, size in enumerate(sizes)]
    plain = Corpus("plain", np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *sizes]))
    _pair(tmp_path, [list(content) for content in texts], "int32")
    both = [split(c, validation=0.2, seed=3, sequence_length=8) for c in (plain, load("x", tmp_path))]
    part = Slice(0, 1, 4, 2)
    for step in range(20):
        one, other = (Samples(side.train, 8, 3).train_batch(step, part) for side in both)
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.targets.tolist() == other.targets.tolist()
    one, other = (Samples(side.validation, 8, 3).validation_batch(0, part) for side in both)
    assert one.targets.tolist() == other.targets.tolist()


def test_beyond_2_to_the_31_tokens_batches_are_right_and_the_heap_stays_small(tmp_path):
    """A sparse file of 8 GiB in which each sequence begins with its number; one document is held out."""
    size, documents = 2**20, 2**11 + 1
    _pair(tmp_path, [[0]] * documents, "int32")
    index = bytearray((tmp_path / "x.idx").read_bytes())
    lengths, pointers = 34, 34 + 4 * documents
    index[lengths:pointers] = np.full(documents, size, "<i4").tobytes()
    index[pointers : pointers + 8 * documents] = (np.arange(documents, dtype="<i8") * (4 * size)).tobytes()
    (tmp_path / "x.idx").write_bytes(index)
    with (tmp_path / "x.bin").open("wb") as file:
        for i in range(documents):
            file.seek(4 * size * i)
            file.write(np.array([i], "<i4").tobytes())
        file.truncate(4 * size * documents)
    tracemalloc.start()
    corpus = load("x", tmp_path)
    both = split(corpus, validation=1e-6, seed=0, sequence_length=size // 2)
    samples = Samples(both.train, size // 2, 0)
    part = Slice(0, 1, 1, 1)
    read = [samples.train_batch(step, part).tokens[0, 0, :8].tolist() for step in range(8)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(corpus.tokens), len(both.train), len(both.validation)) == (2**31 + size, 2**31, size)
    assert peak < 32 * size < corpus.tokens.nbytes // 250
    held = int(both.validation.ranges[0, 0]) // size
    for step, tokens in enumerate(read):
        document, half = divmod(int(samples.sample_ids(step, 1)[0]), 2)
        assert tokens[0] == (0 if half else document + (document >= held))
        assert not any(tokens[1:])


def _check(folder, documents, *, by="bytes", vocabulary=1000, dtype="int32"):
    tokenizer.check(load(_pair(folder, documents, dtype), folder), by, vocabulary=vocabulary, folder_base=folder)


def test_a_token_that_the_model_has_no_row_for_is_refused_with_both_numbers(tmp_path):
    with pytest.raises(PlanError, match=r"holds the token 300, but model\.vocabulary 300 ends at 299") as error:
        _check(tmp_path, [[1, 2], [300]], by="none", vocabulary=300)
    assert "Use model.vocabulary 301 or more" in str(error.value)


def test_the_largest_token_that_fits_is_accepted(tmp_path):
    _check(tmp_path, [[1, 2], [299]], by="none", vocabulary=300)


def test_a_negative_token_is_refused(tmp_path):
    with pytest.raises(PlanError, match=r"holds the token -1, but tokens count from 0"):
        _check(tmp_path, [[1, -1]])


def test_tokens_that_are_no_bytes_need_their_tokenizer(tmp_path):
    with pytest.raises(PlanError, match=r"the token 256, but data\.tokenizer bytes ends at 255\.") as error:
        _check(tmp_path, [[1, 256]])
    assert "Name the tokenizer file that made it, or data.tokenizer none" in str(error.value)


@pytest.mark.parametrize("by", ["none", "tokenizer.json"])
def test_a_text_with_another_tokenizer_than_bytes_is_refused_with_what_prepares_it(tmp_path, by):
    (tmp_path / "a").write_text("text")
    with pytest.raises(PlanError, match=r"make a token file \(headway data prepare"):
        tokenizer.check(load("a", tmp_path), by, vocabulary=1000, folder_base=tmp_path)


def test_the_range_of_a_huge_file_is_looked_at_in_blocks_spread_over_it():
    tokens = np.arange(100)
    assert tokenizer.extremes(tokens, block=10) == (0, 99)
    assert tokenizer.extremes(tokens, most=50, block=10) == (0, 89)


def test_a_file_without_tokens_or_of_fractions_is_refused(tmp_path):
    with pytest.raises(PlanError, match=r"x holds no tokens"):
        load(_pair(tmp_path, [[], []]), tmp_path)
    index = bytearray((tmp_path / "x.idx").read_bytes())
    index[17] = 7
    (tmp_path / "x.idx").write_bytes(index)
    with pytest.raises(PlanError, match=r"x holds float32, but tokens are whole numbers"):
        load("x", tmp_path)


def test_a_damaged_pair_is_refused_as_a_corpus_too(tmp_path):
    _pair(tmp_path, [[1, 2, 3]])
    (tmp_path / "x.bin").write_bytes(b"\0\0")
    for name in itertools.product(["x"], ["", ".idx", ".bin"]):
        with pytest.raises(PlanError, match=r"x\.bin is cut short: it has 2 bytes, but x\.idx says 6"):
            load("".join(name), tmp_path)
