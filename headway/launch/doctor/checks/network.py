"""Network: the interface that ranks should meet over, the ports of each card, their MTU, and RDMA."""

from collections.abc import Iterator, Sequence

from headway.launch.doctor.finding import NOTHING, Finding, Status, Subject
from headway.launch.doctor.machine import Machine, Network
from headway.launch.interfaces import Interface, Kind, Make, candidates, exports
from headway.units import show_rate

_TRAINING = 100e9  # bits a second from which a port is taken for one of the training network
_READ: dict[Kind, tuple[str, ...]] = {"cpu": ("GLOO",), "cuda": ("GLOO", "NCCL"), "npu": ("GLOO", "HCCL", "TP")}
_LARGE = 4200  # bytes of MTU that RoCE's largest packet of 4096 takes with its headers


def check(machine: Machine, kind: Kind, *, alone: bool) -> Iterator[Finding]:
    """Everything about the network; `alone`: no other host takes part, so that none needs to be reached."""
    found = machine.network
    if found is None:
        return
    yield from bound(found, kind)
    yield interface(found, kind, alone=alone)
    yield from ports(found.interfaces)
    yield from mtu(found.interfaces)
    yield from rdma(found)


def bound(found: Network, kind: Kind) -> Iterator[Finding]:
    """Variables that name an interface or address which this host does not have.

    gloo's is read by every job, the others by those on their devices alone.
    """
    names = {each.name: each for each in found.interfaces}
    addresses = {each.address for each in found.interfaces}
    for variable, value in found.variables.items():
        if variable == "HCCL_IF_IP":
            good = value in addresses
        elif value.startswith("^"):  # NCCL and HCCL: all but these
            good = True
        else:
            wanted = [word.lstrip("=") for word in value.split(",")]
            prefix = variable.startswith(("NCCL", "HCCL")) and not value.startswith("=")
            good = any(name == word or (prefix and name.startswith(word)) for word in wanted for name in names)
        if not good:
            what = f"{variable} is {value}, but this host has {', '.join(names)}"
            remedy = f"Set it to an interface that every host has, or take it out: unset {variable}."
            read = variable.startswith(_READ[kind])
            yield Finding(
                Subject.NETWORK, variable, Status.FAIL if read else Status.WARN, what, remedy, {"value": value}
            )


def interface(found: Network, kind: Kind, *, alone: bool) -> Finding:
    """Which interface gloo, NCCL and HCCL should bind, why, and what to export."""
    usable = candidates(found.interfaces)
    if not usable:
        what = "no interface is up with an address by which other hosts could reach this one"
        remedy = "Bring one up for a job over several hosts; on one host ranks meet over 127.0.0.1."
        status = Status.OK if alone else Status.FAIL
        return Finding(Subject.NETWORK, "interface", status, what, remedy)
    first = usable[0]
    why = "it has the default route" if first.default_route else "it is the fastest with an address"
    others = f"; {', '.join(each.name for each in usable[1:])} could be used too" if usable[1:] else ""
    what = f"ranks should meet over {first.name} ({first.address}): {why}{others}"
    wanted = exports(first.name, kind, first.address)
    said = " ".join(f"{name}={value}" for name, value in wanted.items())
    numbers = {"interface": first.name, "address": first.address, "speed": first.speed, "export": said}
    misled = found.resolved != first.address
    if misled:
        where = f"leads to {found.resolved}" if found.resolved else "leads nowhere"
        what = f"{what}. The host's own name {where}, which is what gloo would bind"
    unset = [name for name in wanted if name not in found.variables]
    if alone or not unset or not (misled or len(usable) > 1):
        remedy = f"With several hosts: export {said}." if unset else NOTHING
        return Finding(Subject.NETWORK, "interface", Status.OK, what, remedy, numbers)
    return Finding(Subject.NETWORK, "interface", Status.WARN, what, f"On each host: export {said}.", numbers)


def ports(interfaces: Sequence[Interface]) -> Iterator[Finding]:
    """Both ports of each card, and the ports of each bond: which have no carrier."""
    for bond in (each for each in interfaces if each.make is Make.BOND):
        mine = [each for each in interfaces if each.name in bond.members]
        yield _ports(f"bond {bond.name} ({bond.bonding or 'mode unknown'})", bond.name, mine)
    cards: dict[str, list[Interface]] = {}
    for each in sorted(interfaces, key=lambda port: port.number):
        if each.make is Make.PORT and each.card:
            cards.setdefault(each.card, []).append(each)
    for card, mine in cards.items():
        if len(mine) > 1 and not all(each.master for each in mine):
            yield _ports(f"card {card}", card, mine)


