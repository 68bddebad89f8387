"""Pipeline layouts: Megatron's text for the layers of each stage (`E|(t|)*10L`), read and written."""

import re
from collections import deque
from collections.abc import Sequence
from itertools import groupby

from headway.errors import PlanError

MAX_LETTERS = 100_000
_Letter = tuple[str, int]  # and where it stands in the text, from 1
_FORM = (
    "E is the embedding, t a layer, L the head with the loss, | begins the next stage, and t*3 or (tt|)*2 repeat, "
    "as in Ett|(t|)*2L"
)


def parse(text: str) -> tuple[int, ...]:
    """Layers of each stage, in stage order; E must come first and L last. Spaces and commas mean nothing.

    Raises PlanError with the position of what is wrong.

    >>> parse("Et*3 | (tt|)*2 | L")
    (3, 2, 2, 0, 0)
    """
    letters = _unroll(text)
    for kind, name, end, place in (("E", "embedding", "first", 0), ("L", "head", "last", -1)):
        found = [at for letter, at in letters if letter == kind]
        if not found:
            raise _wrong(text, f"has no {kind}: the {name}, which comes {end}")
        if len(found) > 1:
            raise _wrong(text, f"has the {name} {kind} {len(found)} times, the second at position {found[1]}")
        if letters[place][0] != kind:
            letter, at = letters[place]
            raise _wrong(text, f"has {letter} at position {at}, where {kind} comes {end}")
    counts = [0]
    for letter, _ in letters:
        if letter == "|":
            counts.append(0)
        counts[-1] += letter == "t"
    return tuple(counts)


def show(counts: Sequence[int]) -> str:
    """The layout of stages of so many layers each; `parse` gives them back.

    >>> show([3, 2, 2, 0, 0]), show([1] * 8)
    ('Et*3|tt|tt||L', 'Et|(t|)*6tL')
    """
    first, *rest = counts
    if not rest:
        return f"E{_layers(first)}L"
    *middle, last = rest
    runs = [(_layers(count), len(list(run))) for count, run in groupby(middle)]
    between = "".join(f"({layers}|)*{times}" if times > 2 else f"{layers}|" * times for layers, times in runs)
    return f"E{_layers(first)}|{between}{_layers(last)}L"


def _layers(count: int) -> str:
    return f"t*{count}" if count > 2 else "t" * count


def _unroll(text: str) -> list[_Letter]:
    """The letters E, t, L and | with all repeats written out."""
    tokens = deque((token[0], token.start() + 1) for token in re.finditer(r"[0-9]+|[^\s,]", text))
    opened: list[tuple[int, list[_Letter]]] = []  # groups not closed yet: where, and the letters before them
    letters: list[_Letter] = []
    while tokens:
        token, at = tokens.popleft()
        if token == "(":
            opened.append((at, letters))
            letters = []
            continue
        if token == ")" and opened:
            item, (_, letters) = letters, opened.pop()
        elif token in {"E", "t", "L", "|"}:
            item = [(token, at)]
        elif token == "m":
            problem = f"has m at position {at}: a multi-token-prediction layer, which Headway's models do not have"
            raise _wrong(text, problem)
        else:
            raise _wrong(text, f"has {token} at position {at}, which means nothing there")
        times = _times(text, tokens)
        if len(letters) + len(item) * times > MAX_LETTERS:
            raise _wrong(text, f"repeats to more than {MAX_LETTERS} letters at position {at}")
        letters += item * times
    if opened:
        raise _wrong(text, f"opens a ( at position {opened[-1][0]} that nothing closes")
    return letters


def _times(text: str, tokens: deque[_Letter]) -> int:
    """The n of a `*n` that comes next, which is taken off; 1 if none does."""
    if not tokens or tokens[0][0] != "*":
        return 1
    _, at = tokens.popleft()
    number = tokens.popleft()[0] if tokens else ""
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", number):
        raise _wrong(text, f"has a * at position {at} without a number from 1 on behind it")
    return int(number)


def _wrong(text: str, problem: str) -> PlanError:
    return PlanError(f"the layout '{text}' {problem}. {_FORM}.")
