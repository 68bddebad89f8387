"""A fabric by its name, by a shape's text, or from a file: YAML, or SimAI's topology text; a node from NCCL's XML."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import PlanError
from headway.fabric import blueprint, elements, nccl_xml, shape, simai, topologies
from headway.fabric.blueprint import Blueprint, Bundle, Segment, Switches
from headway.fabric.fabric import Fabric
from headway.fabric.node import Node
from headway.fabric.shape import Shape
from headway.plan import read

_SIMAI = "simai"  # the key of SimAI's text in a document
_LISTS = {"switches": Switches, "segments": Segment, "links": Bundle}


def fabric(wanted: str, folder: Path = Path(), sizes: Mapping[str, str] | None = None) -> Fabric:
    """The fabric that `wanted` names: `hpn`, `hpn segments=2`, or a file in `folder`; `sizes` differ from it.

    A YAML file holds the fields of a Shape beside `family`, or those of a Blueprint; any other is SimAI's topology
    text. Raises PlanError for what is wrong.
    """
    found = told(wanted, folder)
    if isinstance(found, Shape):
        return topologies.build(shape.changed(found, dict(sizes or {})))
    if sizes:
        each = "link" if _SIMAI in found else "switch"
        raise PlanError(f"{wanted} tells each {each}, so {next(iter(sizes))} cannot be set. Change the file.")
    return built(found, wanted)


def told(wanted: str, folder: Path) -> Shape | dict[str, Any]:
    """What a name, a shape's text or a file tells: a shape, or a document that needs no file any more."""
    if is_node(wanted):
        raise PlanError(f"{wanted} tells the inside of a node, and no fabric. Name a family, or a fabric file.")
    if not wanted.endswith((".yaml", ".yml")):
        if _is_file(folder / wanted) and not is_shape(wanted):
            return {"name": wanted, _SIMAI: _text(folder / wanted)}
        return shape.parse(wanted)
    document = read.mapping(folder / wanted, "fabric file")
    if "family" in document:
        return _shape(document, wanted)
    if "switches" not in document:
        raise PlanError(
            f"{wanted} tells no fabric. Give it `family: hpn` and sizes that differ, or switches, segments and links."
        )
    return {"name": Path(wanted).stem, **document}


def built(document: dict[str, Any], where: str) -> Fabric:
    """The fabric that a document tells; `where` is named in errors."""
    if _SIMAI in document:
        return simai.parse(str(document[_SIMAI]), str(document.get("name")))
    return blueprint.build(_blueprint(document, where))


def is_node(wanted: str) -> bool:
    """Whether a word names NCCL's XML of the inside of a node."""
    return wanted.lower().endswith(".xml")


def node(wanted: str, folder: Path = Path()) -> Node:
    """The inside of a node from NCCL's topology XML in `folder`. Raises PlanError for what is wrong."""
    path = folder / wanted
    if not _is_file(path):
        raise PlanError(f"there is no file {path}. Give the path of a node's XML, like examples/node.xml.")
    try:
        with path.open("rb") as file:
            data = file.read(elements.MOST_BYTES + 1)  # more is refused, so not read
    except OSError as error:
        raise PlanError(f"{path} cannot be read ({error.strerror}). Give the path of a node's XML.") from None
    return nccl_xml.parse(data, wanted)


def is_shape(wanted: str) -> bool:
    """Whether a text is that of a shape: a family, and what differs."""
    return wanted.partition(" ")[0] in {*shape.FAMILIES, shape.PLAIN.family}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or holds what no path can
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise PlanError(f"{path} is not text in UTF-8. Give the path of a fabric file.") from None
    except OSError as error:
        raise PlanError(f"{path} cannot be read ({error.strerror}). Give the path of a fabric file.") from None


def _shape(document: dict[str, Any], where: str) -> Shape:
    base = shape.PLAIN if document["family"] == shape.PLAIN.family else shape.family(str(document["family"]))
    return read.decode(Shape, {**dataclasses.asdict(base), **document}, where)


def _blueprint(document: dict[str, Any], where: str) -> Blueprint:
    parts: dict[str, Any] = {}
    for name, kind in _LISTS.items():
        entries = document.get(name) or []
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            raise PlanError(f"{where}: {name} is no list of mappings. Write one entry a line, like - {{…}}.")
        parts[name] = tuple(read.decode(kind, each, f"{where}: {name} {n}") for n, each in enumerate(entries))
    rest = {key: value for key, value in document.items() if key not in _LISTS}
    head = read.decode(Blueprint, {**rest, **{name: [] for name in _LISTS}}, where)
    return dataclasses.replace(head, **parts)
