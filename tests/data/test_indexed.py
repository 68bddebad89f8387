"""Token files: Megatron's own sample read and written, every type, beyond 2^31 tokens, and what is refused."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.indexed import DTYPES, dtype_for, pointers, prefix_of, read, write
from headway.errors import PlanError

GOLDEN = Path(__file__).parent.parent / "golden" / "tiny_text_document"
DOCUMENTS = [[10, 11, 12, 0], [20, 21, 0], [30, 31, 32, 33, 34, 0]]


def _bytes(prefix):
    return [Path(f"{prefix}.{end}").read_bytes() for end in ("idx", "bin")]


def _arrays(documents, dtype=np.int64):
    return [np.array(document, dtype) for document in documents]


def _index(code=8, lengths=(4, 3, 6), pointers=(0, 8, 14), documents=(0, 1, 2, 3), version=1, magic=b"MMIDIDX\0\0"):
    s, d = len(lengths), len(documents)
    return struct.pack(
        f"<9sQBQQ{s}i{s}q{d}q", magic, version, code, s, d, *lengths, *pointers, *documents
    )  # written out once more, by the table and not by the code under test


def _write(folder, index, tokens=b"\0" * 26):
    (folder / "x.idx").write_bytes(index)
    (folder / "x.bin").write_bytes(tokens)
    return folder / "x"


def test_megatrons_sample_is_read():
    found = read(GOLDEN)
    assert [found.sequence(i).tolist() for i in range(3)] == DOCUMENTS
    assert (found.num_sequences, found.num_documents, len(found.tokens)) == (3, 3, 13)
    assert found.tokens.dtype == np.uint16
    assert found.document_bounds().tolist() == [0, 4, 7, 13]


def test_megatrons_sample_is_written_byte_for_byte(tmp_path):
    write(tmp_path / "mine", _arrays(DOCUMENTS), dtype_for(50_257))
    assert _bytes(tmp_path / "mine") == _bytes(GOLDEN)
    assert sorted(os.listdir(tmp_path)) == ["mine.bin", "mine.idx"]


def test_the_sample_agrees_with_the_table_of_the_format():
    assert _index() == _bytes(GOLDEN)[0]


@pytest.mark.parametrize(("code", "dtype"), DTYPES.items())
def test_every_type_of_tokens_is_read(tmp_path, code, dtype):
    values = [0, 1, 2, 100, 127]
    pointers = (0, 2 * dtype.itemsize)
    prefix = _write(tmp_path, _index(code, (2, 3), pointers, (0, 1, 2)), np.array(values, dtype).tobytes())
    found = read(prefix)
    assert found.tokens.dtype == dtype
    assert [found.sequence(i).tolist() for i in range(2)] == [values[:2], values[2:]]


def test_the_codes_are_megatrons():
    names = ["uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"]
    assert {code: str(dtype) for code, dtype in DTYPES.items()} == dict(enumerate(names, start=1))


@given(
    st.lists(st.lists(st.integers(0, 65_000), max_size=20), max_size=12),
    st.sampled_from(["uint16", "int32", "int64"]),
)
def test_what_was_written_is_read_back_with_empty_documents_too(tmp_path_factory, documents, dtype):
    prefix = tmp_path_factory.mktemp("round") / "with.dots"
    found = write(prefix, _arrays(documents), np.dtype(dtype))
    assert [found.sequence(i).tolist() for i in range(found.num_sequences)] == documents
    assert found.document_bounds().tolist() == np.cumsum([0, *map(len, documents)]).tolist()


def test_a_document_may_have_several_sequences_or_none(tmp_path):
    found = read(_write(tmp_path, _index(documents=(0, 2, 2, 3, 3))))
    assert found.num_documents == 4
    assert found.document_bounds().tolist() == [0, 7, 7, 13, 13]


def test_nothing_is_copied_and_nobody_may_write():
    found = read(GOLDEN)
    for array in (found.tokens, found.lengths, found.pointers, found.documents):
        assert not array.flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_beyond_2_to_the_31_tokens_the_right_offset_is_found(tmp_path):
    """A sparse file: 2^31 + 10 tokens of two bytes that take no room on the disk."""
    lengths = [2**30, 2**30, 7, 3]
    pointers = [0, 2**31, 2**32, 2**32 + 14]
    (tmp_path / "x.idx").write_bytes(_index(8, lengths, pointers, (0, 1, 2, 3, 4)))
    with (tmp_path / "x.bin").open("wb") as file:
        file.truncate(2 * (2**31 + 10))
        file.seek(2 * (2**31 + 7))
        file.write(np.array([7, 8, 9], "<u2").tobytes())
    found = read(tmp_path / "x")
    assert len(found.tokens) == 2**31 + 10
    assert found.sequence(3).tolist() == [7, 8, 9]
    assert found.document_bounds().tolist() == [0, 2**30, 2**31, 2**31 + 7, 2**31 + 10]


def test_the_pointers_that_are_written_are_cumulated_in_64_bits():
    assert pointers(np.array([2**30] * 5, np.int32), itemsize=4).tolist() == [i * 2**32 for i in range(5)]
    assert pointers(np.array([2**31 - 1] * 3, np.int32), itemsize=2).tolist() == [0, 2**32 - 2, 2**33 - 4]


@pytest.mark.parametrize(("vocabulary", "dtype"), [(256, "uint16"), (65_499, "uint16"), (65_500, "int32")])
def test_the_vocabulary_chooses_the_type(vocabulary, dtype):
    assert str(dtype_for(vocabulary)) == dtype


@pytest.mark.parametrize("name", ["a.b_text_document", "a.b_text_document.idx", "a.b_text_document.bin"])
def test_prefix_and_either_file_name_the_same(tmp_path, name):
    write(tmp_path / "a.b_text_document", _arrays(DOCUMENTS), np.dtype(np.uint16))
    assert prefix_of(tmp_path / name) == tmp_path / "a.b_text_document"
    assert prefix_of(tmp_path / "a") is None


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (b"", "is no index of Megatron's: it begins with b''"),
        (b"MMIDIDX", "is no index of Megatron's"),
        (b"once upon a time", "begins with b'once upon'"),
        (_index(magic=b"TNTIDX\0\0\0"), "begins with TNTIDX: an index of the older kind"),
        (_index()[:20], "it ends after 20 bytes, within the header of 34"),
        (_index(version=2), "has version 2, but only version 1 is known"),
        (_index(code=9), "its type of tokens is 9, but only 1 … 8 are known"),
        (_index()[:-1], "it has 101 bytes, but its header (3 sequences and 4 document entries) needs 102"),
        (_index() + b"12", "it has 104 bytes"),
        (_index() + b"\0\0\0", "is multimodal: behind the documents it has a mode for each of its 3 sequences"),
        (_index()[:18] + b"\xff" * 8 + _index()[26:], "18446744073709551615 sequences"),
        (_index(lengths=(4, -3, 6)), "sequence 1 has length -3"),
        (_index(pointers=(0, 8, -14)), "sequence 2 is at byte -14, but those before it end at 14"),
        (_index(documents=(0, 1, 2, 4)), "its documents cover 0 … 4, not the sequences 0 … 3"),
        (_index(documents=(1, 2, 3)), "its documents cover 1 … 3"),
        (_index(documents=()), "its documents cover nothing"),
        (_index(documents=(0, 3, 2, 3)), "document 1 ends before it begins"),
    ],
)
def test_a_damaged_or_foreign_index_is_refused_by_name(tmp_path, index, said):
    with pytest.raises(PlanError) as error:
        read(_write(tmp_path, index))
    assert said in str(error.value)
    assert str(tmp_path / "x.idx") in str(error.value)


@pytest.mark.parametrize(
    ("size", "said"), [(24, "is cut short"), (25, "is cut short"), (0, "is cut short"), (28, "is too long")]
)
def test_tokens_that_do_not_match_the_index_are_refused_with_both_sizes(tmp_path, size, said):
    with pytest.raises(PlanError, match=said) as error:
        read(_write(tmp_path, _index(), b"\0" * size))
    assert f"it has {size} bytes, but x.idx says 26 (13 tokens of uint16)" in str(error.value)


@pytest.mark.parametrize("gone", ["idx", "bin"])
def test_half_a_pair_is_refused_with_the_file_that_is_missing(tmp_path, gone):
    prefix = _write(tmp_path, _index())
    (tmp_path / f"x.{gone}").unlink()
    with pytest.raises(PlanError, match=rf"there is no file .*x\.{gone}"):
        read(prefix)


def test_a_file_that_is_there_is_not_written_over(tmp_path):
    prefix = _write(tmp_path, _index(), b"precious")
    with pytest.raises(PlanError, match=r"x\.bin is there already"):
        write(prefix, _arrays(DOCUMENTS), np.dtype(np.uint16))
    assert (tmp_path / "x.bin").read_bytes() == b"precious"


def test_an_ending_in_the_middle_leaves_nothing(tmp_path):
    def documents():
        yield np.array([1, 2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "x", documents(), np.dtype(np.uint16))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("token", [-1, 65_536])
def test_a_token_that_the_type_does_not_hold_is_refused_not_wrapped(tmp_path, token):
    with pytest.raises(PlanError, match=rf"document 1 has tokens from .*{token}.* but uint16 holds 0 … 65535"):
        write(tmp_path / "x", _arrays([[1], [token, 5]]), np.dtype(np.uint16))
