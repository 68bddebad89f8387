"""Containers of Slurm sites: a host's part inside an image by Pyxis (over Enroot) or Apptainer."""

import re
from dataclasses import dataclass
from typing import Literal

from headway.errors import PlanError
from headway.launch.interfaces import Kind
from headway.launch.launch_plan import Bind, HostLaunch, check_path

_UNSPOKEN = re.compile(r"[:,+]")  # both write lists of paths with these signs, and know no quoting
_IMAGE = re.compile(r"[A-Za-z0-9/._][A-Za-z0-9/._:@#+-]*")


@dataclass(frozen=True, slots=True)
class Container:
    """An image, and which of a site's tools starts it."""

    tool: Literal["pyxis", "apptainer"]
    image: str


def parse_container(text: str) -> Container:
    """The container of `TOOL:IMAGE`.

    >>> parse_container("apptainer:/images/headway.sif")
    Container(tool='apptainer', image='/images/headway.sif')
    """
    tool, _, image = text.partition(":")
    if tool not in ("pyxis", "apptainer"):
        raise PlanError(f"--container {text!r}: write pyxis:IMAGE or apptainer:IMAGE, whichever the site has.")
    return Container("pyxis" if tool == "pyxis" else "apptainer", _image(image))


def inside(container: Container | None, host: HostLaunch, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """srun's options and the words that it starts, so that a host's part runs in the container, if there is one."""
    if container is None:
        return (), host.arguments
    match container.tool:
        case "pyxis":
            return pyxis(container.image, host), host.arguments
        case "apptainer":
            return (), apptainer(container.image, host, kind)


def pyxis(image: str, host: HostLaunch) -> tuple[str, ...]:
    """Options of srun that start a host's part in an image: a registry's, or a path of an Enroot squashfs.

    Variables of the host's part win over the image's of the same name.
    """
    names = ",".join(name for name, _ in host.environment)
    mounts = ",".join(_mount(each) for each in host.mounts)
    return (
        f"--container-image={_image(image)}",
        *([f"--container-mounts={mounts}"] if mounts else []),
        f"--container-workdir={host.directory}",
        *([f"--container-env={names}"] if names else []),
        "--no-container-mount-home",
    )


def apptainer(image: str, host: HostLaunch, kind: Kind) -> tuple[str, ...]:
    """Words that start a host's part in an image (a .sif file or a registry's): its arguments follow them.

    The environment of the host comes in by itself, so there is nothing to pass.
    """
    binds = [word for each in host.mounts for word in ("--bind", _mount(each))]
    gpus = ["--nv"] if kind == "cuda" else []
    return ("apptainer", "exec", *gpus, "--no-home", *binds, "--pwd", host.directory, _image(image), *host.arguments)


def _image(image: str) -> str:
    if not _IMAGE.fullmatch(image):
        raise PlanError(f"{image!r} is no image. Give a name like registry/name:tag, or the path of an image's file.")
    return image


def _mount(bind: Bind) -> str:
    """`source:target`, or with `:ro`; both tools have rights behind a second colon."""
    for path in (bind.source, bind.target):
        check_path(path)
        if _UNSPOKEN.search(path):
            raise PlanError(
                f"the path {path} has a colon, comma or plus, which no list of mounts can hold. Link to it."
            )
    return f"{bind.source}:{bind.target}{':ro' if bind.read_only else ''}"
