"""The inside of a node drawn: its ports, the GPUs that they are nearest to and its CPUs; and a row of text a GPU."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from headway.fabric.fabric import NONE
from headway.fabric.fit import Fit
from headway.fabric.node import Gpu, Group, Node, Peer, Port, Way, groups, nearest, way
from headway.report import palette
from headway.report.diagram import Line, Piece
from headway.report.fabric import LABEL, LEAST, WIDEST, boxed, counted, edge, words
from headway.report.ranges import numbers
from headway.units import show_rate

HEAD = ("GPU", "bus", "NVLinks", "nearest ports", "PCI", "GB/s", "rail", "plane")
_MORE = "… 256 more"  # what follows the boxes that fit
_KINDS = {Peer.SWITCH: "switches", Peer.CPU: "the CPU", Peer.GPU: "GPU"}


def draw(node: Node, columns: int, *, coloured: bool) -> tuple[Line, ...]:
    """The picture, `columns` wide at most; without colours, brackets hold ports, GPUs and CPUs together."""
    width = max(LEAST, min(columns, WIDEST) - LABEL)
    found = groups(node)
    ports = [port for group in found for port in group.ports]
    labels = [gpu.dev for gpu in node.gpus] + [port.plane if _on_planes(ports) else port.dev for port in ports]
    least = len(f"[{max(labels)}] ")
    if sum(map(_cells, found)) > width // least:
        width -= len(_MORE)
    room = max(1, width // least)
    ends = itertools.accumulate(map(_cells, found))
    shown = [Group(each.gpus[:room], each.ports[:room]) for each in found[: max(1, sum(end <= room for end in ends))]]
    cell = max(least, width // sum(map(_cells, shown)))
    wide = [cell * _cells(group) for group in shown]
    return tuple(_lines(node, shown, wide, len(ports), coloured=coloured))


def rows(node: Node) -> list[tuple[str, ...]]:
    """For each GPU what stands under HEAD."""
    found: list[tuple[str, ...]] = []
    for gpu in node.gpus:
        ports = nearest(node, gpu)
        ways = [way(gpu.slot, port.slot) for port in ports]
        found.append(
            (
                str(gpu.dev),
                gpu.busid.removeprefix("0000:"),
                nvlinks(gpu),
                ", ".join(map(str, ports)) or "–",
                ways[0].distance.name if ways else "–",
                _span(ways) if ways else "–",
                _told(port.rail for port in ports),
                _told(port.plane for port in ports),
            )
        )
    return found


def facts(node: Node, fit: Fit | None, fabric: str) -> list[tuple[str, str]]:
    """What is said below the table; `fit` is to the fabric of that name."""
    near = {port.dev for group in groups(node) for port in group.ports}
    far = [str(port) for port in node.ports if port.dev not in near]
    sms = sorted({gpu.sm for gpu in node.gpus})
    said = [
        ("GPUs", f"{len(node.gpus)} of compute capability {', '.join(f'{sm // 10}.{sm % 10}' for sm in sms)}"),
        ("CPUs", f"{len(node.cpus)} (NUMA nodes {numbers(node.cpus)})"),
        ("ports", f"{_speeds(node.ports)} on {counted(len(node.cards), 'card')}" if node.ports else "none"),
    ]
    if far:
        said.append(("near no GPU", ", ".join(far)))
    if any(port.rail != NONE or port.plane != NONE for port in node.ports):
        rails, planes = (len({getattr(port, key) for port in node.ports} - {NONE}) for key in ("rail", "plane"))
        said.append(("rails", f"{counted(rails, 'rail')}, {counted(planes, 'plane')}"))
    elif node.ports:
        said.append(("rails", "the file tells neither rails nor planes"))
    if fit:
        equal = ["GPUs", "ports", "speeds", *(["rails"] if fit.rails else []), *(["planes"] if fit.planes else [])]
        said.append((f"fits {fabric}", f"{', '.join(equal[:-1])} and {equal[-1]} are those of its hosts"))
    return said


def nvlinks(gpu: Gpu) -> str:
    """`8 to switches`, `4 each to GPU 1–3`, `–`."""
    found: dict[tuple[Peer, int], list[int]] = {}
    for each in gpu.nvlinks:
        found.setdefault((each.to, each.count), []).append(each.gpu)
    texts = []
    for (peer, count), gpus in found.items():
        known = [dev for dev in gpus if dev != NONE]
        which = f" {numbers(known)}" if known else "s not in the file" if peer is Peer.GPU else ""
        texts.append(f"{count}{' each' if len(known) > 1 else ''} to {_KINDS[peer]}{which}")
    return ", ".join(texts) or "–"


def _lines(node: Node, shown: Sequence[Group], wide: Sequence[int], near: int, *, coloured: bool) -> Iterator[Line]:
    """`near`: ports of all groups, of which `shown` has those that fit."""
    gpus = [(gpu, size // len(group.gpus)) for group, size in zip(shown, wide, strict=True) for gpu in group.gpus]
    ports = [(port, size // len(group.ports)) for group, size in zip(shown, wide, strict=True) for port in group.ports]
    if ports:
        if all(port.rail != NONE for port, _ in ports):
            yield words("", [f"rail {_told(port.rail for port in group.ports)}" for group in shown], wide)
        told = _on_planes([port for port, _ in ports])
        boxes = [
            (str(port.plane if told else port.dev), palette.plane(max(port.plane, 0)), size) for port, size in ports
        ]
        yield _boxes("plane" if told else "port", boxes, near - len(ports), coloured=coloured)
        yield edge(_over_pci(node))
    boxes = [(str(gpu.dev), palette.OTHER, size) for gpu, size in gpus]
    yield _boxes("GPU", boxes, len(node.gpus) - len(gpus), coloured=coloured)
    yield edge(_by_nvlink(node))
    runs = itertools.groupby(gpus, lambda pair: pair[0].slot.cpu)
    boxes = [(str(cpu), palette.OTHER, sum(size for _, size in each)) for cpu, each in runs]
    yield _boxes("CPU", boxes, 0, coloured=coloured)


def _boxes(label: str, boxes: Iterable[tuple[str, str, int]], more: int, *, coloured: bool) -> Line:
    """Boxes of a text, a style and columns each, and how many are left out."""
    pieces = [Piece(label.ljust(LABEL), "bold")]
    for text, style, size in boxes:
        pieces += [Piece(boxed(text, size - 1, coloured=coloured), style if coloured else ""), Piece(" ")]
    return (*pieces, Piece(f"… {more} more", palette.FAINT)) if more else tuple(pieces)


def _on_planes(ports: Sequence[Port]) -> bool:
    return all(port.plane != NONE for port in ports)


def _cells(group: Group) -> int:
    return max(len(group.ports), len(group.gpus))


def _over_pci(node: Node) -> str:
    near = [(gpu, nearest(node, gpu)) for gpu in node.gpus]
    ways = [way(gpu.slot, port.slot) for gpu, ports in near for port in ports]
    names = [distance.name for distance in sorted({found.distance for found in ways})]
    speeds = {_speeds(ports) for _, ports in near}
    what = speeds.pop() if len(speeds) == 1 else "ports"
    return f"{what} near each GPU, {' to '.join(names[:: max(1, len(names) - 1)])}, {_span(ways)} GB/s of PCI"


def _by_nvlink(node: Node) -> str:
    counts = sorted({sum(each.count for each in gpu.nvlinks) for gpu in node.gpus})
    if not counts[-1]:
        return "no NVLinks"
    kinds = sorted({each.to for gpu in node.gpus for each in gpu.nvlinks})
    to = " and ".join("GPUs" if kind is Peer.GPU else _KINDS[kind] for kind in kinds)
    return f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} NVLinks of each GPU to {to}"


def _speeds(ports: Sequence[Port]) -> str:
    rates = sorted(port.rate for port in ports)
    return " + ".join(f"{rates.count(rate)} × {show_rate(rate)}" for rate in dict.fromkeys(rates))


def _span(ways: Iterable[Way]) -> str:
    """Gigabytes a second of the narrowest links: `63.0`, `7.88 to 63.0`."""
    found = sorted({f"{each.rate / 1e9:#.3g}".rstrip(".") for each in ways}, key=float)
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _told(values: Iterable[int]) -> str:
    found = sorted(set(values) - {NONE})
    return ", ".join(map(str, found)) or "–"
