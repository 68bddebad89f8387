"""The model and the cluster of a job: a preset, a preset with changes, a cluster file, or all fields."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.cluster import presets as clusters
from headway.cluster.spec import NO_FABRIC, Cluster
from headway.errors import PlanError, nearest
from headway.model import spec as models
from headway.model.spec import ModelSpec
from headway.plan import read

_FILES = (".yaml", ".yml")


def model(wanted: str | Mapping[str, Any]) -> ModelSpec:
    """The model that a job names."""
    fields = {"preset": wanted} if isinstance(wanted, str) else dict(wanted)
    name = fields.pop("preset", None)
    if name is None:
        return read.decode(ModelSpec, models.complete(fields), "model")
    if not isinstance(name, str) or name not in models.PRESETS:
        raise PlanError(f"no model preset is called '{name}'. {nearest(str(name), models.PRESETS)}")
    base = models.PRESETS[name]
    if (family := fields.get("family", base.family)) != base.family:
        raise PlanError(
            f"the model preset {name} is of family {base.family}, but model.family is {family!r}. "
            f"Leave family out, or preset and give all fields."
        )
    return read.decode(ModelSpec, models.complete(fields, base), "model")


def cluster(wanted: str | Mapping[str, Any], folder: Path) -> Cluster:
    """The cluster that a job names; files are in `folder`, a fabric's beside the file that names it."""
    fields = _with_fabric({"preset": wanted} if isinstance(wanted, str) else wanted, folder)
    name = fields.pop("preset", None)
    if not (isinstance(name, str) and name.endswith(_FILES)):
        return _changed(name, fields, "cluster")
    path = folder / name
    told = _with_fabric(read.mapping(path, "cluster file"), path.parent)
    base = _changed(told.pop("preset", None), told, name)
    return _decoded(base, fields, "cluster") if fields else base


def _with_fabric(fields: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """`fields` with the text of the fabric as a plan keeps it, which needs no file."""
    named = fields.get("fabric", NO_FABRIC)
    if named == NO_FABRIC or not isinstance(named, str):
        return dict(fields)
    from headway.plan import network

    return {**fields, "fabric": network.kept(named, folder)}


def _changed(preset: object, fields: Mapping[str, Any], where: str) -> Cluster:
    """A preset with other `fields`; without a preset they are all fields."""
    if preset is None:
        return read.decode(Cluster, fields, where)
    base = clusters.preset(str(preset))
    return _decoded(base, fields, where) if fields else base


def _decoded(base: Cluster, changes: Mapping[str, Any], where: str) -> Cluster:
    return read.decode(Cluster, _merged(dataclasses.asdict(base), changes), where)


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes`, which may be of a section inside."""
    found = dict(base)
    for key, value in changes.items():
        inside = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if inside else value
    return found
