"""The device and the communication backend of a rank: cpu with gloo, cuda with nccl, npu with hccl."""

import importlib
import importlib.util
from typing import Literal

import torch

from headway.errors import PlanError

_BACKENDS = {"cpu": "gloo", "cuda": "nccl", "npu": "hccl"}


def backend(kind: str) -> str:
    """The torch.distributed backend that goes with a kind of device."""
    return _BACKENDS[kind]


def choose(kind: Literal["cpu", "cuda", "npu"], local_rank: int) -> torch.device:
    """The device of the rank with this number on its node. Raises PlanError if the machine has none of that kind."""
    if kind == "cpu":
        return torch.device("cpu")
    if kind == "npu" and importlib.util.find_spec("torch_npu"):
        importlib.import_module("torch_npu")  # registers the device and hccl
    try:
        module = torch.get_device_module(kind)
        count = module.device_count()
    except (RuntimeError, AttributeError):
        count = 0
    if local_rank >= count:
        raise PlanError(
            f"the plan's cluster has {kind} devices, but this machine shows {count} to local rank {local_rank}. "
            f"Start it where the devices are, or use cluster: local-cpu."
        )
    module.set_device(local_rank)
    return torch.device(kind, local_rank)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what was asked of it; a CPU always has."""
    if device.type != "cpu":
        torch.get_device_module(device.type).synchronize()
