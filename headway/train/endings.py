"""How a worker ends from outside: a signal or a file asks for the end of the step, a lost parent ends it at once."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from headway import control

PARENT_GRACE = 8.0  # seconds that the processes of a lost parent have to end their step
LOOK = 1.0  # seconds between two looks for the file that asks a run to stop
TOLD = "a process of the run was told to stop"


class Stop:
    """Whether a signal, or the run's control file, has asked this process to stop at the end of its step, and why."""

    def __init__(self) -> None:
        self.asked = False
        self.why = TOLD  # as far as this rank knows: another may have been asked

    def listen(self) -> None:
        """Heed both signals from now on.

        They leave as long as the step takes: who sends SIGTERM (torchrun's agent, Slurm) sends SIGKILL after a time of
        its own, a rank that has lost a peer ends by that error, and one that hangs by the watchdog. A thread hears the
        signals through a pipe: while the main thread waits inside gloo, Python would not call a handler.
        """
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        threading.Thread(target=self._hear, args=(read,), daemon=True).start()

    def look_into(self, directory: Path) -> None:
        """Heed the control file of the run in `directory` from now on (headway/control.py).

        One rank is enough, since all agree in the totals of a step: rank 0, which has the file system of a batch
        script's node. A thread looks, so that a file system that does not answer holds up no step.
        """
        threading.Thread(target=self._look, args=(directory,), daemon=True).start()

    def _hear(self, pipe: int) -> None:
        while os.read(pipe, 1):
            self.asked = True

    def _look(self, directory: Path) -> None:
        while not self.asked:
            if (why := control.asked(directory)) is not None:
                self.why = why
                self.asked = True  # after its reason, which the main thread reads
                return
            time.sleep(LOOK)


def end_with(parent: int) -> None:
    """End this process by SIGTERM when its parent is gone, however that went; by SIGKILL if that does not do it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.3)
        _end()

    threading.Thread(target=watch, daemon=True).start()


def end_with_input(obey: Callable[[str], None]) -> None:
    """End this process when its stdin is closed, as an ssh connection does whose other end is gone, however that went.

    Each line before that is told to `obey`.
    """

    def watch() -> None:
        # past Python's own buffer, which its end would find locked
        while said := os.read(sys.stdin.fileno(), 64):
            for line in said.decode(errors="replace").split():
                obey(line)
        _end()

    threading.Thread(target=watch, daemon=True).start()


def _end() -> None:
    """By SIGTERM, and by SIGKILL if that does not do it."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PARENT_GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
