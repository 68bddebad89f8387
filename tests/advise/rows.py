"""Published rows made by hand, files of them, and a predictor whose errors are known."""

import csv
from pathlib import Path

from headway.advise.published import read
from headway.sim.estimate import Estimate
from headway.units import Bytes, Seconds

GIB = 2**30
# eight ranks of one node: tensor 2 × pipeline 2 × data 2, four micro-batches of two sequences
BASE = {
    "id": "lab-1", "source_group": "lab", "model": "GPT 1B", "layers": 8, "hidden": 1024, "heads": 16,
    "kv_heads": 16, "ffn": 4096, "mlp": "gelu", "vocab": 50000, "tied_embed": 1, "seq_len": 2048, "gpu": "A100-80GB",
    "gpus_per_node": 8, "n_gpus": 8, "intra_link": "NVLink3+NVSwitch", "nic_gbps_per_gpu": 200, "tp": 2, "pp": 2,
    "vpp": 1, "dp": 2, "cp": 1, "ep": 1, "zero_stage": 1, "offload": "none", "gbs": 16, "mbs": 2,
    "recompute": "none", "seq_parallel": 1, "precision": "bf16", "attention": "flash", "schedule": "1f1b",
    "framework": "generic", "iter_s": 2.0, "mfu_pct": "", "hfu_pct": "", "peak_mem_gb": "", "mem_unit": "",
    "mem_kind": "", "status": "ok", "detail": "", "notes": "",
}  # fmt: skip


def write(path, *rows, without=(), start=""):
    """A CSV file of rows, each the base row with changes, without some columns."""
    full = [BASE | row for row in rows]
    columns = [column for column in dict.fromkeys(key for row in full for key in row) if column not in without]
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        file.write(start)
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(full)
    return Path(path)


def row_of(folder, **changes):
    """The one published row of a file."""
    without = [column for column, value in changes.items() if value is None]
    return read([write(folder / "rows.csv", changes, without=without)])[0]


def by_microbatch(seconds, gibibytes=40, context=0):
    """A predictor of so many seconds for each size of micro-batch; what is held is the same on each device."""

    def predict(outline):
        memory = {"parameters": Bytes(gibibytes * GIB), "context": Bytes(context * GIB)}
        taken = Seconds(seconds[outline.microbatch])
        room = Bytes((32 if "V100" in outline.cluster.device.name else 80) * GIB)
        return Estimate(taken, {"products": taken}, memory, 0, room)

    return predict
