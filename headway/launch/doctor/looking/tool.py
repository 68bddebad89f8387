"""Running a tool of the host (npu-smi, nvidia-smi), bounded in time and in what it may say."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.units import Bytes, Seconds, show_bytes, show_seconds

MOST = Bytes(4 * 2**20)  # npu-smi's table of 16 devices has 8 KiB
_DIRECTORIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/local/Ascend/driver/tools")  # some are in no PATH


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool wrote, and why that is not to be relied on (None: it ended well)."""

    text: str = ""
    trouble: str | None = None


def place(name: str, path: str) -> str | None:
    """Where the tool is: in `path` (as PATH has it), or where Ascend's driver puts its own."""
    return shutil.which(name, path=os.pathsep.join((path, *_DIRECTORIES)))


def is_directory(name: str) -> bool:
    """Whether a directory lies where the tool should: what an engine makes for a mount that its host lacks."""
    return any(Path(directory, name).is_dir() for directory in _DIRECTORIES)


def run(words: Sequence[str], variables: Mapping[str, str], within: Seconds) -> Said:
    """Run a command without input; what it wrote to its output, or to its errors where that is all there is."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(variables),
            start_new_session=True,
        )
    except OSError as error:
        return Said(trouble=f"{words[0]} cannot be started ({error.strerror or error})")
    out, err, trouble = _listen(process, within)
    if trouble is None:
        try:
            status = process.wait(timeout=1.0)
            trouble = None if status == 0 else _ended(status, (err or out).decode("utf-8", "replace"))
        except subprocess.TimeoutExpired:
            trouble = "it closed its output, but did not end"
    if trouble is not None:
        _end(process)
    return Said((out or err).decode("utf-8", "replace"), trouble)


def _listen(process: "subprocess.Popen[bytes]", within: Seconds) -> tuple[bytes, bytes, str | None]:
    """What comes out until both ends are closed; why that was not awaited, if it was not."""
    assert process.stdout is not None
    assert process.stderr is not None
    heard = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    out, err = heard.values()
    trouble, still, end = None, list(heard), time.monotonic() + within
    while still and trouble is None:
        ready, _, _ = select.select(still, [], [], max(0.0, end - time.monotonic()))
        if not ready:
            trouble = f"it did not end within {show_seconds(within)}"
        for each in ready:
            piece = os.read(each, 65_536)
            heard[each] += piece
            if not piece:
                still.remove(each)
            if len(heard[each]) > MOST:
                trouble = f"it wrote more than {show_bytes(MOST)}"
    process.stdout.close()
    process.stderr.close()
    return bytes(out), bytes(err), trouble


def _ended(status: int, said: str) -> str:
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"it {how}{f': {last[:300]}' if last else ''}"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it and what it started. One that hangs in its driver cannot be ended, and is not waited for."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
