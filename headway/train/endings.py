"""How a worker ends from outside: a signal asks for the end of the step, a lost parent ends it at once."""

import os
import signal
import threading
import time

TERM_GRACE = 8.0  # seconds that SIGTERM leaves; torchrun's agent sends it to those that outlive a failed rank


class Stop:
    """Whether SIGINT or SIGTERM has asked this process to stop at the end of its step."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Heed both signals from now on. SIGTERM leaves TERM_GRACE seconds, SIGINT as long as the step takes.

        A thread hears them through a pipe: while the main thread waits inside gloo for a peer that is gone, Python
        would not call a handler.
        """
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        threading.Thread(target=self._hear, args=(read,), daemon=True).start()

    def _hear(self, pipe: int) -> None:
        while number := os.read(pipe, 1):
            self.asked = True
            if number[0] == signal.SIGTERM:
                threading.Timer(TERM_GRACE, os._exit, (128 + signal.SIGTERM,)).start()


def end_with(parent: int) -> None:
    """End this process by SIGTERM when its parent is gone, however that went; by SIGKILL if that does not do it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(TERM_GRACE)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
