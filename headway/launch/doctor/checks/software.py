"""Software: packages, torch with and without its plug-ins, and versions that must go together."""

import re
from collections.abc import Iterator

from headway.launch.doctor.finding import NOTHING, Finding, Status, Subject
from headway.launch.doctor.machine import Gpus, Machine, Software, Torch
from headway.units import show_seconds

INSTALL = "pip install 'headway[train]'"
OPTIONAL = {"tensorboard": "runs write no event files for TensorBoard", "tokenizers": "no tokenizer.json can be used"}


def check(machine: Machine) -> Iterator[Finding]:
    """Everything about software; nothing where it could not be looked at."""
    found = machine.software
    if found is None:
        return
    yield packages(found)
    yield torch(found)
    if found.torch and not found.torch.trouble:
        yield gloo(found.torch)
    if found.plugins:
        yield plugins(found)
    if "torch-npu" in found.packages:
        yield torch_npu(found)
    if found.torch and found.torch.cuda and machine.gpus:
        yield cuda(found.torch.cuda, machine.gpus)
    yield same(found)


def packages(found: Software) -> Finding:
    """Whether all that training needs is installed, and new enough."""
    lacking = {
        name: f"{name} {found.packages.get(name, 'is missing')} (at least {least})"
        for name, (least, _) in found.wanted.items()
        if name not in found.packages or _older(found.packages[name], least)
    }
    heavy = [name for name in lacking if name not in OPTIONAL]
    remedy = f"Install it: {INSTALL}."
    numbers = {name: found.packages.get(name) for name in found.wanted}
    if heavy:
        said = "; ".join(lacking[name] for name in lacking)
        return Finding(Subject.SOFTWARE, "packages", Status.FAIL, f"Headway lacks {said}", remedy, numbers)
    if lacking:
        said = "; ".join(f"{lacking[name]}: {OPTIONAL[name]}" for name in lacking)
        return Finding(Subject.SOFTWARE, "packages", Status.WARN, said, remedy, numbers)
    what = f"Python {found.python}, Headway {found.packages.get('headway', 'from a folder')} and all that it needs"
    return Finding(Subject.SOFTWARE, "packages", Status.OK, what, numbers=numbers)


def torch(found: Software) -> Finding:
    """Whether `import torch` works as it comes; if it does not, whether a plug-in is to blame."""
    tried, bare = found.torch, found.bare
    numbers = {
        "version": tried.version if tried else None,
        "works": bool(tried and not tried.trouble),
        "works_without_plugins": None if bare is None else not bare.trouble,
    }
    if tried is None:
        what = "torch is not installed: jobs can be planned and simulated here, not trained"
        return Finding(Subject.SOFTWARE, "torch", Status.FAIL, what, f"Install it: {INSTALL}.", numbers)
    if not tried.trouble:
        backends = ", ".join(tried.backends) or "no backend"
        what = f"torch {tried.version} imports in {show_seconds(tried.seconds)} and has {backends}"
        if bare is not None and bare.trouble:
            what = f"{what}; without its plug-ins it does not import: {bare.trouble}"
            return Finding(Subject.SOFTWARE, "torch", Status.WARN, what, "Install torch again.", numbers)
        return Finding(Subject.SOFTWARE, "torch", Status.OK, what, numbers=numbers)
    if bare is None or bare.trouble:
        what, remedy = f"torch does not import: {tried.trouble}", f"Install it again: {INSTALL} --force-reinstall."
    else:
        what = (
            f"torch {bare.version} imports, but not with its plug-ins ({', '.join(found.plugins)}), which load "
            f"themselves: {tried.trouble}"
        )
        remedy = _plugin_remedy(found)
    return Finding(Subject.SOFTWARE, "torch", Status.FAIL, what, remedy, numbers)


def gloo(tried: Torch) -> Finding:
    """Whether gloo, which every job uses, can open a connection at all."""
    if "gloo" not in tried.backends:
        what, remedy = "this torch was built without gloo, which every job uses", f"Install another: {INSTALL}."
        return Finding(Subject.SOFTWARE, "gloo", Status.FAIL, what, remedy)
    if tried.gloo:
        what = f"gloo cannot open a connection: {tried.gloo}"
        remedy = "Take GLOO_SOCKET_IFNAME out of the environment, or name an interface that is up (see network)."
        return Finding(Subject.SOFTWARE, "gloo", Status.FAIL, what, remedy)
    return Finding(Subject.SOFTWARE, "gloo", Status.OK, "gloo opens a connection and adds up a tensor")


