"""Devices: NPUs and GPUs of the host, whether their tools see them all, their health, and how near their network is."""

from collections import Counter
from collections.abc import Iterator, Sequence

from headway.launch.doctor.finding import NOTHING, Finding, Status, Subject
from headway.launch.doctor.machine import Gpus, Machine, Npus
from headway.launch.doctor.nvidia_smi import Topology
from headway.units import show_bytes

_HEALTHY = {"OK"}
_FAR = {"NODE", "SYS"}  # another bridge of the processor, or another processor
_SHOWN = 4  # of a list that may be long


def check(machine: Machine) -> Iterator[Finding]:
    """Everything about accelerators."""
    if machine.npus and (machine.npus.nodes or machine.npus.table):
        yield from npus(machine.npus)
    if machine.gpus and (machine.gpus.nodes or machine.gpus.asked):
        yield from gpus(machine.gpus)
    yield from _seen_by_torch(machine)
    if not machine.kinds:
        what = f"no accelerator: ranks compute on the {machine.cores} cores"
        yield Finding(Subject.DEVICES, "accelerators", Status.OK, what, numbers={"cores": machine.cores})


def npus(found: Npus) -> Iterator[Finding]:
    """Ascend: nodes against npu-smi's table, health, who uses them, and their own network ports."""
    chips = found.table.npus if found.table else ()
    numbers = {
        "nodes": len(found.nodes),
        "npu_smi": len(chips),
        "version": found.table.version if found.table else None,
    }
    if found.trouble:
        yield Finding(
            Subject.DEVICES, "npu-smi", Status.WARN,
            f"{len(found.nodes)} NPUs have device nodes, but npu-smi is of no help: {found.trouble}",
            _npu_smi_remedy(found), numbers,
        )  # fmt: skip
    else:
        sizes = _several(show_bytes(each.memory) for each in chips)
        what = f"{len(chips)} × {_several(each.name for each in chips)} of {sizes}, npu-smi {numbers['version']}"
        yield Finding(Subject.DEVICES, "NPUs", Status.OK, what, numbers=numbers)
    if found.table and found.table.odd:
        what = f"{len(found.table.odd)} lines of npu-smi's table are none that is known, like: {found.table.odd[0]}"
        yield Finding(Subject.DEVICES, "npu-smi table", Status.WARN, what, "Look at `npu-smi info` yourself.")
    if chips and len(found.nodes) != len(chips):
        what = f"{len(found.nodes)} device nodes /dev/davinciN, but npu-smi shows {len(chips)} NPUs"
        remedy = "Give the container a --device for each, or load the driver again (npu-smi info -m shows who is who)."
        yield Finding(Subject.DEVICES, "NPU nodes", Status.WARN, what, remedy, numbers)
    if found.nodes and not found.manager:
        what = "/dev/davinci_manager or /dev/hisi_hdc is missing, without which no NPU can be opened"
        remedy = (
            "In a container: make it with `headway container create`, which gives both. On a host: load the driver."
        )
        yield Finding(Subject.DEVICES, "NPU manager", Status.WARN, what, remedy)
    if found.denied:
        what = f"this user may not open {_some([f'/dev/davinci{number}' for number in found.denied])}"
        remedy = "Join the group that owns them (ls -l /dev/davinci0); in a container: --group-add its number."
        yield Finding(Subject.DEVICES, "NPU rights", Status.WARN, what, remedy, {"denied": len(found.denied)})
    ill = [each for each in chips if each.health not in _HEALTHY]
    if ill:
        what = f"not healthy: {_some([f'NPU {each.npu} chip {each.chip} ({each.health})' for each in ill])}"
        remedy = "Ask `npu-smi info -t health -i N`, and take the NPU out of the job until it says OK."
        yield Finding(Subject.DEVICES, "NPU health", Status.WARN, what, remedy, {"ill": len(ill)})
    yield from _npus_in_use(found)
    yield from _npu_ports(found)


def _npus_in_use(found: Npus) -> Iterator[Finding]:
    holders = found.table.holders if found.table else ()
    if holders:
        said = _some([f"{each.name} (process {each.pid}) on NPU {each.npu}" for each in holders])
        remedy = "Wait for it, end it, or name other devices: an NPU belongs to one job at a time."
        yield Finding(
            Subject.DEVICES, "NPUs in use", Status.WARN, f"in use: {said}", remedy, {"processes": len(holders)}
        )


