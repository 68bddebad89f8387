"""What torch is on this host: version, devices and working backends, as one line of JSON for the doctor.

python -m headway.train.about      (in a process of its own: a plug-in may break the import, or hang in it)
"""

import json
import re
import sys
from types import ModuleType
from typing import Any


def describe() -> dict[str, Any]:
    """Version, backends, and for each kind of accelerator that torch shows its devices.

    `gloo`: why one rank cannot even make a group of itself, which binds gloo to an interface; None where it can.
    """
    import torch
    import torch.distributed as dist

    from headway.train.device import backend

    kinds = {kind: _devices(kind) for kind in ("cuda", "npu")}
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "backends": [name for name in map(backend, ("cpu", *kinds)) if dist.is_backend_available(name)],
        "devices": {kind: found for kind, found in kinds.items() if found},
        "gloo": _gloo(),
    }


def chain(error: BaseException) -> str:
    """An error and what it came from: torch hides what broke a plug-in behind one of its own."""
    found, seen = [], error
    while True:
        found.append(f"{type(seen).__name__}: {str(seen).strip().partition(chr(10))[0]}")
        before = seen.__cause__ or seen.__context__
        if before is None:
            return ", from ".join(found)
        seen = before


def _devices(kind: str) -> list[dict[str, Any]]:
    import torch

    try:
        module = torch.get_device_module(kind)
        return [_device(module, index) for index in range(module.device_count())]
    except (RuntimeError, AttributeError, AssertionError):
        return []


def _device(module: ModuleType, index: int) -> dict[str, Any]:
    found = module.get_device_properties(index)
    return {"name": str(found.name), "memory": int(found.total_memory)}


def _gloo() -> str | None:
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore  # torch.distributed exports it untyped

    try:
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
    except (RuntimeError, ValueError) as error:
        # gloo's own place in its source comes first, which tells nobody anything
        return re.sub(r"^\[[^\]]*\]\s*", "", str(error).partition("\n")[0])
    return None


def main() -> int:
    """Write the line; the exit status is 1 where torch does not import, and the line says why."""
    try:
        document = describe()
    except Exception as error:  # a plug-in may raise anything
        sys.stdout.write(f"{json.dumps({'trouble': chain(error)})}\n")
        return 1
    sys.stdout.write(f"{json.dumps(document)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
