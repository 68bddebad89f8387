"""Twenty processes that save a checkpoint, each killed at a random moment; what is left, as JSON.

python killed_saves.py DIRECTORY
"""

import importlib
import json
import os
import random
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from headway import checkpoints
from headway.checkpoints import Manifest
from headway.train.part import Part
from headway.train.saver import Saver

TIMES, SIZE = 20, 2**18


class Words(dict):
    """A store of a rank alone."""

    def set(self, key, value):
        self[key] = value.encode()

    def get(self, key):
        return self[key]

    def check(self, keys):
        return all(key in self for key in keys)

    def delete_key(self, key):
        return self.pop(key, None) is not None


def save(directory: Path, step: int) -> str:
    tensors = {f"weight {i}": torch.full((SIZE // 8,), float(step)) for i in range(8)}
    parts = [Part(("model", name), (len(each),), (0,), each) for name, each in tensors.items()]
    numbers = {"step": step, "updates": step, "seed": 0, "samples": 9, "next_sample": step, "learning_rate": 1e-3}
    made = Manifest(**numbers, loss_scale={}, layout="", plan="", written="", files={})
    words = Words()
    saver = Saver(directory, 0, 1, lambda: words, keep=2)
    saver.begin(parts, made, "{}")
    saver.wait()
    (saved,) = saver.ended()
    return saved.error


def in_child(directory: Path, step: int) -> int:
    """The process that saves; it inherits torch, and no thread."""
    if child := os.fork():
        return child
    try:
        error = save(directory, step)
        os._exit(1 if error else 0)
    except BaseException:
        os._exit(2)


def main(directory: Path) -> None:
    torch.set_num_threads(1)
    importlib.import_module("headway.train.dcp")  # before the forks: it takes longer than a save
    start = time.monotonic()
    assert os.waitpid(in_child(directory, 1), 0)[1] == 0
    whole = time.monotonic() - start
    chance, found = random.Random(0), []
    for step in range(2, TIMES + 2):
        before = checkpoints.step_of(checkpoints.latest(directory))
        child = in_child(directory, step)
        time.sleep(chance.uniform(0, 1.2 * whole))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        latest = checkpoints.latest(directory)
        found.append(
            {
                "step": step,
                "before": before,
                "latest": checkpoints.step_of(latest),
                "damage": checkpoints.damage(latest),
                "left": [path.name for path in checkpoints.unfinished(directory)],
                "written": asdict(checkpoints.manifest(latest))["written"],
            }
        )
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
