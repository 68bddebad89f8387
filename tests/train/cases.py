"""The layouts that the numbers and the conformance of the trainer are tested on; no torch here."""

from dataclasses import dataclass

from headway.plan.build import build
from headway.plan.job import Data, Job, Optimizer, Parallel, Train
from headway.plan.plan import Plan
from headway.units import Bytes, Dtype

STEPS = 3
MAX_WORLD = 8


@dataclass(frozen=True)
class Case:
    pipeline: int
    chunks: int
    data: int
    schedule: str
    microbatches: int
    tied: bool = True
    clip: float = 0.05  # the gradient norm is near 1: active
    valid: tuple[int, ...] = ()  # valid targets of each sequence; all if empty
    unit_bytes: int = 0  # every block a unit of its own
    precision: Dtype = Dtype.FLOAT64

    @property
    def world(self) -> int:
        return self.pipeline * self.data

    @property
    def id(self) -> str:
        tied, clip = "tied" if self.tied else "untied", "clipped" if self.clip < 1 else "free"
        masked = "-masked" if self.valid else ""
        units = "-merged" if self.unit_bytes else ""
        sizes = f"P{self.pipeline}-V{self.chunks}-D{self.data}-M{self.microbatches}"
        precision = "" if self.precision is Dtype.FLOAT64 else f"-{self.precision}"
        return f"{self.schedule}-{sizes}-{tied}-{clip}{masked}{units}{precision}"

    def plan(self) -> Plan:
        job = Job(
            model={"layers": 7, "hidden": 16, "heads": 2, "feed_forward": 24, "vocabulary": 260, "positions": 12}
            | {"tied": self.tied},
            parallel=Parallel(
                pipeline=self.pipeline,
                data=self.data,
                chunks=self.chunks,
                schedule=self.schedule,
                unit_bytes=Bytes(self.unit_bytes),
            ),
            data=Data(sequence_length=8),
            optimizer=Optimizer(lr=1e-2, warmup_steps=1, clip=self.clip),
            train=Train(
                steps=STEPS,
                microbatch=1 if self.valid else 2,
                global_batch=self.data * self.microbatches * (1 if self.valid else 2),
                precision=self.precision,
                reduce_dtype=self.precision,
            ),
        )
        return build(job, name="case")


def matrix() -> list[Case]:
    """Pipeline {1,2,4} × chunks {1,2} × data {1,2,4} up to 8 ranks, every schedule, M = P, 2P and 8, tied or not."""
    found = []
    for p in (1, 2, 4):
        for d in (1, 2, 4):
            if p * d > MAX_WORLD:
                continue
            for schedule, v in (("gpipe", 1), ("1f1b", 1), ("interleaved", 1), ("interleaved", 2)):
                for m in sorted({p, 2 * p, 8}):
                    for tied in (True, False):
                        for clip in (0.05, 1e9):
                            units = 0 if (m + d + tied) % 2 else 10**6
                            found.append(Case(p, v, d, schedule, m, tied, clip, unit_bytes=units))
    masked = (1, 7, 3, 5)
    found += [Case(p, 1, d, "1f1b", 4 // d, valid=masked) for p in (1, 2) for d in (1, 2, 4)]
    found.append(Case(2, 2, 2, "interleaved", 2, valid=masked))
    return found


def single_precision() -> list[Case]:
    """A few layouts in float32."""
    layouts = ((1, 1, 1, "1f1b"), (2, 1, 2, "1f1b"), (2, 2, 2, "interleaved"), (4, 1, 2, "gpipe"))
    return [Case(*layout, 4, precision=Dtype.FLOAT32) for layout in layouts]


def sampled() -> list[Case]:
    """Every seventh of the matrix, and all masked ones: each axis at each of its values."""
    return [case for i, case in enumerate(matrix()) if case.valid or i % 7 == 0]
