"""Accelerators of this host: their device nodes, and what npu-smi, hccn_tool and nvidia-smi say about them."""

import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headway import env
from headway.launch.device_nodes import ASCEND, NVIDIA, numbered
from headway.launch.doctor import npu_smi, nvidia_smi
from headway.launch.doctor.looking import tool
from headway.launch.doctor.machine import Gpus, Npus
from headway.units import Seconds

WITHIN = Seconds(8.0)  # npu-smi takes seconds on a host of 16
_ABSENT_AS_DIRECTORY = "it is a directory: an engine makes one for a mount that the host does not have"


def npus(root: Path = Path("/")) -> Npus:
    """Ascend's devices. npu-smi is asked where it is, hccn_tool where npu-smi shows a chip."""
    dev = root / "dev"
    found = numbered(root / ASCEND.lstrip("/"))
    nodes, denied = tuple(found), tuple(n for n, path in found.items() if not os.access(path, os.R_OK | os.W_OK))
    manager = all((dev / name).exists() for name in ("davinci_manager", "hisi_hdc"))
    addresses = len(re.findall(r"^address_[0-9]+=", _read(root / "etc/hccn.conf"), re.MULTILINE))
    variables = env.for_tools()
    command = tool.place("npu-smi", variables.get("PATH", ""))
    if command is None:
        trouble = _ABSENT_AS_DIRECTORY if tool.is_directory("npu-smi") else "it is not installed"
        return Npus(nodes, trouble=trouble, manager=manager, denied=denied, addresses=addresses)
    with ThreadPoolExecutor(2) as both:
        asked = [both.submit(tool.run, [command, "info", *more], variables, WITHIN) for more in ((), ("-m",))]
        info, mapping = (each.result() for each in asked)
    table = npu_smi.parse(info.text)
    # the first numbers are those of the device nodes where there are any, else as programs count
    links = _links(nodes or tuple(range(len(table.npus))), variables) if table.npus else {}
    return Npus(nodes, table, npu_smi.logical(mapping.text), _trouble(info, table), manager, denied, links, addresses)


def _trouble(info: tool.Said, table: npu_smi.Table) -> str | None:
    """Why npu-smi's answer is of no use."""
    if npu_smi.is_refused(info.text) or npu_smi.is_refused(info.trouble or ""):
        return "it says that the NPUs are another container's, or that this user may not ask (−8005, −8020)"
    return info.trouble or (None if table.npus else "it shows no table of NPUs")


def _links(numbers: tuple[int, ...], variables: Mapping[str, str]) -> dict[int, bool | None]:
    """Whether the port of each NPU has a link, all asked at once; nothing where there is no hccn_tool."""
    command = tool.place("hccn_tool", variables.get("PATH", ""))
    if command is None or not numbers:
        return {}

    def link(number: int) -> bool | None:
        said = tool.run([command, "-i", str(number), "-link", "-g"], variables, WITHIN).text
        found = re.search(r"link status:\s*(UP|DOWN)\b", said, re.IGNORECASE)
        return found[1].upper() == "UP" if found else None

    with ThreadPoolExecutor(len(numbers)) as all_:
        return dict(zip(numbers, all_.map(link, numbers), strict=True))


def gpus(root: Path = Path("/")) -> Gpus:
    """NVIDIA's devices; nvidia-smi is asked three things at once."""
    nodes = tuple(numbered(root / NVIDIA.lstrip("/")))
    variables = env.for_tools()
    command = tool.place("nvidia-smi", variables.get("PATH", ""))
    if command is None:
        return Gpus(nodes, trouble="it is not installed")
    query = f"--query-gpu={','.join(nvidia_smi.QUERY)}"
    questions = ((query, "--format=csv,noheader,nounits"), (), ("topo", "-m"))
    with ThreadPoolExecutor(len(questions)) as all_:
        listed, plain, matrix = all_.map(lambda words: tool.run([command, *words], variables, WITHIN), questions)
    found, odd = nvidia_smi.gpus(listed.text) if listed.trouble is None else ((), ())
    trouble = listed.trouble or (None if found else "it lists no GPU")
    return Gpus(
        nodes,
        asked=True,
        listed=found,
        odd=odd,
        cuda=nvidia_smi.cuda(plain.text),
        topology=nvidia_smi.topology(matrix.text),
        trouble=trouble,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
