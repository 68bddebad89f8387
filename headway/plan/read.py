"""Reading a job file: safe YAML, overrides, and errors that name the key and what would work."""

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from headway.errors import PlanError, nearest
from headway.plan.job import Job

T = TypeVar("T")
What = Literal["job file", "cluster file", "fabric file"]
_EXAMPLES: dict[What, str] = {
    "job file": "examples/stdlib.yaml",
    "cluster file": "examples/cluster.yaml",
    "fabric file": "examples/fabric.yaml",
}
_PRESETS = {each.name: each.default for each in dataclasses.fields(Job) if each.name in {"model", "cluster"}}
_MOST_VALUES = 1_000_000  # of a document; one of 2**17 hosts told one by one has fewer


def job(path: Path, overrides: Iterable[str] = ()) -> Job:
    """The job in a YAML file, with overrides like `train.steps=20`. Raises PlanError for anything a user got wrong."""
    document = mapping(path)
    for override in overrides:
        _override(document, override)
    return decode(Job, document, where=str(path))


def mapping(path: Path, what: What = "job file") -> dict[str, Any]:
    """The mapping in a YAML file; scalars as in YAML 1.2, so `1e-4` is a number and `on` a word."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PlanError(f"there is no file {path}. Give the path of a {what}, like {_EXAMPLES[what]}.") from None
    except UnicodeDecodeError:
        raise PlanError(f"{path} is not text in UTF-8. Give the path of a {what}, like {_EXAMPLES[what]}.") from None
    except OSError as error:
        raise PlanError(f"{path} cannot be read ({error.strerror}). Give the path of a {what}.") from None
    try:
        document = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise PlanError(f"{path} is not YAML{place}: {error.problem}. Quote words that hold braces.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise PlanError(f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise PlanError(
            f"{path} is nested too deeply to be read. Write lists and mappings a few levels deep."
        ) from None
    if document is None:
        return {}
    if _num_values(document, {}) > _MOST_VALUES:
        raise PlanError(f"{path} stands for more than {_MOST_VALUES:,} values. Use fewer aliases (*name).")
    if not isinstance(document, dict):
        raise PlanError(
            f"{path} holds a {type(document).__name__}, not a mapping of sections like `train: {{steps: 20}}`."
        )
    return document


def decode(kind: type[T], document: Mapping[str, Any], where: str) -> T:
    """`document` as a frozen dataclass; unknown keys are refused with the nearest name, wrong types with the value."""
    _refuse_unknown(kind, document, where)
    try:
        text = json.dumps({key: value for key, value in document.items() if not _is_empty_section(kind, key, value)})
    except (TypeError, ValueError, RecursionError):
        raise PlanError(
            f"{where} holds binary or circular data. Use plain numbers, words, lists and mappings."
        ) from None
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        raise PlanError(f"{where}: {_explain(error)}") from None


def _num_values(value: object, counted: dict[int, int]) -> int:
    """Values that a document stands for with its aliases written out; `counted`: of lists and mappings seen."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counted:
        counted[id(value)] = 0  # of what holds itself
        inside = value.values() if isinstance(value, dict) else value
        counted[id(value)] = 1 + sum(_num_values(each, counted) for each in inside)
    return counted[id(value)]


