"""What one core of this machine reaches: the rates behind the `local-cpu` preset.

    python bench/device.py [--json FILE]

Products: square and model-shaped matrix products on one thread. Streams: c = a + b over arrays that fit no cache,
bytes read and written. Launch: an operation on one element. Links: messages and all-reduces between two processes.
"""

import argparse
import json
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from paired import machine
from torch.multiprocessing.spawn import spawn

REPEATS = 7
SLOW = 20e9  # FLOP/s below which the largest product is left out: it would take minutes
SHAPES = ((2048, 2048, 2048), (512, 128, 384), (512, 128, 512), (512, 256, 1024))


def seconds(call: Callable[[], object], at_least: float = 0.05) -> float:
    """Median seconds of one call, each sample long enough to be timed."""
    call()
    times = 1
    while True:
        start = time.perf_counter()
        for _ in range(times):
            call()
        if time.perf_counter() - start > at_least:
            break
        times *= 2
    samples = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(times):
            call()
        samples.append((time.perf_counter() - start) / times)
    return statistics.median(samples)


def device() -> dict[str, float]:
    """FLOP/s, bytes/s and seconds of one thread."""
    torch.set_num_threads(1)
    found = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        one = torch.randn(256, 256).to(dtype)
        slow = 2 * 256**3 / seconds(partial(torch.mm, one, one)) < SLOW
        for m, k, n in SHAPES[1:] if slow else SHAPES:
            a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
            name = f"product {str(dtype).removeprefix('torch.')} {m}×{k}×{n} FLOP/s"
            found[name] = 2 * m * k * n / seconds(partial(torch.mm, a, b))
    for size in (2**16, 2**24):
        a, b, out = torch.randn(size), torch.randn(size), torch.empty(size)
        found[f"stream of 3 × {size} floats B/s"] = 3 * 4 * size / seconds(partial(torch.add, a, b, out=out))
    found["launch s"] = seconds(partial(torch.add, torch.zeros(1), 1.0))
    return found


def link(rank: int, port: int, out: str) -> None:
    """One of two processes: seconds of messages and all-reduces."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    found = {}
    for size in (8, 2**18, 2**22):
        tensor = torch.zeros(size // 4)
        for name, call in (("message", partial(ping, rank, tensor)), ("all-reduce", partial(dist.all_reduce, tensor))):
            samples = []
            for _ in range(4 * REPEATS):
                dist.barrier()
                start = time.perf_counter()
                call()
                samples.append(time.perf_counter() - start)
            found[f"{name} of {size} B s"] = statistics.median(samples) / (2 if name == "message" else 1)
    if rank == 0:
        Path(out).write_text(json.dumps(found))
    dist.destroy_process_group()


def ping(rank: int, tensor: torch.Tensor) -> None:
    """There and back."""
    first, then = (dist.send, dist.recv) if rank == 0 else (dist.recv, dist.send)
    first(tensor, 1 - rank)
    then(tensor, 1 - rank)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    found: dict[str, Any] = {**machine(), **device()}
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        out = Path(folder) / "link.json"
        spawn(link, args=(port, str(out)), nprocs=2)  # type: ignore[no-untyped-call]
        found |= json.loads(out.read_text())
    for name, value in found.items():
        print(f"{name:<44}{f'{value:.4g}' if isinstance(value, float) else value:>20}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
