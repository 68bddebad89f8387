"""A real Docker engine for tests, with own socket and data; and a host tree with NPUs that are none."""

import contextlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from headway.errors import JobError
from headway.launch.container.engine import connected
from headway.units import Seconds

IMAGE = "headway-test/busybox:1"
OTHER = "headway-test/other:1"
_APPLETS = (
    "sh",
    "sleep",
    "ls",
    "cat",
    "echo",
    "test",
    "true",
    "env",
    "id",
    "stat",
    "pwd",
    "touch",
    "df",
    "tail",
    "mount",
)
_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


@contextlib.contextmanager
def engine(folder):
    """The variables with which programs reach an engine that lives as long as this does; skips where there is none."""
    dockerd, busybox = (shutil.which(name, path=_PATH) for name in ("dockerd", "busybox"))
    missing = "dockerd" if not dockerd else "busybox" if not busybox else None
    if missing or os.geteuid():
        why = f"there is no {missing}" if missing else "only root may start one"
        pytest.skip(f"needs a Docker engine (apt-get install docker.io busybox-static) and root: {why}")
    socket = f"unix://{folder}/sock"
    runtime = folder / "runtime"
    runtime.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("limited_runtime.py")} "$@"\n')
    runtime.chmod(0o755)
    runtimes = {name: {"path": str(runtime)} for name in ("limited", "ascend")}
    config = {
        "hosts": [socket],
        "data-root": f"{folder}/data",
        "exec-root": f"{folder}/exec",
        "pidfile": f"{folder}/pid",
        "iptables": False,
        "ip6tables": False,
        "bridge": "none",
        "default-runtime": "limited",
        "runtimes": runtimes,
    }
    (folder / "daemon.json").write_text(json.dumps(config))
    variables = {**os.environ, "PATH": _PATH, "DOCKER_HOST": socket}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [dockerd, f"--config-file={folder}/daemon.json"], stdout=log, stderr=log, env={**os.environ, "PATH": _PATH}
        )
    try:
        _wait(process, socket, folder)
        _load(socket, busybox)
        yield variables
    finally:
        _end(process, socket, folder)


def _client(socket):
    return connected({"DOCKER_HOST": socket}, Seconds(60))


def _wait(process, socket, folder):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(JobError), _client(socket):
            return
        time.sleep(0.2)
    said = (folder / "log").read_text("utf-8", "replace")[-1500:]
    pytest.skip(f"needs a Docker engine, and the one here does not start: {said}")


def _end(process, socket, folder):
    if process.poll() is None:
        with _client(socket) as client:
            for container in client.containers.list(all=True):
                container.remove(force=True)
        process.terminate()
        process.wait(timeout=60)
    subprocess.run(["umount", f"{folder}/exec/netns/default"], capture_output=True, check=False)


def _load(socket, busybox):
    """Two images from a static busybox: no registry is asked."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in ("bin", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(folder)
        tar.add(os.path.realpath(busybox), "bin/busybox")
        for name in _APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    with _client(socket) as client:
        for image in (IMAGE, OTHER):
            repository, _, tag = image.partition(":")
            client.api.import_image_from_data(data.getvalue(), repository=repository, tag=tag)


def ascend_tree(root, num_devices=8, without=()):
    """An Ascend host's devices and driver files below `root`, less those in whose path is one of `without`."""
    devices = [f"dev/davinci{each}" for each in range(num_devices)]
    devices += ["dev/davinci_manager", "dev/devmm_svm", "dev/hisi_hdc"]
    files = ["usr/local/Ascend/driver/lib64/libascend_hal.so", "usr/local/Ascend/driver/version.info"]
    files += ["usr/local/dcmi/libdcmi.so", "usr/local/bin/npu-smi", "etc/ascend_install.info", "etc/hccn.conf"]
    files += ["usr/local/Ascend/firmware/version.info", "usr/local/Ascend/add-ons/readme"]
    for name in (*devices, *files):
        if not any(each in name for each in without):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name in devices:
                _node(path)
            else:
                path.write_text(f"{name}\n")
    return root


def _node(path):
    """A device node that is /dev/null by another name: one without a driver could not be opened."""
    if os.geteuid():
        path.symlink_to("/dev/null")
    else:
        os.mknod(path, 0o660 | stat.S_IFCHR, os.makedev(1, 3))
