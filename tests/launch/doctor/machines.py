"""Described hosts for the checks: healthy ones without accelerators, with 8 NPUs and with 8 GPUs, to be changed."""

from headway.launch.doctor.checks.job import Needs
from headway.launch.doctor.machine import (
    Clock,
    Engine,
    Gpus,
    Machine,
    Network,
    Npus,
    RdmaPort,
    Software,
    Space,
    Torch,
)
from headway.launch.doctor.npu_smi import Npu, Table
from headway.launch.doctor.nvidia_smi import Gpu, Topology
from headway.launch.interfaces import Interface, Make
from headway.units import Bytes, Seconds

GIB = 2**30
WANTED = {"numpy": ("1.26", ""), "torch": ("2.11", "train"), "tensorboard": ("2.18", "train")}
PACKAGES = {"headway": "0.1.0", "numpy": "2.4.6", "torch": "2.13.0+cpu", "tensorboard": "2.21.0"}


def torch(**changes):
    return Torch(**{"version": "2.13.0+cpu", "backends": ("gloo",), "seconds": Seconds(2.5), **changes})


def port(name, **changes):
    fields = {"make": Make.PORT, "carrier": True, "mtu": 9000, "speed": 200e9, "card": None, **changes}
    return Interface(name, **fields)


LOOPBACK = Interface("lo", Make.LOOPBACK, carrier=True, mtu=65536, ipv4="127.0.0.1")
ETHERNET = Interface(
    "eth0", Make.PORT, carrier=True, mtu=1500, speed=25e9, ipv4="10.0.0.7", default_route=True, card="0000:03:00"
)
DISK = Space("/data", Bytes(1000 * GIB), Bytes(400 * GIB), writable=True)

CPU = Machine(
    "host-7",
    "Linux 6.1 x86_64",
    64,
    Bytes(512 * GIB),
    Bytes(500 * GIB),
    Software("3.11.7", PACKAGES, WANTED, torch=torch()),
    Npus(trouble="it is not installed"),
    Gpus(trouble="it is not installed"),
    Network((ETHERNET, LOOPBACK), resolved="10.0.0.7"),
    Space("/dev/shm", Bytes(256 * GIB), Bytes(256 * GIB), writable=True),
    DISK,
    None,
    Clock(synchronised=True, error=Seconds(0.002)),
    passing=range(32768, 61000),
    engine=Engine("unix:///var/run/docker.sock", there=True, version="28.3.0", runtimes=("runc",)),
)


def npu(number, **changes):
    fields = {
        "npu": number, "chip": 0, "number": None, "name": "910B3", "health": "OK", "bus": f"0000:C{number}:00.0",
        "used": Bytes(3 * GIB), "memory": Bytes(64 * GIB), **changes,
    }  # fmt: skip
    return Npu(**fields)


def gpu(index, **changes):
    fields = {
        "index": index, "name": "NVIDIA H100 80GB HBM3", "driver": "550.54.15", "memory": Bytes(80 * GIB),
        "used": Bytes(2**22), "compute_mode": "Default", "mig": False, "uncorrected": 0, **changes,
    }  # fmt: skip
    return Gpu(**fields)


def ascend(**changes):
    """A host of 8 NPUs; `changes` are those of its NPUs."""
    table = Table("23.0.3", tuple(map(npu, range(8))))
    fields = {"nodes": tuple(range(8)), "table": table, "logical": tuple(range(8)), "addresses": 8, **changes}
    fields.setdefault("links", dict.fromkeys(range(8), True))
    software = Software(
        "3.11.7",
        PACKAGES | {"torch-npu": "2.13.0"},
        WANTED,
        ("torch_npu",),
        torch(backends=("gloo", "hccl"), devices={"npu": (Bytes(64 * GIB),) * 8}),
        torch(),
        {"Ascend driver": "24.1.rc2"},
    )
    fields_of_host = {**_fields(CPU), "software": software, "npus": Npus(**fields), "reserved": (range(60000, 60016),)}
    return Machine(**fields_of_host)


def nvidia(**changes):
    """A host of 8 GPUs with a card each, all joined by NVLink; `changes` are those of its GPUs."""
    names = tuple(f"GPU{i}" for i in range(8))
    cards = tuple(f"NIC{i}" for i in range(8))
    cells = {(a, b): "NV18" for a in names for b in names if a != b}
    cells |= {(a, b): "PIX" if a[3:] == b[3:] else "SYS" for a in names for b in cards}
    fields = {
        "nodes": tuple(range(8)), "asked": True, "listed": tuple(map(gpu, range(8))), "cuda": (12, 4),
        "topology": Topology(names, cards, cells), **changes,
    }  # fmt: skip
    software = Software(
        "3.11.7",
        PACKAGES,
        WANTED,
        torch=torch(cuda="12.4", backends=("gloo", "nccl"), devices={"cuda": (Bytes(80 * GIB),) * 8}),
    )
    rdma = tuple(RdmaPort(f"mlx5_{i}", 1, active=True, rate=400e9, ethernet=True) for i in range(8))
    network = Network((ETHERNET, LOOPBACK), rdma, "10.0.0.7")
    return Machine(**{**_fields(CPU), "software": software, "gpus": Gpus(**fields), "network": network})


def needs(**changes):
    """A job of 8 ranks on one host of the kind `cpu`."""
    fields = {
        "kind": "cpu", "ranks": 8, "hosts": 1, "workers": 1, "shares_memory": True, "fullest": "node 0",
        "used": Bytes(4 * GIB), "kept": Bytes(30 * GIB), "directory": DISK, "run": DISK, **changes,
    }  # fmt: skip
    return Needs(**fields)


def _fields(machine):
    return {name: getattr(machine, name) for name in type(machine).__dataclass_fields__}
