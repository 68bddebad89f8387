"""Preparing: which texts become documents, what they become, and what a token file is said to hold."""

import os

import numpy as np
import pytest

from headway.data.corpus import load as load_corpus
from headway.data.indexed import read, write
from headway.data.prepare import inspect, prepare, texts
from headway.data.tokenizer import load
from headway.errors import PlanError


def _text(folder, **files):
    (folder / "texts").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / "texts" / name).write_bytes(content)
    return str(folder / "texts")


def _prepare(prefix, *paths, by="bytes", append_end=False, done=lambda _: None):
    return prepare(texts(paths), prefix, load(by, prefix.parent), append_end=append_end, done=done)


def _documents(prefix):
    file = read(prefix)
    return [file.sequence(i).tolist() for i in range(file.num_sequences)]


def test_each_text_becomes_a_document_of_its_bytes(tmp_path):
    found = _prepare(tmp_path / "x", _text(tmp_path, b=b"two", a=b"one")).summary
    assert _documents(tmp_path / "x") == [list(b"one"), list(b"two")]
    assert (found.documents, found.tokens, found.dtype, found.bytes) == (2, 6, "uint16", 12)


def test_the_end_token_is_appended_where_it_is_asked_for(tmp_path):
    _prepare(tmp_path / "x", _text(tmp_path, a=b"one", b=b"two"), append_end=True)
    assert _documents(tmp_path / "x") == [list(b"one\0"), list(b"two\0")]


def test_a_folder_prepared_as_bytes_with_ends_is_the_corpus_that_the_folder_is(tmp_path):
    folder = _text(tmp_path, a=b"one", b="zwölf".encode(), empty=b"", binary=b"\0\1", **{".hidden": b"no"})
    _prepare(tmp_path / "x", folder, append_end=True)
    plain, prepared = load_corpus(folder, tmp_path), load_corpus("x", tmp_path)
    assert prepared.tokens.tolist() == plain.tokens.tolist()
    assert prepared.documents.tolist() == plain.documents.tolist()


def test_texts_come_in_the_order_in_which_they_are_named_and_are_counted(tmp_path):
    folder, seen = _text(tmp_path, a=b"one", b=b"two", empty=b"", binary=b"\0"), []
    wanted = texts([f"{folder}/b", folder])
    found = prepare(wanted, tmp_path / "x", load("bytes", tmp_path), append_end=False, done=seen.append)
    assert _documents(tmp_path / "x") == [list(b"two"), list(b"one"), list(b"two")]
    assert (found.summary.documents, found.skipped, found.not_utf8) == (3, 2, 0)
    assert sum(seen) == wanted.size == 10


@pytest.mark.parametrize(("words", "dtype"), [(65_499, "uint16"), (65_500, "int32")])
def test_a_tokenizer_file_makes_the_tokens_and_its_vocabulary_their_type(tmp_path, words, dtype):
    library = pytest.importorskip("tokenizers")
    known = {f"w{i}": i for i in range(words - 2)} | {"?": words - 2, "</s>": words - 1}
    made = library.Tokenizer(library.models.WordLevel(known, unk_token="?"))
    made.pre_tokenizer = library.pre_tokenizers.WhitespaceSplit()
    made.save(str(tmp_path / "t.json"))
    folder = _text(tmp_path, a=b"w7 w1 w0", b=b"w3 \xff", c=b"  ", d="w1 \ufffd".encode())
    found = _prepare(tmp_path / "x", folder, by="t.json", append_end=True)
    end, unknown = words - 1, words - 2
    assert _documents(tmp_path / "x") == [[7, 1, 0, end], [3, unknown, end], [1, unknown, end]]
    assert (found.summary.dtype, found.summary.largest_token) == (dtype, end)
    assert (found.skipped, found.not_utf8) == (1, 1)


def test_a_token_file_is_summed_up_in_numbers(tmp_path):
    _prepare(tmp_path / "x", _text(tmp_path, a=b"b" * 30, b=b"a", c=b"zz"))
    found = inspect(str(tmp_path / "x.idx"))
    assert found == inspect(str(tmp_path / "x"))
    assert (found.documents, found.sequences, found.tokens, found.dtype, found.bytes) == (3, 3, 33, "uint16", 66)
    assert (found.shortest, found.median, found.longest) == (1, 2.0, 30)
    assert (found.least_token, found.largest_token) == (97, 122)
    assert found.first_tokens == [98] * 16


def test_a_token_file_without_tokens_can_be_looked_into_too(tmp_path):
    write(tmp_path / "x", [np.array([], np.int64)], np.dtype(np.uint16))
    found = inspect(str(tmp_path / "x"))
    assert (found.documents, found.tokens, found.longest, found.largest_token) == (1, 0, 0, None)


@pytest.mark.parametrize("files", [{}, {"empty": b""}, {"binary": b"\0\1"}])
def test_texts_without_text_are_refused_and_nothing_is_left(tmp_path, files):
    folder = _text(tmp_path, **files)
    with pytest.raises(PlanError, match=r"texts has no text in it"):
        _prepare(tmp_path / "x", folder)
    assert os.listdir(tmp_path) == ["texts"]


def test_an_output_that_is_a_folder_or_cannot_be_written_is_refused(tmp_path):
    folder = _text(tmp_path, a=b"one")
    with pytest.raises(PlanError, match=r"texts is a folder\. Name a prefix in it: .*texts/corpus"):
        _prepare(tmp_path / "texts", folder)
    with pytest.raises(PlanError, match=r"cannot be written \(No such file or directory\)"):
        _prepare(tmp_path / "none" / "x", folder)


def test_a_pair_that_is_there_is_kept(tmp_path):
    folder = _text(tmp_path, a=b"one")
    _prepare(tmp_path / "x", folder)
    with pytest.raises(PlanError, match=r"x\.bin is there already\. Remove it, or choose another output\."):
        _prepare(tmp_path / "x", folder)


def test_a_text_or_pair_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(PlanError, match=r"there is no file or folder .*nowhere"):
        texts([str(tmp_path / "nowhere")])
    with pytest.raises(PlanError, match=r"there is no file .*nowhere\.idx\. A token file is a pair"):
        inspect(str(tmp_path / "nowhere"))
