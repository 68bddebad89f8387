"""What is compared: the size of the model, and each case as a plan (no torch here)."""

from dataclasses import dataclass, replace

from headway.plan.build import build
from headway.plan.job import Data, Job, Optimizer, Parallel, Train
from headway.plan.plan import Plan
from headway.units import Dtype


@dataclass(frozen=True, slots=True)
class Size:
    """A model and how often its step is timed: `pairs` of blocks, one block a contestant, of `steps` steps."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    microbatch: int
    vocabulary: int
    pairs: int
    steps: int


FULL = Size(layers=8, hidden=256, heads=8, sequence=128, microbatch=4, vocabulary=2048, pairs=12, steps=1)
QUICK = Size(layers=4, hidden=64, heads=4, sequence=32, microbatch=2, vocabulary=256, pairs=5, steps=1)
HEADWAY = "Headway"  # the first contestant of every case
PLACED = replace(FULL, pairs=6)  # of up to four contestants


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: `goal` is the least ratio of Headway's tokens per second to each peer's."""

    name: str
    peers: tuple[str, ...]
    goal: float
    pipeline: int = 1
    data: int = 1
    chunks: int = 1
    microbatches: int = 4
    precision: str = "float32"
    tensor: int = 1
    sequence_parallel: bool = False
    zero: int = 0

    @property
    def world(self) -> int:
        """Processes that it takes."""
        return self.tensor * self.pipeline * self.data

    def plan(self, size: Size) -> Plan:
        """Headway's plan; the embedding is tied where the peer can tie it as well."""
        model = {
            "layers": size.layers,
            "hidden": size.hidden,
            "heads": size.heads,
            "feed_forward": 4 * size.hidden,
            "vocabulary": size.vocabulary,
            "positions": size.sequence,
            "tied": self.pipeline == 1,
        }
        parallel = Parallel(
            tensor=self.tensor,
            sequence_parallel=self.sequence_parallel,
            pipeline=self.pipeline,
            data=self.data,
            chunks=self.chunks,
            schedule="interleaved" if self.chunks > 1 else "1f1b",
            zero=self.zero,
        )
        job = Job(
            model=model,
            parallel=parallel,
            data=Data(sequence_length=size.sequence),
            optimizer=Optimizer(lr=3e-4, min_lr=3e-4, warmup_steps=0),
            train=Train(
                global_batch=size.microbatch * self.data * self.microbatches,
                microbatch=size.microbatch,
                precision=Dtype(self.precision),
            ),
        )
        return build(job, name=self.name)


CASES = (
    Case("one process", ("plain PyTorch loop",), 0.97),
    Case("bfloat16", ("plain PyTorch loop, float32 masters",), 0.97, precision="bfloat16"),
    Case("data 2", ("DistributedDataParallel",), 1.0, data=2),
    Case("tensor 2", ("DTensor, loss parallel",), 1.0, tensor=2),
    Case("tensor 2, sequence cut", ("DTensor, loss and sequence parallel",), 1.0, tensor=2, sequence_parallel=True),
    Case("pipeline 2, 1f1b", ("Schedule1F1B",), 1.0, pipeline=2, microbatches=8),
    Case("pipeline 2 × chunks 2", ("ScheduleInterleaved1F1B",), 1.0, pipeline=2, chunks=2, microbatches=8),
)

# With one micro-batch and with four: FSDP2 that reduces once a step keeps whole gradients until then, as ZeRO-1 does;
# one that reduces each micro-batch keeps a part, as ZeRO-2 does.
_ZERO_1 = ("ZeroRedundancyOptimizer", "DeepSpeed ZeRO-1")
_ZERO_2 = ("FSDP2, no reshard", "DeepSpeed ZeRO-2")
PLACEMENTS = (
    Case("ZeRO-1", _ZERO_1, 1.0, data=2, microbatches=1, zero=1),
    Case("ZeRO-2", _ZERO_2, 1.0, data=2, microbatches=1, zero=2),
    Case("ZeRO-3", ("FSDP2",), 1.0, data=2, microbatches=1, zero=3),
    Case("ZeRO-1, 4 micro-batches", (*_ZERO_1, "FSDP2, no reshard, one reduction"), 1.0, data=2, zero=1),
    Case("ZeRO-2, 4 micro-batches", _ZERO_2, 1.0, data=2, zero=2),
    Case("ZeRO-3, 4 micro-batches", ("FSDP2",), 1.0, data=2, zero=3),
)
