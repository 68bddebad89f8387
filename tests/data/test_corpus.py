"""Corpora: which files are read, in which order, and what is refused."""

import itertools
import os

import numpy as np
import pytest

from headway.data.corpus import load
from headway.errors import PlanError


def _texts(corpus):
    bounds = corpus.documents.tolist()
    return [corpus.tokens[a:b].tobytes() for a, b in itertools.pairwise(bounds)]


def _write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_documents_follow_one_another_each_with_a_zero_byte_behind_it(tmp_path):
    _write(tmp_path, b=b"two", a=b"one", c__d=b"three")
    corpus = load(str(tmp_path), tmp_path)
    assert _texts(corpus) == [b"one\0", b"two\0", b"three\0"]
    assert corpus.tokens.tobytes() == b"one\0two\0three\0"
    assert (corpus.tokens.dtype, corpus.documents.dtype) == (np.uint8, np.int64)
    assert corpus.num_documents == 3


def test_files_are_sorted_by_relative_path_whatever_the_order_on_disk(tmp_path):
    _write(tmp_path, z=b"5", a__b__c=b"1", a__c=b"3", a__b__d=b"2", b=b"4")
    assert _texts(load(str(tmp_path), tmp_path)) == [b"%d\0" % i for i in range(1, 6)]


def test_hidden_empty_and_binary_files_are_left_out(tmp_path):
    _write(tmp_path, text=b"text", empty=b"", binary=b"ab\0cd")
    _write(tmp_path, **{".hidden": b"no", ".git__config": b"no", "late__nul": b"x" * 8192 + b"\0"})
    assert _texts(load(str(tmp_path), tmp_path)) == [b"x" * 8192 + b"\0\0", b"text\0"]


def test_a_folder_may_itself_be_hidden(tmp_path):
    _write(tmp_path, **{".cache__a": b"text"})
    assert _texts(load(".cache", tmp_path)) == [b"text\0"]


def test_one_file_is_one_document(tmp_path):
    _write(tmp_path, book=b"once upon a time")
    assert _texts(load("book", tmp_path)) == [b"once upon a time\0"]


def test_a_relative_path_starts_at_the_job_files_folder(tmp_path, monkeypatch):
    _write(tmp_path, job__texts__a=b"right", texts__a=b"wrong")
    monkeypatch.chdir(tmp_path)
    assert _texts(load("texts", tmp_path / "job")) == [b"right\0"]


def test_bytes_that_are_no_utf8_are_tokens_like_any_other(tmp_path):
    _write(tmp_path, latin=bytes(range(1, 256)))
    assert load("latin", tmp_path).tokens.tolist() == [*range(1, 256), 0]


def test_nobody_may_write_into_the_tokens(tmp_path):
    _write(tmp_path, a=b"text")
    with pytest.raises(ValueError, match="read-only"):
        load("a", tmp_path).tokens[0] = 1


def test_a_link_to_nowhere_and_a_pipe_are_left_out(tmp_path):
    _write(tmp_path, a=b"text")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert _texts(load(str(tmp_path), tmp_path)) == [b"text\0"]


def test_the_standard_library_is_its_source_without_tests_and_packages(tmp_path):
    corpus = load("stdlib", tmp_path)
    everything = corpus.tokens.tobytes()
    assert corpus.num_documents > 400
    assert len(corpus.tokens) > 5_000_000
    assert b"def get_close_matches(" in everything  # difflib.py
    assert b"class TestCase(object):" in everything  # unittest is a package of the library, not a test of it
    assert b"class SequenceMatcherTest" not in everything
    assert str(corpus).startswith("stdlib (")


def test_a_folder_called_stdlib_is_reached_with_a_dot(tmp_path):
    _write(tmp_path, stdlib__a=b"mine")
    assert _texts(load("./stdlib", tmp_path)) == [b"mine\0"]


@pytest.mark.parametrize("path", ["nowhere", "texts/nowhere", "~nobody-here/x", ""])
def test_a_path_that_is_not_there_is_refused_with_the_key_and_a_remedy(tmp_path, path):
    with pytest.raises(
        PlanError, match=r"data\.path: .*\. Name a file or folder with text in it, or stdlib\."
    ) as error:
        load(path, tmp_path)
    assert path in str(error.value)


@pytest.mark.parametrize("files", [{}, {"empty": b""}, {"binary": b"\0"}, {".hidden": b"text"}])
def test_a_folder_without_text_is_refused_with_its_path(tmp_path, files):
    _write(tmp_path, **files)
    with pytest.raises(PlanError, match=r"has no text in it .* Name a file or folder") as error:
        load(str(tmp_path), tmp_path)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize("content", [b"", b"GIF89a\0\0"])
def test_a_file_without_text_is_refused_with_its_path(tmp_path, content):
    _write(tmp_path, picture=content)
    with pytest.raises(PlanError, match=r"picture has no text in it"):
        load("picture", tmp_path)


def test_a_device_is_neither_file_nor_folder(tmp_path):
    with pytest.raises(PlanError, match=r"/dev/null is neither a file nor a folder"):
        load("/dev/null", tmp_path)


def test_a_path_too_long_for_the_system_is_refused_too(tmp_path):
    with pytest.raises(PlanError, match=r"data\.path: "):
        load("x" * 5000, tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("place", ["secret", "."])
def test_what_may_not_be_read_is_refused_with_its_path(tmp_path, place):
    _write(tmp_path, secret__a=b"text")
    (tmp_path / "secret").chmod(0)
    with pytest.raises(PlanError, match=r"secret.* cannot be read \(Permission denied\)\. Make it readable"):
        load(place, tmp_path)
    (tmp_path / "secret").chmod(0o700)
