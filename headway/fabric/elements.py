"""Elements of an XML file that is not trusted: bounded, without a DOCTYPE, each with its line for messages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.parsers import expat

from headway.errors import PlanError

MOST_BYTES = 8 * 2**20  # of a file; NCCL's of the largest host has 100 kB
_DEEPEST, _MOST = 64, 2**16
_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class Element:
    """An element, with the elements inside it that are read."""

    file: str
    tag: str
    attributes: dict[str, str]
    line: int
    inside: list["Element"]

    def wrong(self, what: str, remedy: str) -> PlanError:
        """The error that names the file, the line and the element."""
        return PlanError(f"{self.file}, line {self.line}: <{self.tag}> {what}. {remedy}.")

    def each(self, tag: str) -> list["Element"]:
        """The elements of that name inside it."""
        return [element for element in self.inside if element.tag == tag]

    def text(self, key: str) -> str:
        """An attribute that must be there. Raises PlanError where it lacks or is empty."""
        if not self.attributes.get(key):
            raise self.wrong(f"has no {key}", "NCCL writes one; complete the line")
        return self.attributes[key]

    def whole(self, key: str, least: int = -(2**31)) -> int:
        """An attribute that must be a whole number of 32 bits, decimal or `0x1f`."""
        word = self.text(key)
        value = int(word, 0 if "x" in word.lower() else 10) if _WHOLE.fullmatch(word) else 2**31
        if not least <= value < 2**31:
            raise self.wrong(f"has {key} {word[:60]!r}", f"Write a whole number from {least} to {2**31 - 1}")
        return value

    def whole_or(self, key: str, otherwise: int) -> int:
        """The same, or `otherwise` where it lacks or is empty."""
        return self.whole(key) if self.attributes.get(key) else otherwise


def read(data: bytes, name: str, known: Mapping[str, Sequence[str]]) -> Element:
    """An element without a name that holds the outermost one, if that is known.

    `known`: what is read inside what, from "" on; anything else, and all inside it, is left out. Raises PlanError for
    what is no XML in UTF-8, too large or too deep, or has a DOCTYPE.

    The standard library's expat is used by itself: it gives the line of every element, and a DOCTYPE ends the reading
    before its first entity, which is what a package like defusedxml does with the same handler.
    """
    if len(data) > MOST_BYTES:
        raise PlanError(f"{name} is larger than {MOST_BYTES >> 20} MiB. A host's topology is far smaller.")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PlanError(f"{name} is not text in UTF-8 (byte {error.start}). Give the file that NCCL wrote.") from None
    parser = expat.ParserCreate("UTF-8")  # whatever a declaration says
    outside = Element(name, "", {}, 0, [])
    opened: list[Element | None] = [outside]  # None: not read
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        above, line = opened[-1], parser.CurrentLineNumber
        if len(opened) > _DEEPEST:
            raise PlanError(f"{name}, line {line}: elements are nested more than {_DEEPEST} deep. Give NCCL's file.")
        if above is None or tag not in known.get(above.tag, ()):
            opened.append(None)
            return
        count += 1
        if count > _MOST:
            raise PlanError(f"{name} has more than {_MOST:,} elements. A host has a few hundred.")
        element = Element(name, tag, attributes, line, [])
        above.inside.append(element)
        opened.append(element)

    def end(_: str) -> None:
        opened.pop()

    def doctype(*_: object) -> None:
        line = parser.CurrentLineNumber
        raise PlanError(f"{name}, line {line}: a DOCTYPE is not read, as entities are a known attack. Delete it.")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = doctype
    in_one_piece = True  # expat before 2.6 reads an unfinished name anew with every further piece
    try:
        parser.Parse(data, in_one_piece)
    except expat.ExpatError as error:
        why = expat.ErrorString(error.code)
        raise PlanError(f"{name}, line {error.lineno} is no XML ({why}). It may be cut short, or edited.") from None
    return outside
