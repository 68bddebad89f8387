"""Tokenizers: bytes, a real file of the library, and files that are none."""

import subprocess
import sys

import numpy as np
import pytest

from headway.data.corpus import load as load_corpus
from headway.data.indexed import write
from headway.data.tokenizer import check, end_of, load, texts
from headway.errors import PlanError


def _file(folder, *special, size=300, name="tokenizer.json"):
    """A byte-level BPE trained on a sentence."""
    library = pytest.importorskip("tokenizers")
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special),
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["the quick brown fox jumps over the lazy dog and the end of the world"] * 9, trainer)
    made.save(str(folder / name))
    return name


def test_bytes_are_tokens_and_zero_ends_a_document(tmp_path):
    by = load("bytes", tmp_path)
    assert by.encode(bytes(range(1, 256))).tolist() == list(range(1, 256))
    assert (by.vocabulary, by.end()) == (256, 0)


def test_a_file_encodes_as_the_library_does_and_adds_nothing(tmp_path):
    by = load(_file(tmp_path, "<|endoftext|>"), tmp_path)
    tokens = by.encode("the quick fox: é".encode())
    assert by.library.decode(tokens.tolist()) == "the quick fox: é"
    assert tokens.dtype == np.int64
    assert len(tokens) < 17
    assert tokens.max() < by.vocabulary == by.library.get_vocab_size()
    assert by.end() == 0


@pytest.mark.parametrize("name", ["<|end_of_text|>", "</s>", "<eos>"])
def test_the_usual_end_tokens_are_known(tmp_path, name):
    assert load(_file(tmp_path, "<pad>", name), tmp_path).end() == 1


def test_a_tokenizer_without_an_end_token_says_what_was_looked_for(tmp_path):
    with pytest.raises(PlanError, match=r"has no token that ends a document \(looked for: <\|endoftext\|>"):
        load(_file(tmp_path), tmp_path).end()


@pytest.mark.parametrize(("content", "said"), [(None, "there is no tokenizer file"), ("{}", "is no file of the lib")])
def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path, content, said):
    pytest.importorskip("tokenizers")
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    with pytest.raises(PlanError, match=said) as error:
        load("x.json", tmp_path)
    assert str(tmp_path / "x.json") in str(error.value)


@pytest.mark.parametrize("name", ["bytes", "file"])
def test_text_comes_back_whole_and_in_pieces_of_whole_characters(tmp_path, name):
    by = load(_file(tmp_path, "<|endoftext|>") if name == "file" else name, tmp_path)
    said = "the quick fox: é 日本 🦊 end"
    tokens = by.encode(said.encode()).tolist()
    assert by.decode(tokens) == said
    pieces = list(texts(by, tokens))
    assert "".join(pieces) == said
    assert not any("\ufffd" in piece for piece in pieces)
    assert len(pieces) > 3


def test_a_character_that_is_never_finished_is_shown_as_its_replacement_at_the_end():
    by = load("bytes", None)
    assert list(texts(by, [104, 0xF0, 0x9F])) == ["h", "\ufffd"]
    assert "".join(texts(by, [0xFF, 104, 0xFF, 0xFF])) == "\ufffdh\ufffd\ufffd"


def test_tokens_that_are_no_bytes_and_special_ones_have_no_text(tmp_path):
    assert load("bytes", tmp_path).decode([104, 256, 300, 105]) == "hi"
    by = load(_file(tmp_path, "<|endoftext|>"), tmp_path)
    assert by.decode([0, *by.encode(b"hi").tolist(), 0, 99_999]) == "hi"


def test_pieces_come_while_the_tokens_do():
    def tokens():
        yield from b"ab"
        raise RuntimeError

    pieces = texts(load("bytes", None), tokens())
    assert [next(pieces), next(pieces)] == ["a", "b"]


def test_what_ends_a_document_is_known_or_not(tmp_path):
    assert end_of(load("bytes", tmp_path)) == 0
    assert end_of(load(_file(tmp_path, "<pad>", "</s>"), tmp_path)) == 1
    assert end_of(load(_file(tmp_path), tmp_path)) is None


def test_the_library_is_imported_for_a_file_only_and_named_where_it_is_missing(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    code = (
        "import sys; from pathlib import Path; from headway.data.tokenizer import load; load('bytes', Path())\n"
        "assert 'tokenizers' not in sys.modules; sys.modules['tokenizers'] = None\n"
        "load('x.json', Path())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert "PlanError: x.json needs the library tokenizers. Install it (pip install tokenizers)" in done.stderr


def _corpus(folder, *tokens):
    write(folder / "x", [np.array(tokens)], np.dtype(np.int32))
    return load_corpus("x", folder)


def test_a_tokenizer_larger_than_the_model_is_refused_with_both_numbers(tmp_path):
    name = _file(tmp_path)
    with pytest.raises(PlanError, match=r"tokenizer\.json has \d+ tokens, but model\.vocabulary is 256"):
        check(_corpus(tmp_path, 1, 2), name, vocabulary=256, folder_base=tmp_path)


def test_tokens_of_another_tokenizer_are_refused(tmp_path):
    name = _file(tmp_path)
    known = load(name, tmp_path).vocabulary
    check(_corpus(tmp_path, known - 1), name, vocabulary=1000, folder_base=tmp_path)
    (tmp_path / "x.idx").unlink()
    (tmp_path / "x.bin").unlink()
    with pytest.raises(PlanError, match=rf"the token {known}, but data\.tokenizer tokenizer\.json ends at {known - 1}"):
        check(_corpus(tmp_path, known), name, vocabulary=1000, folder_base=tmp_path)
