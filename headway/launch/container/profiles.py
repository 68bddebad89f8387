"""What a container of each profile needs of its host, part by part: required, usual and optional told apart."""

from dataclasses import dataclass
from enum import StrEnum

from headway.launch.device_nodes import ASCEND, NVIDIA


class Need(StrEnum):
    """How much a container needs a part.

    REQUIRED cannot be left out. USUAL is required too, but there are hosts without it: only `--without` drops it.
    OPTIONAL is taken where the host has it.
    """

    REQUIRED = "required"
    USUAL = "usual"
    OPTIONAL = "optional"


class Kind(StrEnum):
    """What a path of the host is."""

    DEVICE = "device"
    DEVICES = "directory of devices"
    FILE = "file"
    DIRECTORY = "directory"


class Via(StrEnum):
    """How accelerators come into a container."""

    DEVICES = "devices"  # Ascend: each device node and each mount named
    RUNTIME = "runtime"  # Ascend: ascend-docker-runtime mounts them, told by ASCEND_VISIBLE_DEVICES
    GPUS = "gpus"  # NVIDIA: the engine's --gpus
    CDI = "cdi"  # NVIDIA: names of a Container Device Interface spec


@dataclass(frozen=True, slots=True)
class Part:
    """One thing of the host. `sources` are where it may be, the usual place first, which is its place inside, too."""

    name: str
    need: Need
    kind: Kind
    sources: tuple[str, ...]
    why: str
    by_runtime: bool = False  # ascend-docker-runtime brings it
    capability: str | None = None  # that goes with it

    @property
    def is_device(self) -> bool:
        """Whether it is given as `--device`, not as a mount."""
        return self.kind in {Kind.DEVICE, Kind.DEVICES}


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of host. `vias` are its ways to the accelerators, the one that needs least of the host first."""

    name: str
    vias: tuple[Via, ...]
    parts: tuple[Part, ...]
    ulimits: tuple[tuple[str, int], ...]
    capabilities: tuple[str, ...] = ()
    node: str | None = None  # path of accelerator N's device node, without the N


def _device(name: str, need: Need, why: str) -> Part:
    return Part(name, need, Kind.DEVICE, (f"/dev/{name}",), why, by_runtime=True)


# Sources: mind-cluster, ascend-docker-runtime/build/scripts/base.list; vllm-ascend, docs/source/installation.md;
# MindSpeed-LLM, docs/en/pytorch/training/install_guide.md. /etc/bashrc, which recipes mount too, is left out: it
# overwrites the image's own shell set-up.
_ASCEND = (
    _device("davinci_manager", Need.REQUIRED, "the driver's control node"),
    _device("hisi_hdc", Need.REQUIRED, "host to device communication"),
    _device("devmm_svm", Need.USUAL, "shared virtual memory; Ascend 950 hosts have none"),
    Part(
        # whole: with lib64 alone HCCL on the 950 misses driver/topo (EI0014), and hccn_tool is in driver/tools
        "driver",
        Need.REQUIRED,
        Kind.DIRECTORY,
        ("/usr/local/Ascend/driver",),
        "the driver's libraries and tools",
        by_runtime=True,
    ),
    Part("dcmi", Need.USUAL, Kind.DIRECTORY, ("/usr/local/dcmi",), "what npu-smi asks the devices by", by_runtime=True),
    Part(
        "npu-smi",
        Need.USUAL,
        Kind.FILE,
        ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi"),
        "shows the devices",
        by_runtime=True,
    ),
    Part("ascend_install.info", Need.USUAL, Kind.FILE, ("/etc/ascend_install.info",), "tells CANN where the driver is"),
    Part("hccn.conf", Need.OPTIONAL, Kind.FILE, ("/etc/hccn.conf",), "addresses of the devices, for rank tables"),
    Part("firmware", Need.OPTIONAL, Kind.DIRECTORY, ("/usr/local/Ascend/firmware",), "versions that old tools ask for"),
    Part("add-ons", Need.OPTIONAL, Kind.DIRECTORY, ("/usr/local/Ascend/add-ons",), "of drivers that have them"),
)
_INFINIBAND = Part(
    "infiniband",
    Need.OPTIONAL,
    Kind.DEVICES,
    ("/dev/infiniband",),
    "RDMA; without it NCCL takes slow sockets",
    capability="CAP_IPC_LOCK",  # RDMA pins memory
)

PROFILES = {
    each.name: each
    for each in (
        Profile(
            "ascend",
            (Via.DEVICES, Via.RUNTIME),
            _ASCEND,
            (("memlock", -1), ("nofile", 1_048_576)),
            ("CAP_IPC_LOCK",),
            ASCEND,
        ),
        Profile(
            "nvidia",
            (Via.GPUS, Via.CDI),
            (_INFINIBAND,),
            (("memlock", -1), ("stack", 67_108_864)),
            node=NVIDIA,
        ),
        Profile("cpu", (), (), ()),
    )
}
RUNTIME = "ascend"  # the name that ascend-docker-runtime's installer gives it
VISIBLE = "ASCEND_VISIBLE_DEVICES"  # what it reads; ASCEND_RT_VISIBLE_DEVICES is another, read by CANN in a process


def parts(profile: Profile, via: Via | None, ids: tuple[int, ...]) -> tuple[Part, ...]:
    """Every part of the profile that the container is to be given one by one: the nodes of devices `ids` first."""
    if via is Via.RUNTIME:
        return tuple(each for each in profile.parts if not each.by_runtime)
    if via is not Via.DEVICES:
        return profile.parts
    assert profile.node
    names = (profile.node.removeprefix("/dev/") + str(each) for each in ids)
    nodes = tuple(_device(name, Need.REQUIRED, "an accelerator that was asked for") for name in names)
    return nodes + profile.parts