def _npu_ports(found: Npus) -> Iterator[Finding]:
    """The network port that each NPU has of its own, for HCCL between hosts."""
    down = [number for number, up in found.links.items() if up is False]
    unknown = [number for number, up in found.links.items() if up is None]
    numbers = {"asked": len(found.links), "down": len(down), "addresses": found.addresses}
    if down:
        what = (
            f"the network port of {_some([f'NPU {number}' for number in down])} has no link: no job over several hosts"
        )
        remedy = (
            "Look at the cable and the switch: hccn_tool -i N -link -g, and -lldp -g for the port at the other end."
        )
        yield Finding(Subject.NETWORK, "NPU ports", Status.WARN, what, remedy, numbers)
    elif unknown:
        what = f"hccn_tool does not say whether {_some([f'NPU {number}' for number in unknown])} has a link"
        yield Finding(Subject.NETWORK, "NPU ports", Status.WARN, what, "Ask it: hccn_tool -i N -link -g.", numbers)
    elif found.links:
        what = f"all {len(found.links)} network ports of NPUs have a link"
        yield Finding(Subject.NETWORK, "NPU ports", Status.OK, what, NOTHING, numbers)
    if found.links and found.addresses < len(found.links):
        what = f"/etc/hccn.conf gives {found.addresses} device addresses for {len(found.links)} NPUs"
        remedy = "Set the others (hccn_tool -i N -ip -s address … netmask …); in a container, mount /etc/hccn.conf."
        yield Finding(Subject.NETWORK, "NPU addresses", Status.WARN, what, remedy, numbers)


