"""Topologies: the fabric of a shape, built column by column."""

import numpy as np
from numpy.typing import NDArray

from headway.fabric import shape as shapes
from headway.fabric.check import check
from headway.fabric.fabric import NONE, Column, Fabric, Tier
from headway.fabric.shape import Shape
from headway.units import parse_bandwidth

Whole = NDArray[np.int64]


def build(shape: Shape) -> Fabric:
    """The fabric of `shape`, its ports checked.

    Nodes: GPUs host by host (active hosts first, pod by pod and segment by segment, then the backup hosts), ToRs by
    segment, rail and ToR, Aggs by pod, plane and Agg, cores by plane. Raises PlanError where a switch lacks ports.
    """
    gpus, tors, aggs, cores = _gpus(shape), _tors(shape), _aggs(shape), _cores(shape)
    ends = [_access(shape, gpus, tors), _uplinks(shape, tors, aggs), _core_links(shape, aggs, cores)]
    speeds = [shape.nic_speed, shape.link_speed, shape.link_speed]
    starts = np.cumsum([0, len(gpus["pod"]), len(tors["pod"]), len(aggs["pod"])])
    switches = sum(len(each["pod"]) for each in (tors, aggs, cores))
    columns = {
        name: np.concatenate([each[name] for each in (gpus, tors, aggs, cores)]).astype(np.int32)
        for name in ("tier", "pod", "segment", "rail", "plane")
    }
    return check(
        Fabric(
            name=str(shape),
            gpus_per_host=shape.gpus_per_host,
            **columns,
            backup=gpus["backup"].astype(bool),
            names=(*_tor_names(tors), *_agg_names(aggs), *_core_names(cores)),
            num_ports=np.full(switches, shape.switch_ports, np.int32),
            port_rate=np.full(switches, float(parse_bandwidth(shape.switch_speed))),
            lower=_joined([low + start for (low, _), start in zip(ends, starts[:3], strict=True)]),
            upper=_joined([up + start for (_, up), start in zip(ends, starts[1:], strict=True)]),
            capacity=np.repeat([float(parse_bandwidth(speed)) for speed in speeds], [len(low) for low, _ in ends]),
            per_port_core=shape.core_hash == "port" and shape.cores > 0,
            assumptions=_assumptions(shape),
        )
    )


def named(text: str) -> Fabric:
    """The fabric of a shape's text: `hpn`, `dcn+ pods=2`."""
    return build(shapes.parse(text))


Nodes = dict[str, Whole]


def _gpus(shape: Shape) -> Nodes:
    parts = []
    for hosts, backup in ((shape.hosts, 0), (shape.backup_hosts, 1)):
        pod, segment, _, gpu = _grid(shape.pods, shape.segments, hosts, shape.gpus_per_host)
        parts.append((pod, pod * shape.segments + segment, gpu % shape.rails, np.full_like(pod, backup)))
    pod, segment, rail, spare = (np.concatenate(each) for each in zip(*parts, strict=True))
    return _columns(Tier.GPU, pod, segment=segment, rail=rail, backup=spare)


def _tors(shape: Shape) -> Nodes:
    pod, segment, rail, tor = _grid(shape.pods, shape.segments, shape.rails, shape.tors)
    plane = (rail * shape.tors + tor) % shape.planes
    return _columns(Tier.TOR, pod, segment=pod * shape.segments + segment, rail=rail, plane=plane, number=tor)


def _aggs(shape: Shape) -> Nodes:
    pod, plane, agg = _grid(shape.pods, shape.planes, shape.aggs)
    return _columns(Tier.AGG, pod, plane=plane, number=agg)


def _cores(shape: Shape) -> Nodes:
    plane, core = _grid(shape.planes, shape.cores)
    return _columns(Tier.CORE, np.full_like(plane, NONE), plane=plane, number=core)


def _access(shape: Shape, gpus: Nodes, tors: Nodes) -> tuple[Whole, Whole]:
    """GPU and ToR of each port of each network card."""
    gpu, port = _grid(len(gpus["pod"]), shape.nic_ports)
    assert len(tors["pod"]) == shape.num_tors
    return gpu, (gpus["segment"][gpu] * shape.rails + gpus["rail"][gpu]) * shape.tors + port % shape.tors


def _uplinks(shape: Shape, tors: Nodes, aggs: Nodes) -> tuple[Whole, Whole]:
    """ToR and Agg of each link: every Agg of the ToR's pod and plane, `tor_links` times."""
    tor, agg, _ = _grid(len(tors["pod"]), shape.aggs, shape.tor_links)
    assert len(aggs["pod"]) == shape.pods * shape.planes * shape.aggs
    return tor, (tors["pod"][tor] * shape.planes + tors["plane"][tor]) * shape.aggs + agg


def _core_links(shape: Shape, aggs: Nodes, cores: Nodes) -> tuple[Whole, Whole]:
    """Agg and core of each link: neighbouring Aggs of a plane share a group of its cores."""
    agg, link = _grid(len(aggs["pod"]), shape.core_links)
    if not len(cores["pod"]):
        return agg, agg
    reached = shape.cores // shape.core_groups
    group = aggs["number"][agg] * shape.core_groups // shape.aggs
    return agg, aggs["plane"][agg] * shape.cores + group * reached + link % reached


def _assumptions(shape: Shape) -> tuple[str, ...]:
    if not shape.cores:
        return ()
    share = shape.aggs // shape.core_groups
    said = (
        f"No source gives the wiring of the cores. Assumed: {shape.cores} cores a plane in "
        f"{shape.core_groups} {'group' if shape.core_groups == 1 else 'groups'} of {shape.cores // shape.core_groups}; "
        f"each group joins {share} neighbouring Aggs of the plane in each pod, {shape.core_links} links an Agg."
    )
    return (said,)


def _columns(tier: Tier, pod: Whole, **given: Whole) -> Nodes:
    empty = np.full_like(pod, NONE)
    return {"tier": np.full_like(pod, tier), "pod": pod, **dict.fromkeys(("segment", "rail", "plane"), empty), **given}


def _grid(*sizes: int) -> tuple[Whole, ...]:
    """Coordinates of every cell of a grid, the last axis fastest: one column an axis."""
    return tuple(each.ravel() for each in np.indices(sizes, np.int64))


def _joined(parts: list[Whole]) -> Column:
    return np.concatenate(parts).astype(np.int32)


def _rows(nodes: Nodes, *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(nodes[name].tolist() for name in names), strict=True))


def _tor_names(nodes: Nodes) -> list[str]:
    return [f"tor-s{s}-r{r}-{n}" for s, r, n in _rows(nodes, "segment", "rail", "number")]


def _agg_names(nodes: Nodes) -> list[str]:
    return [f"agg-p{pod}-{plane}-{n}" for pod, plane, n in _rows(nodes, "pod", "plane", "number")]


def _core_names(nodes: Nodes) -> list[str]:
    return [f"core-{plane}-{n}" for plane, n in _rows(nodes, "plane", "number")]
