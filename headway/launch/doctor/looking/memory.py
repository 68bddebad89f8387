"""Main memory: what this process may use of it, and what is left, within the limits of the groups that it is in."""

import re
from pathlib import Path

from headway import env
from headway.units import Bytes

# of the second and the first version of control groups: where the tree is, what is used, the limit, and, of what is
# used, the cache that is given back when it is wanted
_SECOND = ("sys/fs/cgroup", "memory.current", "memory.max", "inactive_file")
_FIRST = ("sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file")


def look(root: Path = Path("/")) -> tuple[Bytes, Bytes]:
    """All the memory that this process's groups may use, and what of it is left now.

    A container and a job of Slurm are such groups; the narrowest of a group and those around it counts.
    """
    total = env.machine_memory()
    found = re.search(r"^MemAvailable:\s*([0-9]{1,15}) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    available = int(found[1]) * 1024 if found else total
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, place = (*line.split(":", 2), "", "")[:3]
        if controllers in {"", "memory"}:
            tree, used, limit, cache = _FIRST if controllers else _SECOND
            parts = [part for part in place.split("/") if part not in {"", ".."}]
            for depth in range(len(parts) + 1):
                group = root.joinpath(tree, *parts[:depth])
                most = _read(group / limit)
                if not most.isdecimal() or int(most) >= total:
                    continue
                total, left = Bytes(int(most)), int(most) - _number(group / used)
                kept = re.search(rf"^{cache} ([0-9]{{1,18}})$", _read(group / "memory.stat"), re.MULTILINE)
                available = min(available, left + (int(kept[1]) if kept else 0))
    return total, Bytes(max(0, min(available, total)))


def _number(path: Path) -> int:
    text = _read(path)
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