def gpus(found: Gpus) -> Iterator[Finding]:
    """NVIDIA: nodes against nvidia-smi's list, memory errors, who uses them, and how they reach their neighbours."""
    listed, numbers = found.listed, {"nodes": len(found.nodes), "nvidia_smi": len(found.listed)}
    if found.trouble:
        what = f"{len(found.nodes)} GPUs have device nodes, but nvidia-smi is of no help: {found.trouble}"
        remedy = "Install or load the driver; in a container that lost it (Failed to initialize NVML), make it again."
        yield Finding(Subject.DEVICES, "nvidia-smi", Status.WARN, what, remedy, numbers)
    else:
        sizes = _several(show_bytes(each.memory) for each in listed)
        drivers = _several(each.driver for each in listed)
        what = f"{len(listed)} × {_several(each.name for each in listed)} of {sizes}, driver {drivers}"
        yield Finding(Subject.DEVICES, "GPUs", Status.OK, what, numbers=numbers)
    if found.odd:
        what = f"{len(found.odd)} lines of nvidia-smi's list are none that is known, like: {found.odd[0]}"
        yield Finding(Subject.DEVICES, "nvidia-smi list", Status.WARN, what, "Look at nvidia-smi yourself.")
    if listed and len(found.nodes) != len(listed):
        what = f"{len(found.nodes)} device nodes /dev/nvidiaN, but nvidia-smi lists {len(listed)} GPUs"
        remedy = "Make the missing nodes (nvidia-modprobe -u -c 0), or give the container all GPUs that it shall have."
        yield Finding(Subject.DEVICES, "GPU nodes", Status.WARN, what, remedy, numbers)
    broken = [each for each in listed if each.uncorrected]
    if broken:
        what = f"memory errors that could not be mended: {_some([f'GPU {g.index} ({g.uncorrected})' for g in broken])}"
        remedy = (
            "Reset those GPUs (nvidia-smi --gpu-reset -i N) or leave them out; have them replaced if it comes again."
        )
        yield Finding(Subject.DEVICES, "GPU memory errors", Status.WARN, what, remedy, {"gpus": len(broken)})
    shut = [each for each in listed if each.compute_mode == "Prohibited"]
    if shut:
        what = f"no program may compute on {_some([f'GPU {each.index}' for each in shut])} (compute mode Prohibited)"
        remedy = "As root: nvidia-smi -c DEFAULT."
        yield Finding(Subject.DEVICES, "GPU compute mode", Status.WARN, what, remedy, {"gpus": len(shut)})
    cut = [each for each in listed if each.mig]
    if cut:
        what = f"{_some([f'GPU {each.index}' for each in cut])} may be cut into MIG slices, which NCCL cannot join"
        remedy = "For training over several devices have MIG switched off (nvidia-smi -mig 0, as root)."
        yield Finding(Subject.DEVICES, "MIG", Status.WARN, what, remedy, {"gpus": len(cut)})
    used = [each for each in listed if each.used > each.memory // 20]
    if used:
        what = f"in use: {_some([f'GPU {each.index} ({show_bytes(each.used)})' for each in used])}"
        remedy = "See who (nvidia-smi), and wait for them or name other GPUs (CUDA_VISIBLE_DEVICES)."
        yield Finding(Subject.DEVICES, "GPUs in use", Status.WARN, what, remedy, {"gpus": len(used)})
    yield from topology(found.topology)


def topology(found: Topology) -> Iterator[Finding]:
    """How GPUs reach each other and the nearest card, as `nvidia-smi topo -m` draws it."""
    apart, pairs = found.without_nvlink, len(found.gpus) * (len(found.gpus) - 1) // 2
    if apart and len(apart) < pairs:
        what = f"{len(apart)} of {pairs} pairs of GPUs have no NVLink, like {' and '.join(apart[0])}"
        remedy = "Keep tensor groups on GPUs that NVLink joins; find dead links: nvidia-smi nvlink -s."
        yield Finding(Subject.DEVICES, "NVLink", Status.WARN, what, remedy, {"pairs": pairs, "without": len(apart)})
    elif pairs:
        how = "no pair of GPUs has" if apart else "all pairs of GPUs have"
        yield Finding(
            Subject.DEVICES, "NVLink", Status.OK, f"{how} NVLink", NOTHING, {"pairs": pairs, "without": len(apart)}
        )
    near = {gpu: each for gpu in found.gpus if (each := found.nearest(gpu))}
    far = {gpu: each for gpu, each in near.items() if each[1] in _FAR}
    if far:
        gpu, (nic, distance) = next(iter(far.items()))
        many = f"{len(far)} of {len(found.gpus)} GPUs have no network card near them"
        what = f"{many}: {gpu}'s nearest, {nic}, is {distance}"
        remedy = "Put cards and GPUs under the same switches, or expect less than the network's rate."
        yield Finding(Subject.NETWORK, "cards near GPUs", Status.WARN, what, remedy, {"far": len(far)})
    elif near:
        shared = Counter(nic for nic, _ in near.values()).most_common(1)[0]
        most = f"; {shared[0]} serves {shared[1]}" if shared[1] > 1 else ""
        what = f"each of {len(near)} GPUs has a network card near it{most}"
        yield Finding(Subject.NETWORK, "cards near GPUs", Status.OK, what, NOTHING, {"far": 0})


def _seen_by_torch(machine: Machine) -> Iterator[Finding]:
    """Devices that the host has and torch does not show."""
    tried = machine.software.torch if machine.software else None
    if tried is None or tried.trouble:
        return
    for kind, count in machine.kinds.items():
        seen = len(tried.devices.get(kind, ()))
        if seen == count:
            continue
        name, variable = ("NPUs", "ASCEND_RT_VISIBLE_DEVICES") if kind == "npu" else ("GPUs", "CUDA_VISIBLE_DEVICES")
        what = f"the host has {count} {name}, torch {tried.version} shows {seen}"
        remedy = f"Look at {variable}."
        if not seen:
            build = (
                "torch-npu of torch's release, and source CANN's set_env.sh" if kind == "npu" else "torch's CUDA build"
            )
            remedy = f"Install {build}; look at {variable} too."
        yield Finding(Subject.DEVICES, f"{name} in torch", Status.WARN, what, remedy, {"host": count, "torch": seen})


def _npu_smi_remedy(found: Npus) -> str:
    trouble = found.trouble or ""
    if "container" in trouble:
        return "Find the container that has them (headway container list); end it, or run this as root."
    if "directory" in trouble or "not installed" in trouble:
        return "In a container mount the host's npu-smi and /usr/local/dcmi, read-only; on a host install the driver."
    return "Run `npu-smi info` yourself; if it hangs or finds nothing, load the driver again or restart the host."


def _several(words: "Sequence[str] | Iterator[str]") -> str:
    """Each different word once."""
    return " and ".join(dict.fromkeys(words)) or "nothing"


def _some(words: Sequence[str]) -> str:
    """The first few, and how many there are besides."""
    rest = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return f"{', '.join(words[:_SHOWN])}{rest}"