def _ports(what: str, name: str, mine: Sequence[Interface]) -> Finding:
    up, down = ([each.name for each in mine if each.carrier is state] for state in (True, False))
    numbers = {"ports": len(mine), "up": len(up)}
    bonded = any(each.master for each in mine)
    training = any((each.speed or 0) >= _TRAINING for each in mine)
    if not mine:
        return Finding(Subject.NETWORK, name, Status.WARN, f"{what} has no port", "Give it its ports.", numbers)
    if down and up and (bonded or training):
        lost = f"{', '.join(down)} {'has' if len(down) == 1 else 'have'} no carrier"
        said = f"{what}: {lost}, so that {len(up)} of {len(mine)} ports carry all of its traffic"
        remedy = f"Look at the cable, the optics and the switch port of {', '.join(down)}: ethtool {down[0]}."
        return Finding(Subject.NETWORK, name, Status.WARN, said, remedy, numbers)
    if down and not up and bonded:
        said, remedy = f"{what}: no port has a carrier", f"Look at its cables and switch ports: ethtool {down[0]}."
        return Finding(Subject.NETWORK, name, Status.WARN, said, remedy, numbers)
    speed = f" of {show_rate(mine[0].speed / 8)}" if mine[0].speed else ""
    names = ", ".join(each.name for each in mine)
    said = f"{what}: {len(up)} of {len(mine)} ports{speed} {'has' if len(up) == 1 else 'have'} a carrier ({names})"
    return Finding(Subject.NETWORK, name, Status.OK, said, NOTHING, numbers)


def mtu(interfaces: Sequence[Interface]) -> Iterator[Finding]:
    """Whether the ports of the training network have one MTU, and a large one; else those that ranks may meet over."""
    fast = [each for each in interfaces if each.carrier and (each.speed or 0) >= _TRAINING]
    for bond in (each for each in interfaces if each.make is Make.BOND):
        fast += [each for each in interfaces if each.name in bond.members and each.carrier and each not in fast]
    known = fast or list(candidates(interfaces))
    if not known:
        return
    sizes = {each.mtu: each.name for each in reversed(known)}
    numbers = {each.name: each.mtu for each in known}
    said = ", ".join(f"{name} {size}" for size, name in sorted(sizes.items()))
    if fast and len(sizes) > 1:
        what = (
            f"ports of the training network differ in MTU ({said}): large packets are lost where they meet the smaller"
        )
        remedy = f"Set one on all hosts and switches: ip link set dev NAME mtu {max(*sizes, 9000)}."
        yield Finding(Subject.NETWORK, "MTU", Status.WARN, what, remedy, numbers)
    elif fast and max(sizes) < _LARGE:
        what = f"ports of the training network have an MTU of {max(sizes)}: RoCE's packets of 4096 bytes need {_LARGE}"
        remedy = f"Set 9000 on all hosts and switches: ip link set dev {fast[0].name} mtu 9000."
        yield Finding(Subject.NETWORK, "MTU", Status.WARN, what, remedy, numbers)
    else:
        what = f"MTU: {said}"
        yield Finding(Subject.NETWORK, "MTU", Status.OK, what, "It must be the same on every host.", numbers)


def rdma(found: Network) -> Iterator[Finding]:
    """RDMA ports that are not active."""
    if not found.rdma:
        return
    down = [f"{each.device} port {each.number}" for each in found.rdma if not each.active]
    numbers = {"ports": len(found.rdma), "active": len(found.rdma) - len(down)}
    if down:
        what = f"{len(down)} of {len(found.rdma)} RDMA ports are not active: {', '.join(down)}"
        remedy = "Look at cable and switch (ibstat, rdma link); leave unused ones out with NCCL_IB_HCA."
        yield Finding(Subject.NETWORK, "RDMA", Status.WARN, what, remedy, numbers)
        return
    rates = {show_rate(each.rate / 8) for each in found.rdma if each.rate}
    what = f"{len(found.rdma)} RDMA ports are active{f' at {chr(32).join(sorted(rates))}' if rates else ''}"
    yield Finding(Subject.NETWORK, "RDMA", Status.OK, what, NOTHING, numbers)
