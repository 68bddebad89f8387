"""A container runtime that asks for no more than this host's root may give, and else is runc.

Root of a test machine may lack CAP_SYS_RESOURCE: then no limit can be raised and that capability not be handed on, so
`--ulimit memlock=-1` and `--privileged` would fail. This stands between the engine and runc, where
ascend-docker-runtime has its place too. Run as a program by the engine.
"""

import itertools
import json
import os
import resource
import shutil
import sys
from pathlib import Path


def within_limits(process):
    """The process of a runtime spec with what the host can give."""
    for kind, names in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in names if name != "CAP_SYS_RESOURCE"]
    for limit in process.get("rlimits") or []:
        hard = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if hard != resource.RLIM_INFINITY:
            limit["hard"] = min(limit["hard"], hard)
            limit["soft"] = min(limit["soft"], limit["hard"])
    return process


def _value(words, *names):
    for before, word in itertools.pairwise(words):
        if before in names:
            return word
    joined = (word.partition("=") for word in words)
    return next((value for name, equals, value in joined if equals and name in names), None)


def main(words):
    """Rewrite the spec that `words` name, then become runc."""
    if "create" in words or "run" in words:
        path = Path(_value(words, "--bundle", "-b") or ".") / "config.json"
        spec = json.loads(path.read_text(encoding="utf-8"))
        within_limits(spec["process"])
        path.write_text(json.dumps(spec), encoding="utf-8")
    elif "exec" in words and (name := _value(words, "--process", "-p")):
        path = Path(name)
        path.write_text(json.dumps(within_limits(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    runc = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin")
    os.execv(runc, ["runc", *words])


if __name__ == "__main__":
    main(sys.argv[1:])