def _override(document: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise PlanError(f"--set {text}: write it as section.key=value, like --set train.steps=20.")
    section = document
    for name in path[:-1]:
        inner = section[name] = _opened(section.get(name), _PRESETS.get(name) if section is document else None)
        if not isinstance(inner, dict):
            raise PlanError(f"--set {text}: {name} is {inner!r}, not a section.")
        section = inner
    try:
        section[path[-1]] = yaml.load(value, _Loader)
    except (yaml.YAMLError, ValueError):
        raise PlanError(f"--set {text}: '{value}' is not a YAML value.") from None


def _opened(found: object, preset: object) -> object:
    """A section that can be changed: an empty one where there is none, `{preset: NAME}` of the name of one."""
    if preset is None:
        return {} if found is None else found
    name = preset if found is None else found
    return {"preset": name} if isinstance(name, str) else name


def _refuse_unknown(kind: type, document: Mapping[str, Any], where: str, section: tuple[str, ...] = ()) -> None:
    """Refuse the first key that `kind` does not have. (pydantic ignores unknown keys of plain dataclasses.)"""
    types = {field.name: field.type for field in dataclasses.fields(kind)}
    for key, value in document.items():
        if key not in types:
            place = f" in {'.'.join(section)}" if section else ""
            raise PlanError(f"{where}: unknown key '{key}'{place}. {nearest(str(key), types)}")
        inner = _dataclass_of(types[key])
        if inner and isinstance(value, dict):
            _refuse_unknown(inner, value, where, (*section, str(key)))


def _is_empty_section(kind: type, key: str, value: object) -> bool:
    """Whether `key:` is a section with nothing in it (all commented out), which is one of defaults."""
    return value is None and any(f.name == key and _dataclass_of(f.type) for f in dataclasses.fields(kind))


def _dataclass_of(annotation: object) -> type | None:
    """The dataclass that a field's type is or allows."""
    kinds = (annotation, *getattr(annotation, "__args__", ()))
    return next((kind for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)), None)


def _explain(error: ValidationError) -> str:
    """The first of pydantic's errors, in one sentence with the key, the value and what would work."""
    outer = _place(error.errors()[0])
    # of a union's branches, the one that came farthest is the one that was meant: `[3, x]` is a list, not a word
    inside = [each for each in error.errors() if _place(each) == outer or _place(each).startswith(f"{outer}.")]
    first = max(inside, key=lambda each: _place(each).count("."))
    key = _place(first)
    value = repr(first["input"])
    if first["type"] == "missing":
        return f"{key} is missing. Give it a value."
    if first["type"] == "value_error":
        return f"{key}: {first['msg'].removeprefix('Value error, ')}"
    if first["type"] in {"too_long", "too_short"}:
        return f"{key} is {value}; write {first['ctx'].get('max_length', first['ctx'].get('min_length'))} values."
    if first["type"] in {"literal_error", "enum"} and len(error.errors()) == 1:
        return f"{key} is {value}. Use {_wanted(first)}."
    # a union gives one error for each of its branches
    wanted = dict.fromkeys(_wanted(each) for each in error.errors() if _place(each) == key)
    return f"{key} is {value}, but should be {' or '.join(wanted)}."


def _place(error: ErrorDetails) -> str:
    """The key that an error is about; names of a union's branches (`Parallel`, `str`) are no keys."""
    return ".".join(str(part) for part in error["loc"] if not _BRANCH.fullmatch(str(part)))


def _wanted(error: ErrorDetails) -> str:
    """What would work, in the words of YAML."""
    if error["type"] in {"literal_error", "enum"}:
        return str(error["ctx"]["expected"])
    said = error["msg"].removeprefix("Input should be ")
    return _YAML_WORDS.get(said, said)


_BRANCH = re.compile(r"[A-Z]\w*|str|int|float|literal\[.*\]|dict\[.*\]|tuple\[.*\]|function-.*")
_YAML_WORDS = {
    "an object": "a mapping",
    "a valid dictionary": "a mapping",
    "a valid array": "a list",
    "a valid string": "a word",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
}


class _Loader(yaml.SafeLoader):
    """Scalars of YAML 1.2's core schema, and no key twice."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 -- PyYAML's way to declare it

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 -- PyYAML's
        """A mapping, refusing a key that stands in it twice."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = next((key for i, key in enumerate(keys) if key in keys[:i]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{twice}' stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    text = loader.construct_scalar(node)
    if text.lstrip("+-").isdecimal():
        return int(text)
    value = float(text)
    return int(value) if value.is_integer() and "." not in text and "e-" not in text.lower() else value


_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|Null|NULL|~|)$"), ["n", "N", "~", ""])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "!number", re.compile(r"^[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"), list("-+.0123456789")
)
_Loader.add_constructor("!number", _number)
