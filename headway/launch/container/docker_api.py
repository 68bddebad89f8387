"""A container's spec → the arguments with which the `docker` package makes the same container."""

from typing import Any

from headway.launch.container.spec import Access, ContainerSpec, Gpus, Port


def keywords(spec: ContainerSpec) -> dict[str, Any]:
    """Arguments of `DockerClient.containers.create`, in plain Python types."""
    return {
        "image": spec.image,
        "name": spec.name,
        "command": list(spec.command),
        "labels": dict(spec.labels),
        "working_dir": spec.workdir,
        "environment": [f"{name}={value}" for name, value in spec.environment],
        "mounts": [
            {"Type": "bind", "Source": each.source, "Target": each.target, "ReadOnly": each.read_only}
            for each in spec.mounts
        ],
        "devices": [f"{each.source}:{each.target}:rwm" for each in spec.devices],
        "device_requests": [_request(spec.gpus)] if spec.gpus else None,
        "runtime": spec.runtime,
        "network_mode": spec.network,
        "ports": _ports(spec.ports),
        "ipc_mode": str(spec.ipc),
        "shm_size": spec.shm_size,
        "pids_limit": spec.pids_limit,
        "ulimits": [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in spec.ulimits],
        "cap_add": list(spec.capabilities),
        "user": spec.user,
        "group_add": [str(each) for each in spec.groups],
        "privileged": spec.privileged,
        "tty": spec.terminal,
        "stdin_open": spec.terminal,
        "restart_policy": {"Name": "no"},  # what `docker run` says; the engine keeps an empty name as it is
        "detach": not spec.terminal,
    }


def _request(gpus: Gpus) -> dict[str, Any]:
    if gpus.access is Access.CDI:
        return {"Driver": "cdi", "DeviceIDs": list(gpus.names)}
    chosen = {"DeviceIDs": [str(each) for each in gpus.ids]} if gpus.ids else {"Count": -1}
    return {"Driver": "", "Capabilities": [["gpu"]], **chosen}


def _ports(ports: tuple[Port, ...]) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = {}
    for each in ports:
        found.setdefault(f"{each.container}/{each.protocol}", []).append((each.address, each.host))
    return found
