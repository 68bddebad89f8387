"""What no linter can hold: first lines, file length, the README's tree, who may print, planning without torch."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "headway").rglob("*.py"))
NAMES = [file.relative_to(ROOT).as_posix() for file in FILES]
MAX_LINES = 320
# ratchets: they may only fall
MAX_NOQA = 4
MAX_TYPE_IGNORE = 0


def _source(name):
    return (ROOT / name).read_text(encoding="utf-8")


def _first_line(name):
    return (ast.get_docstring(ast.parse(_source(name))) or "").partition("\n")[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_first_line_of_a_file_is_one_sentence(name):
    line = _first_line(name)
    assert line.endswith("."), f"{name} begins with '{line}', not with one sentence on one line"
    assert not re.search(r"[.!?] [A-Z]", line), f"{name} begins with more than one sentence: {line}"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_in_one_sitting(name):
    assert len(_source(name).splitlines()) <= MAX_LINES


def test_the_readmes_tree_repeats_the_first_line_of_each_file():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = re.search(r"^headway/.*?(?=^```|\Z)", text, re.MULTILINE | re.DOTALL)
    if not tree:
        pytest.skip("README.md has no tree yet: no line of it starts with headway/")
    lines = tree[0].splitlines()
    for name in NAMES:
        path = Path(name)
        shown = f"{path.parent.name}/" if path.name == "__init__.py" else path.name
        said = _first_line(name).rstrip(".")
        assert any(shown in line and said in line for line in lines), f"README.md's tree lacks: {shown} {said}"
    known = {Path(name).name for name in NAMES}
    gone = set(re.findall(r"\b\w+\.py\b", tree[0])) - known
    assert not gone, f"README.md's tree names files that do not exist: {sorted(gone)}"


def test_planning_and_simulating_never_import_torch():
    code = "import headway.plan.build, headway.sim.simulate, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("headway/cli/")])
def test_only_the_command_line_prints(name):
    calls = [node for node in ast.walk(ast.parse(_source(name))) if isinstance(node, ast.Call)]
    prints = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
    assert not prints, f"{name} prints at lines {prints}"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "headway/env.py"])
def test_only_env_reads_environment_variables(name):
    found = [
        node.lineno
        for node in ast.walk(ast.parse(_source(name)))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb"}
    ]
    assert not found, f"{name} reads environment variables at lines {found}"


@pytest.mark.parametrize(("mark", "most"), [("# noqa", MAX_NOQA), ("# type: ignore", MAX_TYPE_IGNORE)])
def test_exceptions_from_the_linters_only_become_fewer(mark, most):
    found = [f"{name}:{i}" for name in NAMES for i, line in enumerate(_source(name).splitlines(), 1) if mark in line]
    assert len(found) <= most, f"{len(found)} lines have {mark}, {most} are allowed: {found}"


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("headway/train/")])
def test_the_examples_in_docstrings_are_true(name):
    if ">>>" not in _source(name):
        return
    module = importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed
