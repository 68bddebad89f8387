"""A look that cannot hang the doctor: it runs beside the others, and what does not answer in time is left behind."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from headway.launch.doctor.machine import Silent
from headway.units import Seconds, show_seconds

T = TypeVar("T")


class Look(Generic[T]):
    """One look, started now in a thread of its own.

    The thread is a daemon: a call that hangs in the kernel (a dead NFS server, a driver) cannot be ended, and must not
    keep the process from ending either.
    """

    def __init__(self, at: str, look: Callable[[], T], within: Seconds) -> None:
        self._at, self._look, self._within = at, look, within
        self._answer: T | Silent = Silent(at, f"it took longer than {show_seconds(within)}")
        self._end = time.monotonic() + within
        self._thread = threading.Thread(target=self._run, name=at, daemon=True)
        self._thread.start()

    def answer(self) -> T | Silent:
        """What it saw, or why nothing; waits for the rest of its time, if that is needed."""
        self._thread.join(max(0.0, self._end - time.monotonic()))
        return self._answer

    def heard(self, silent: list[Silent]) -> T | None:
        """What it saw; where it saw nothing, why is added to `silent`."""
        answer = self.answer()
        if isinstance(answer, Silent):
            silent.append(answer)
            return None
        return answer

    def _run(self) -> None:
        try:
            self._answer = self._look()
        except Exception as error:  # whatever a broken host answers is a finding, never a traceback
            self._answer = Silent(self._at, f"{type(error).__name__}: {error}")
