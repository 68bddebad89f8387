"""One of 4 processes that play steps of the tensor axis by themselves, and leave what each saw as JSON.

RANK=… WORLD_SIZE=4 … python play_tensor.py OUT.json
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from headway.data.samples import IGNORE
from headway.plan.build import build
from headway.plan.job import Job
from headway.plan.read import decode
from headway.train import comm
from headway.train.tensor_axis import ALONE, TensorAxis
from headway.train.torch_stage import TorchStage

TOKENS = 24
SMOOTHINGS = (0.0, 0.1, 0.9)
VOCABULARIES = (97, 96, 5)  # over 4 ranks: three rows of padding, none, and one rank of nothing else
MICROBATCHES, STEPS = 2, 2


def plan_of(parallel, **model):
    sizes = {"layers": 2, "hidden": 32, "heads": 4, "feed_forward": 64, "vocabulary": 97, "positions": 16}
    document = {
        "model": sizes | model,
        "parallel": {"pipeline": 1, **parallel},
        "data": {"sequence_length": 16, "tokenizer": "none"},
        "train": {"global_batch": 2 * MICROBATCHES * parallel["data"], "microbatch": 2, "steps": STEPS},
    }
    return build(decode(Job, document, "job"))


def loss_and_gradient(axis: TensorAxis, logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Of this rank's part of the logits, where the gradient of the whole loss is 1.5."""
    vocabulary = logits.shape[1]
    each = -(-vocabulary // axis.size)
    padded = torch.nn.functional.pad(logits, (0, each * axis.size - vocabulary), value=7.0)
    mine = padded[:, axis.index * each :][:, :each].clone().requires_grad_()
    loss = axis.cross_entropy(mine * 1, targets, vocabulary, smoothing)
    loss.backward(torch.tensor(1.5, dtype=loss.dtype))
    return loss.detach(), mine.grad


def losses(axis: TensorAxis) -> list[dict[str, float]]:
    """Differences from torch's cross entropy of the whole logits, and the largest gradient of padding."""
    found = []
    for vocabulary in VOCABULARIES:
        generator = torch.Generator().manual_seed(vocabulary)
        logits = 3 * torch.randn(TOKENS, vocabulary, generator=generator, dtype=torch.float64)
        targets = torch.randint(0, vocabulary, (TOKENS,), generator=generator)
        targets[::5] = IGNORE
        for smoothing in SMOOTHINGS:
            whole = logits.clone().requires_grad_()
            wanted = cross_entropy(whole, targets, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing)
            wanted.backward(torch.tensor(1.5, dtype=wanted.dtype))
            loss, gradient = loss_and_gradient(axis, logits, targets, smoothing)
            first = axis.index * gradient.shape[1]
            theirs = whole.grad[:, first : first + gradient.shape[1]]
            found.append(
                {
                    "loss": abs(loss - wanted.detach()).item(),
                    "gradient": (gradient[:, : theirs.shape[1]] - theirs).abs().amax().item() if theirs.numel() else 0,
                    "padding": gradient[:, theirs.shape[1] :].abs().sum().item(),
                    "largest": theirs.abs().amax().item() if theirs.numel() else 0,
                }
            )
    return found


class Masks(TorchDispatchMode):
    """Writes down what is kept wherever a tensor of activations or probabilities is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[list[int], str]] = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if function is torch.ops.aten.where.self and arguments[0].dim() > 2:
            kept = arguments[0]
            self.found.append((list(kept.shape), kept.numpy().tobytes().hex()))
        return function(*arguments, **(keywords or {}))


def masks(*, cut: bool) -> dict[str, list[list[tuple[list[int], str]]]]:
    """What each step and micro-batch of a stage drops, in order, with the sequence whole or cut."""
    rates = {"attention_dropout": 0.5, "hidden_dropout": 0.5}
    plan, rank = plan_of({"tensor": 2, "data": 2, "sequence_parallel": cut}, **rates), dist.get_rank()
    stage = TorchStage(plan, plan.program, rank, torch.device("cpu"), comm.Comm(plan, rank))
    tokens = torch.zeros(MICROBATCHES, 2, 16, dtype=torch.long)
    forward, backward = [], []
    for _ in range(STEPS):
        stage.load(tokens, tokens)
        stage.begin().wait()
        for microbatch in range(MICROBATCHES):
            with Masks() as seen:
                stage.forward(0, microbatch, "")
            forward.append(seen.found)
            with Masks() as seen:
                stage.backward(0, microbatch, "")
            backward.append(seen.found)
        stage.total().wait()
        stage.update()
    return {"forward": forward, "backward": backward}


def main(out: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    axes = {"alone": ALONE}
    for size in (2, 4):
        plan = plan_of({"tensor": size, "data": 4 // size})
        group = plan.layout.group(rank, "tensor")
        axes[f"over {size}"] = TensorAxis(comm.Comm(plan, rank), group, group.index(rank))
    found = {
        "losses": {name: losses(axis) for name, axis in axes.items()},
        "masks": {"whole": masks(cut=False), "cut": masks(cut=True)},
    }
    ranks = comm.to_rank_0(found)
    if ranks is not None:
        out.write_text(json.dumps(ranks))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
