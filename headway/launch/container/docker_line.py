"""A container's spec → the words, and the line, of `docker run` that make it."""

import csv
import io
import shlex

from headway.launch.container.spec import Access, ContainerSpec, Device, Ipc, Mount, Port


def line(spec: ContainerSpec) -> str:
    """The line to copy into a shell: each word is quoted where a shell would do something with it."""
    return shlex.join(words(spec))


def words(spec: ContainerSpec) -> tuple[str, ...]:
    """The words of `docker run`. A value is always behind its option's `=`, so none can become an option itself."""
    return (
        "docker",
        "run",
        "-it" if spec.terminal else "-d",
        f"--name={spec.name}",
        *(f"--label={name}={value}" for name, value in spec.labels),
        f"--network={spec.network}",
        *(f"--publish={_port(each)}" for each in spec.ports),
        *_memory(spec),
        f"--pids-limit={spec.pids_limit}",
        *(f"--ulimit={name}={limit}:{limit}" for name, limit in spec.ulimits),
        *(f"--cap-add={each}" for each in spec.capabilities),
        *(["--privileged"] if spec.privileged else []),
        *([f"--runtime={spec.runtime}"] if spec.runtime else []),
        *_gpus(spec),
        *(f"--device={_device(each)}" for each in spec.devices),
        *(f"--mount={_mount(each)}" for each in spec.mounts),
        *([f"--user={spec.user}"] if spec.user else []),
        *(f"--group-add={each}" for each in spec.groups),
        *([f"--workdir={spec.workdir}"] if spec.workdir else []),
        *(f"--env={name}={value}" for name, value in spec.environment),
        spec.image,
        *spec.command,
    )


def _memory(spec: ContainerSpec) -> tuple[str, ...]:
    size = [f"--shm-size={spec.shm_size}"] if spec.ipc is Ipc.PRIVATE else []
    return (f"--ipc={spec.ipc}", *size)


def _gpus(spec: ContainerSpec) -> tuple[str, ...]:
    if spec.gpus is None:
        return ()
    if spec.gpus.access is Access.CDI:
        return tuple(f"--device={name}" for name in spec.gpus.names)
    # the value is a line of CSV: several numbers are one quoted field of it
    ids = ",".join(map(str, spec.gpus.ids))
    return ("--gpus=all" if not ids else f'--gpus="device={ids}"' if "," in ids else f"--gpus=device={ids}",)


def _port(port: Port) -> str:
    return f"{port.address}:{port.host}:{port.container}/{port.protocol}".removeprefix(":")


def _device(device: Device) -> str:
    return device.source if device.source == device.target else f"{device.source}:{device.target}"


def _mount(mount: Mount) -> str:
    """The value of `--mount`, a line of CSV; unlike `-v` it fails where the source is missing, and takes any path."""
    text = io.StringIO()
    fields = [
        "type=bind",
        f"source={mount.source}",
        f"target={mount.target}",
        *(["readonly"] if mount.read_only else []),
    ]
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()
