"""Software of this host: Python, packages and what they need, and torch in processes of its own."""

import importlib.util
import json
import platform
import re
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from headway import env
from headway.launch.doctor.looking import tool
from headway.launch.doctor.machine import Software, Torch
from headway.units import Bytes, Seconds

IMPORT_WITHIN = Seconds(45.0)  # 2 to 4 s on a quiet machine; from a cold network disk several times as long
PLUGINS = "torch.backends"  # entry points that `import torch` loads by itself since 2.5
# where Ascend's installers write what they have put there: name → file, line
_FILES = {
    "Ascend driver": ("usr/local/Ascend/driver/version.info", r"^Version=(\S{1,40})"),
    "CANN": ("usr/local/Ascend/ascend-toolkit/latest/*/ascend_toolkit_install.info", r"^version=(\S{1,40})"),
}
_WANTED = re.compile(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)(?:.*extra\s*==\s*['\"](\w+)['\"])?")


def look(root: Path = Path("/")) -> Software:
    """All but torch, which takes its time: see `torch`."""
    wanted = _wanted()
    names = dict.fromkeys(("headway", "torch", "torch-npu", *wanted))
    installed = {name: version for name in names if (version := _version(name))}
    files = {name: version for name, where in _FILES.items() if (version := _in_file(root, *where))}
    return Software(platform.python_version(), installed, wanted, plugins(), files=files)


def plugins() -> tuple[str, ...]:
    """Names of the plug-ins that `import torch` loads by itself."""
    return tuple(sorted(each.name for each in metadata.entry_points(group=PLUGINS)))


def is_installed(name: str) -> bool:
    """Whether there is a package to import, however it came there."""
    return importlib.util.find_spec(name) is not None


def torch(*, autoload: bool) -> Torch:
    """What importing torch shows, as a job's workers would import it, or without the plug-ins that load themselves."""
    variables = env.for_workers() | ({} if autoload else {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    before = time.monotonic()
    said = tool.run([sys.executable, "-m", "headway.train.about"], variables, IMPORT_WITHIN)
    found = _document(said.text)
    if said.trouble or found is None:
        why = found.get("trouble") if found else None
        return Torch(str(why or said.trouble or "it imports, but does not say what it is"))
    return Torch(
        None,
        str(found["version"]),
        found["cuda"],
        tuple(found["backends"]),
        {kind: tuple(Bytes(each["memory"]) for each in devices) for kind, devices in found["devices"].items()},
        found["gloo"],
        Seconds(time.monotonic() - before),
    )


def _document(text: str) -> dict[str, Any] | None:
    """The last line that is our document; plug-ins may write around it."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.keys() & {"backends", "trouble"}:
            return found
    return None


def _wanted() -> dict[str, tuple[str, str]]:
    """What Headway asks for, as its own metadata has it (pyproject.toml): name → (least version, extra or '')."""
    try:
        lines = metadata.requires("headway") or []
    except metadata.PackageNotFoundError:  # run from a folder
        lines = []
    matches = filter(None, map(_WANTED.match, lines))
    return {match[1].lower(): (match[2], match[3] or "") for match in matches if match[3] in {None, "train"}}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _in_file(root: Path, pattern: str, line: str) -> str | None:
    try:
        texts = [path.read_text("utf-8", "replace") for path in sorted(root.glob(pattern))]
    except OSError:
        return None
    found = next(filter(None, (re.search(line, text, re.MULTILINE) for text in texts)), None)
    return found[1] if found else None
