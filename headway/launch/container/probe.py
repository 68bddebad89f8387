"""Host: what of a profile this machine has; the only place that looks at it."""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.launch.container.profiles import Kind, Profile
from headway.launch.container.wanted import Wanted
from headway.launch.device_nodes import numbered

_CDI = ("/etc/cdi", "/var/run/cdi")


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as far as a container is concerned. Paths are those of the machine; a path it lacks is in no mapping.

    `parts` are the profile's paths, below `root`. `places` are the sources of the user's own mounts and devices, and
    `real` where they are once links are followed.
    """

    root: str
    accelerators: tuple[int, ...]  # N of /dev/davinciN or /dev/nvidiaN
    parts: Mapping[str, Kind]
    places: Mapping[str, Kind]
    real: Mapping[str, str]
    group: int | None  # that owns the accelerators' nodes
    cdi: bool  # a Container Device Interface spec names NVIDIA's GPUs


def look(profile: Profile, wanted: Wanted, root: str = "/") -> Host:
    """What this machine has of `profile` and of the user's own mounts and devices.

    `root` is another tree to look for the profile's parts in, for tries without accelerators.
    """
    root = "" if root == "/" else root.rstrip("/")
    nodes = numbered(Path(f"{root}{profile.node}")) if profile.node else {}
    own = [*(each.source for each in wanted.mounts), *(each.source for each in wanted.devices)]
    return Host(
        root,
        tuple(sorted(nodes)),
        _kinds((source for part in profile.parts for source in part.sources), root),
        _kinds(own),
        {path: os.path.realpath(path) for path in own},
        nodes[min(nodes)].stat().st_gid if nodes else None,
        any(_names_gpus(Path(root + folder)) for folder in _CDI),
    )


def _kinds(paths: Iterable[str], root: str = "") -> dict[str, Kind]:
    found = {path: _kind(Path(root + path)) for path in paths}
    return {path: kind for path, kind in found.items() if kind}


def _kind(path: Path) -> Kind | None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return Kind.DEVICE
    return Kind.DIRECTORY if stat.S_ISDIR(mode) else Kind.FILE


def _names_gpus(folder: Path) -> bool:
    try:
        files = [each for each in folder.iterdir() if each.suffix in {".json", ".yaml"}]
        return any("nvidia.com/gpu" in each.read_text("utf-8", "replace") for each in files)
    except OSError:
        return False
