"""Examine: every check on a described host, in the order in which findings are shown."""

from headway.launch.doctor.checks import devices, host, job, network, software
from headway.launch.doctor.checks.job import Needs
from headway.launch.doctor.finding import Finding, Subject
from headway.launch.doctor.machine import Machine
from headway.launch.interfaces import Kind

_ORDER = list(Subject)


def examine(machine: Machine, needs: Needs | None = None) -> tuple[Finding, ...]:
    """What is found on a host, and whether a job's plan fits it where its `needs` are given."""
    kind = needs.kind if needs else kind_of(machine)
    found = [
        *software.check(machine),
        *devices.check(machine),
        *network.check(machine, kind, alone=needs is None or needs.hosts == 1),
        *host.check(machine),
        *(job.check(needs, machine) if needs else ()),
    ]
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.subject)))


def kind_of(machine: Machine) -> Kind:
    """The kind of device that a job would use here."""
    kinds = machine.kinds
    return "npu" if "npu" in kinds else "cuda" if "cuda" in kinds else "cpu"
