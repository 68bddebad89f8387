"""A fabric by its name, by a shape's text, or from a YAML file."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import PlanError
from headway.fabric import blueprint, shape, topologies
from headway.fabric.blueprint import Blueprint, Bundle, Segment, Switches
from headway.fabric.fabric import Fabric
from headway.fabric.shape import Shape
from headway.plan import read

_LISTS = {"switches": Switches, "segments": Segment, "links": Bundle}


def fabric(wanted: str, folder: Path = Path(), sizes: Mapping[str, str] | None = None) -> Fabric:
    """The fabric that `wanted` names: `hpn`, `hpn segments=2`, or a YAML file in `folder`; `sizes` differ from it.

    A file holds the fields of a Shape beside `family`, or those of a Blueprint. Raises PlanError for what is wrong.
    """
    if not wanted.endswith((".yaml", ".yml")):
        return topologies.build(shape.changed(shape.parse(wanted), dict(sizes or {})))
    document = read.mapping(folder / wanted, "fabric file")
    if "family" in document:
        return topologies.build(shape.changed(_shape(document, wanted), dict(sizes or {})))
    if "switches" not in document:
        raise PlanError(
            f"{wanted} tells no fabric. Give it `family: hpn` and sizes that differ, or switches, segments and links."
        )
    if sizes:
        raise PlanError(f"{wanted} tells each switch, so {next(iter(sizes))} cannot be set. Change the file.")
    return blueprint.build(_blueprint(document, wanted))


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
    head = read.decode(Blueprint, {"name": Path(where).stem, **rest, **{name: [] for name in _LISTS}}, where)
    return dataclasses.replace(head, **parts)
