"""The environment of a job's hosts: interfaces and limits of gloo, NCCL and HCCL, what is passed on and what masked."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headway.errors import PlanError
from headway.fabric import export
from headway.fabric.fabric import Fabric
from headway.launch.interfaces import Kind, exports
from headway.launch.local import AGENT_GRACE

Variables = tuple[tuple[str, str], ...]

MASK = "****"
CONNECT = 300  # seconds: hosts join one after another, and the trainer's watchdog waits as long (train/pulse.py)
RAILS_AND_PLANES = (2, 30, 5)  # NCCL's first version whose documents name the two fields and what merges by them
# passed on from where the launcher runs to other hosts, if set; all else stays at home
PASSED = ("LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "TZ")
PASSED_PREFIXES = (
    "ASCEND_",
    "CPU_AFFINITY_",
    "CUDA_",
    "GLOO_",
    "HCCL_",
    "NCCL_",
    "OMP_",
    "PYTORCH_",
    "TORCH_",
)
# of one host alone: another's numbers, addresses or files mean nothing there
_OWN = re.compile(r"CUDA_VISIBLE_DEVICES|ASCEND_(RT_)?VISIBLE_DEVICES|HCCL_IF_IP|(NCCL|CUDA|ASCEND)_\w*(FILE|HOSTID)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:-]{0,63}")
_SECRET = re.compile(
    r"TOKEN(?!IZ)|KEY|SECRET|PASSW|PASSPHRASE|_PASS$|_PWD$|CREDENTIAL|AUTH|COOKIE|PRIVATE", re.IGNORECASE
)
_PUBLIC = frozenset({"NCCL_IB_PKEY"})  # the number of an InfiniBand partition
UNSPOKEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # control characters, and bytes that are no UTF-8
_USERINFO = re.compile(r"(?<=://)\S+(?=@)")  # up to the last @: passwords may hold one, and a /


@dataclass(frozen=True, slots=True)
class Network:
    """What the job's traffic goes over.

    `interface`: of the sockets on every host; None leaves the choice to each library. `nccl`: its version, and `fabric`
    the network, which together give NCCL the rail and plane of each port.
    """

    kind: Kind
    interface: str | None = None
    nccl: tuple[int, int, int] | None = None
    fabric: Fabric | None = None

    def __post_init__(self) -> None:
        if self.interface is not None and not _INTERFACE.fullmatch(self.interface):
            raise PlanError(f"{self.interface!r} is no name of a network interface. They read like eth0 or bond0.")


def parse_nccl(text: str) -> tuple[int, int, int]:
    """NCCL's version from its text.

    >>> parse_nccl("2.30.5")
    (2, 30, 5)
    """
    match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})(-\d+)?", text)
    if not match:
        raise PlanError(f"'{text}' is no version of NCCL. Write it like 2.30.5.")
    return int(match[1]), int(match[2]), int(match[3])


def derived(network: Network) -> Variables:
    """What Headway sets by itself; the user's own settings come before it.

    Limits: the trainer's watchdog (train.hang_after) ends what stands still and names it, so HCCL's own end of an
    operation, which would come in the middle of a long save, is off (0), as torch's is.
    """
    found = {"OMP_NUM_THREADS": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(AGENT_GRACE)}
    if network.interface is not None:
        found |= exports(network.interface, network.kind)
    if network.kind == "cuda":
        found |= _rails(network)
    if network.kind == "npu":
        found |= {"HCCL_CONNECT_TIMEOUT": str(CONNECT), "HCCL_EXEC_TIMEOUT": "0"}
    return tuple(sorted(found.items()))


def variables(
    network: Network, here: Mapping[str, str], named: Iterable[str] = (), *, only_named: bool = False
) -> Variables:
    """The environment of every host: what is derived, what of `here` the allow-list passes on, and what is `named`.

    `here` is the launcher's environment. `named` words are `NAME=VALUE`, or `NAME` for its value here; they win over
    what is passed on, and that over what is derived. `only_named` passes nothing else on: to containers, where this
    machine's paths mean nothing. Raises PlanError for values that no line can hold.
    """
    allowed = {} if only_named else here
    passed = {name: value for name, value in allowed.items() if _is_passed(name, value) and not UNSPOKEN.search(value)}
    chosen = {}
    for word in named:
        name, equals, value = word.partition("=")
        check_variable(name, value)
        if not equals and name not in here:
            raise PlanError(f"--env {name}: it is not set here. Give it a value: --env {name}=VALUE.")
        chosen[name] = value if equals else here[name]
        check_variable(name, chosen[name])
    return tuple(sorted({**dict(derived(network)), **passed, **chosen}.items()))


def is_secret(name: str, value: str = "") -> bool:
    """Whether a variable is nobody else's business: by its name, or because its value is an address with a password.

    >>> is_secret("HF_TOKEN"), is_secret("http_proxy", "http://me:hush@proxy"), is_secret("TOKENIZERS_PARALLELISM")
    (True, True, False)
    """
    return bool(_SECRET.search(name) and name not in _PUBLIC) or bool(_USERINFO.search(value))


def masked(found: Variables) -> Variables:
    """The variables as they may be printed: no secrets, and no passwords in addresses."""
    return tuple((name, MASK if is_secret(name) else _USERINFO.sub(MASK, value)) for name, value in found)


def check_variable(name: str, value: str) -> None:
    """Raise PlanError for a name that no shell takes, or a value that no line holds. The value is not repeated."""
    if not _NAME.fullmatch(name):
        raise PlanError(f"{name!r} is no name of a variable. Names have letters, digits and underscores.")
    if UNSPOKEN.search(value):
        raise PlanError(
            f"the value of {name} has control characters or is no UTF-8, which cannot be passed on. Put it into a file."
        )


def _is_passed(name: str, value: str) -> bool:
    wanted = name in PASSED or (name.startswith(PASSED_PREFIXES) and not _OWN.fullmatch(name))
    return wanted and bool(_NAME.fullmatch(name)) and not is_secret(name, value)


def _rails(network: Network) -> dict[str, str]:
    if network.fabric is None:
        return {}
    if network.nccl is None or network.nccl < RAILS_AND_PLANES:
        said = ".".join(map(str, network.nccl)) if network.nccl else "of a version that is not told"
        raise PlanError(
            f"NCCL {said} may not know rails and planes in NCCL_IB_HCA: its documents name them from "
            f"{'.'.join(map(str, RAILS_AND_PLANES))} on. Say which you have with --nccl, or leave --fabric out."
        )
    line = "".join(export.nccl(network.fabric))
    name, _, value = line.partition("=")
    return {name: value}
