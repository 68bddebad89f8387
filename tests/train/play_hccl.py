"""A rank of a job on Ascend devices, on a machine without any: a backend of hccl's name is registered with torch.

RANK=… WORLD_SIZE=… python play_hccl.py JOB.yaml DIRECTORY

Its process groups are gloo's, its tensors lie in main memory, which is all that the stand-in differs in. Rank 0 leaves
the backends of all groups that were made.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from headway import chrome, env
from headway.plan.build import from_file
from headway.sim.simulate import simulate
from headway.train import device, worker


def _group(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


def main() -> None:
    dist.Backend.register_backend("hccl", _group, devices=["cpu"])
    kinds, made = [], dist.new_group
    device.choose = lambda kind, _: kinds.append(kind) or torch.device("cpu")
    backends = []

    def new_group(*words, **more):
        group = made(*words, **more)
        backends.append(dist.get_backend(group))
        return group

    dist.new_group = new_group
    place = env.worker()
    directory = Path(sys.argv[2])
    plan = from_file(Path(sys.argv[1]))

    def prepare():
        chrome.write(directory / "predicted.trace.json.gz", simulate(plan))
        return directory

    worker.run(plan, place, prepare)
    if place.rank == 0:
        (directory / "backends.json").write_text(json.dumps({"kinds": kinds, "groups": backends}))


if __name__ == "__main__":
    main()
