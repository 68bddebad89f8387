"""Device nodes of accelerators: which numbers N of /dev/davinciN or /dev/nvidiaN a host has."""

import re
import stat
from pathlib import Path

ASCEND, NVIDIA = "/dev/davinci", "/dev/nvidia"


def numbered(prefix: Path) -> dict[int, Path]:
    """Device nodes `prefix`N by N, in rising order; `davinci_manager` and `nvidiactl` are none."""
    try:
        entries = list(prefix.parent.iterdir())
    except OSError:
        return {}
    matches = {each: re.fullmatch(rf"{re.escape(prefix.name)}([0-9]{{1,4}})", each.name) for each in entries}
    found = {int(match[1]): each for each, match in matches.items() if match and _is_device(each)}
    return dict(sorted(found.items()))


def _is_device(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
