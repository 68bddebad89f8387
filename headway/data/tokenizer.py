"""Tokenizers: what turned text into tokens (bytes, or a file of the library `tokenizers`), and which model fits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.data.corpus import Corpus
from headway.errors import PlanError

if TYPE_CHECKING:
    import tokenizers

BYTES, NONE = "bytes", "none"
BYTE_VOCABULARY = 256
REPLACEMENT = "\ufffd"  # what stands for bytes that are no UTF-8, or not yet
# what ends a document with GPT-2 and Qwen, Llama 3, Llama 2, Gemma, DeepSeek
ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>")
LOOKED_AT, BLOCK = 2**30, 2**24  # tokens whose range is looked at (seconds, however large the file), and at once


class Tokenizer(Protocol):
    """Text → tokens, and back."""

    @property
    def vocabulary(self) -> int:
        """One more than the largest token."""

    def encode(self, text: bytes) -> NDArray[np.int64]:
        """[n]: the tokens of `text`, nothing before or behind them."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`, those that it does not know left out; U+FFFD for what is no UTF-8."""

    def end(self) -> int:
        """The token that ends a document; PlanError where there is none."""


@dataclass(frozen=True, slots=True)
class ByteTokenizer:
    """One token a byte; 0 ends a document."""

    vocabulary: int = BYTE_VOCABULARY

    def encode(self, text: bytes) -> NDArray[np.int64]:
        """[n]: the bytes."""
        return np.frombuffer(text, np.uint8).astype(np.int64)

    def decode(self, tokens: Sequence[int]) -> str:
        """The bytes as UTF-8; a model of a larger vocabulary may also write what is no byte."""
        return bytes(token for token in tokens if token < BYTE_VOCABULARY).decode("utf-8", "replace")

    def end(self) -> int:
        """0, which no text has."""
        return 0


@dataclass(frozen=True, slots=True)
class FileTokenizer:
    """The tokenizer that a JSON file of the library `tokenizers` describes."""

    name: str
    library: "tokenizers.Tokenizer"

    @property
    def vocabulary(self) -> int:
        """One more than the largest token, added ones too."""
        return 1 + max(self.library.get_vocab(with_added_tokens=True).values(), default=-1)

    def encode(self, text: bytes) -> NDArray[np.int64]:
        """[n]: the tokens; what is no UTF-8 becomes U+FFFD first."""
        said = text.decode("utf-8", "replace")
        return np.array(self.library.encode(said, add_special_tokens=False).ids, np.int64)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text, without special tokens."""
        return self.library.decode(list(tokens), skip_special_tokens=True)

    def end(self) -> int:
        """The first of the usual end tokens that it has."""
        known = (self.library.token_to_id(name) for name in ENDS)
        found = next((token for token in known if token is not None), None)
        if found is None:
            raise PlanError(f"{self.name} has no token that ends a document (looked for: {' '.join(ENDS)}).")
        return found


def load(name: str, folder_base: Path) -> Tokenizer:
    """The tokenizer called `name`: `bytes`, or a JSON file (relative to `folder_base`); PlanError if it is neither."""
    if name == BYTES:
        return ByteTokenizer()
    file = folder_base / name
    if not file.is_file():
        raise PlanError(f"there is no tokenizer file {file}. Name a tokenizer.json, or use bytes.")
    try:
        from tokenizers import Tokenizer as Library
    except ImportError:
        raise PlanError(
            f"{file} needs the library tokenizers. Install it (pip install tokenizers), or use bytes."
        ) from None
    try:
        return FileTokenizer(str(file), Library.from_file(str(file)))
    except Exception as error:  # the library raises nothing narrower
        raise PlanError(f"{file} is no file of the library tokenizers: {error}.") from None


def end_of(tokenizer: Tokenizer) -> int | None:
    """The token that ends a document; None where there is none."""
    try:
        return tokenizer.end()
    except PlanError:
        return None


def texts(tokenizer: Tokenizer, tokens: Iterable[int]) -> Iterator[str]:
    """The text of `tokens` in pieces, each as soon as it ends in a whole character.

    >>> list(texts(ByteTokenizer(), [72, 0xC3, 0xA9, 0xFF]))
    ['H', 'é', '�']
    """
    before: list[int] = []  # the last piece's tokens: some decoders treat the first token of a text in their own way
    fresh: list[int] = []
    for token in tokens:
        fresh.append(token)
        said, text = tokenizer.decode(before), tokenizer.decode([*before, *fresh])
        if len(text) > len(said) and not text.endswith(REPLACEMENT):
            yield text[len(said) :]
            before, fresh = fresh, []
    if fresh:
        yield tokenizer.decode([*before, *fresh])[len(tokenizer.decode(before)) :]


def check(corpus: Corpus, tokenizer: str, *, vocabulary: int, folder_base: Path) -> None:
    """Refuse a corpus whose tokens are not those of `tokenizer`, or for which the model's `vocabulary` is too small.

    Every token of a token file is looked at, or, of one with more than 2^30, so many in blocks spread over it.
    """
    if not corpus.prepared:
        if tokenizer != BYTES:
            raise PlanError(
                f"data.tokenizer is {tokenizer}, but {corpus.name} is text, which is read as bytes. Use data.tokenizer "
                f"bytes, or make a token file (headway data prepare … --tokenizer FILE) and name it in data.path."
            )
        return
    known = None
    if tokenizer != NONE:
        known = load(tokenizer, folder_base).vocabulary
        check_vocabulary(f"data.tokenizer {tokenizer}", known, vocabulary)
    least, largest = extremes(corpus.tokens)
    if least < 0:
        raise PlanError(f"{corpus.name} holds the token {least}, but tokens count from 0. Prepare the text again.")
    if largest >= vocabulary:
        raise PlanError(
            f"{corpus.name} holds the token {largest}, but model.vocabulary {vocabulary} ends at {vocabulary - 1}. "
            f"Use model.vocabulary {largest + 1} or more, or a corpus of another tokenizer."
        )
    if known is not None and largest >= known:
        raise PlanError(
            f"{corpus.name} holds the token {largest}, but data.tokenizer {tokenizer} ends at {known - 1}. Name the "
            f"tokenizer file that made it, or data.tokenizer {NONE}: then no text is written from the model."
        )


def check_vocabulary(name: str, known: int, vocabulary: int) -> None:
    """Refuse a tokenizer, called `name`, that has more tokens than a model's `vocabulary`."""
    if known > vocabulary:
        raise PlanError(
            f"{name} has {known} tokens, but model.vocabulary is {vocabulary}. "
            f"Use model.vocabulary {known} or more, or another tokenizer."
        )


def extremes(tokens: NDArray[Any], most: int = LOOKED_AT, block: int = BLOCK) -> tuple[Any, Any]:
    """The least and the largest of `tokens` (at least one), read block by block; of more than `most`, of a part.

    >>> extremes(np.array([3, 1, 2], np.uint16))
    (1, 3)
    """
    every = -(-len(tokens) // most)
    blocks = [tokens[first : first + block] for first in range(0, len(tokens), block * every)]
    return min(some.min() for some in blocks).item(), max(some.max() for some in blocks).item()