def plugins(found: Software) -> Finding:
    """Which plug-ins load themselves with torch."""
    names = ", ".join(found.plugins)
    what = f"{names} load{'s' if len(found.plugins) == 1 else ''} with torch (TORCH_DEVICE_BACKEND_AUTOLOAD=0 stops it)"
    return Finding(Subject.SOFTWARE, "plug-ins", Status.OK, what, numbers={"plugins": names})


def torch_npu(found: Software) -> Finding:
    """Whether torch-npu is of torch's own release, and torch one without CUDA."""
    theirs, ours = found.packages["torch-npu"], found.packages.get("torch", "")
    numbers = {"torch_npu": theirs, "torch": ours}
    if _release(theirs) != _release(ours):
        what = f"torch-npu {theirs} does not belong to torch {ours or '(missing)'}: their releases go in pairs"
        remedy = f"Install torch-npu {_release(ours)}.*, or torch {_release(theirs)}.*."
        return Finding(Subject.SOFTWARE, "torch-npu", Status.WARN, what, remedy, numbers)
    built = (found.torch and found.torch.cuda) or (found.bare and found.bare.cuda)
    if built:
        what = f"torch {ours} is built for CUDA {built}, beside which torch-npu may refuse to load"
        remedy = "Install torch's CPU build: pip install torch --index-url https://download.pytorch.org/whl/cpu."
        return Finding(Subject.SOFTWARE, "torch-npu", Status.WARN, what, remedy, numbers)
    return Finding(
        Subject.SOFTWARE, "torch-npu", Status.OK, f"torch-npu {theirs} belongs to torch {ours}", NOTHING, numbers
    )


def cuda(built: str, gpus: Gpus) -> Finding:
    """Whether the driver knows the CUDA version that torch is built for; within one major version it does."""
    numbers = {"torch": built, "driver": ".".join(map(str, gpus.cuda)) if gpus.cuda else None}
    if gpus.cuda is None:
        what = f"torch is built for CUDA {built}; no driver says which version it knows"
        if not gpus.nodes:
            return Finding(Subject.SOFTWARE, "CUDA", Status.OK, what, NOTHING, numbers)
        return Finding(Subject.SOFTWARE, "CUDA", Status.WARN, what, "Look whether nvidia-smi works.", numbers)
    known = ".".join(map(str, gpus.cuda))
    if int(built.partition(".")[0]) > gpus.cuda[0]:
        what = f"torch is built for CUDA {built}, but the driver knows CUDA {known} at most"
        remedy = f"Install a newer driver, or a torch for CUDA {gpus.cuda[0]}."
        return Finding(Subject.SOFTWARE, "CUDA", Status.WARN, what, remedy, numbers)
    what = f"torch's CUDA {built} runs on a driver for CUDA {known}"
    return Finding(Subject.SOFTWARE, "CUDA", Status.OK, what, NOTHING, numbers)


def same(found: Software) -> Finding:
    """What every host of a job must have alike."""
    names = ("headway", "torch", "torch-npu", "numpy")
    numbers = {"python": found.python} | {name: found.packages[name] for name in names if name in found.packages}
    numbers |= found.files
    what = f"every host of a job must have the same: {', '.join(f'{name} {v}' for name, v in numbers.items())}"
    remedy = "With several hosts, compare this line on each of them."
    return Finding(Subject.SOFTWARE, "versions", Status.OK, what, remedy, dict(numbers))


def _plugin_remedy(found: Software) -> str:
    remedy = "For a job without that device: export TORCH_DEVICE_BACKEND_AUTOLOAD=0."
    if "torch_npu" in found.plugins or "torch-npu" in found.packages:
        return (
            "Source CANN's set_env.sh in the shell that starts the job (a container's exec does not), and see that the "
            f"driver's lib64 is there. {remedy}"
        )
    return f"Install the plug-in of torch's own release again. {remedy}"


def _release(version: str) -> str:
    """Major and minor version."""
    return ".".join(version.split(".")[:2])


def _older(version: str, least: str) -> bool:
    return _numbers(version) < _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, as long as one can tell: 2.13.0+cpu → (2, 13, 0)."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
