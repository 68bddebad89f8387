"""The layouts that the numbers and the conformance of the trainer are tested on; no torch here."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from headway.plan.build import build
from headway.plan.job import Data, Job, Optimizer, Parallel, Train
from headway.plan.plan import Plan
from headway.units import Bytes, Dtype

STEPS = 3
MAX_WORLD = 8
FLOAT16_SCALE = 1024.0


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
    reduce_dtype: str = ""  # empty: what the gradients add up in
    layers: int = 7
    split: str = "balanced"
    rows: str = ""  # a schedule of its own, as CSV, in place of a family
    key_value_heads: int = 0  # of a llama; 0: a gpt
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    tensor: int = 1
    vocabulary: int = 260
    sequence_parallel: bool = False
    zero: int = 0
    prefetch: int = 1
    whole_below: int = 0
    hidden: int = 16
    steps: int = STEPS
    timing: str = ""  # of reductions: "at once" none overlaps with anything, "late" one rank's start late
    label_smoothing: float = 0.0

    @property
    def world(self) -> int:
        return self.tensor * self.pipeline * self.data

    @property
    def alike(self) -> tuple[object, ...]:
        """Ranks, from many to few, then what layouts of one training have in common: an order of play."""
        batch = self.data * self.microbatches
        sizes = (self.layers, self.vocabulary, self.tied, self.key_value_heads, self.tensor)
        rates = (self.attention_dropout, self.hidden_dropout, self.label_smoothing, self.clip)
        return (-self.world, batch, self.valid, self.precision, self.reduce_dtype, *sizes, *rates)

    @property
    def id(self) -> str:
        tied, clip = "tied" if self.tied else "untied", "clipped" if self.clip < 1 else "free"
        masked = "-masked" if self.valid else ""
        units = "-merged" if self.unit_bytes else ""
        sizes = f"P{self.pipeline}-V{self.chunks}-D{self.data}-M{self.microbatches}"
        precision = "" if self.precision is Dtype.FLOAT64 else f"-{self.precision}"
        precision += f"-reduced-{self.reduce_dtype}" if self.reduce_dtype else ""
        split = "" if self.split == "balanced" and self.layers == 7 else f"-{self.layers} layers-{self.split}"
        llama = f"-llama-{self.key_value_heads}" if self.key_value_heads else ""
        rates = f"-dropped-{self.attention_dropout}-{self.hidden_dropout}"
        dropped = rates if self.attention_dropout or self.hidden_dropout else ""
        tensor = f"-T{self.tensor}-vocabulary-{self.vocabulary}" if self.tensor > 1 else ""
        sequence = "-sequence" if self.sequence_parallel else ""
        cut = f"-zero-{self.zero}-ahead-{self.prefetch}-{self.timing}" if self.zero or self.steps != STEPS else ""
        cut += f"-whole-below-{self.whole_below}" if self.whole_below else ""
        smoothed = f"-smoothed-{self.label_smoothing}" if self.label_smoothing else ""
        hidden = f"-hidden-{self.hidden}" if self.hidden != 16 else ""
        arithmetic = f"{precision}{llama}{dropped}{smoothed}{hidden}"
        return f"{self.schedule}-{sizes}-{tied}-{clip}{masked}{units}{split}{tensor}{sequence}{cut}{arithmetic}"

    @property
    def model(self) -> dict[str, object]:
        heads = max(3 if self.hidden % 2 else 2, self.tensor)
        sizes = {"layers": self.layers, "hidden": self.hidden, "heads": heads, "feed_forward": 24}
        llama = {"family": "llama", "heads": 4, "key_value_heads": self.key_value_heads} if self.key_value_heads else {}
        rates = {"attention_dropout": self.attention_dropout, "hidden_dropout": self.hidden_dropout}
        return sizes | {"vocabulary": self.vocabulary, "positions": 12, "tied": self.tied} | llama | rates

    def plan(self) -> Plan:
        job = Job(
            model=self.model,
            parallel=Parallel(
                tensor=self.tensor,
                sequence_parallel=self.sequence_parallel,
                pipeline=self.pipeline,
                data=self.data,
                chunks=self.chunks,
                schedule=f"{self.schedule}.csv" if self.rows else self.schedule,
                split=self.split,
                unit_bytes=Bytes(self.unit_bytes),
                zero=self.zero,
                prefetch=self.prefetch,
                whole_below=Bytes(self.whole_below),
            ),
            data=Data(sequence_length=8, tokenizer="none"),
            optimizer=Optimizer(lr=1e-2, warmup_steps=1, clip=self.clip),
            train=Train(
                steps=self.steps,
                microbatch=1 if self.valid else 2,
                global_batch=self.data * self.microbatches * (1 if self.valid else 2),
                precision=self.precision,
                label_smoothing=self.label_smoothing,
                loss_scale=FLOAT16_SCALE if self.precision is Dtype.FLOAT16 else "dynamic",
                reduce_dtype=Dtype(self.reduce_dtype) if self.reduce_dtype else self.precision.wide,
            ),
        )
        with TemporaryDirectory() as folder:
            (Path(folder) / f"{self.schedule}.csv").write_text(self.rows)
            return build(job, name="case", folder=Path(folder))


def matrix() -> list[Case]:
    """Pipeline {1,2,4} × chunks {1,2} × data {1,2,4} up to 8 ranks, every schedule, M = P, 2P and 8, tied or not.

    Gradients are clipped in every second of them, with tied weights as often as without.
    """
    found = []
    for p in (1, 2, 4):
        for d in (1, 2, 4):
            if p * d > MAX_WORLD:
                continue
            for schedule, v in (("gpipe", 1), ("1f1b", 1), ("interleaved", 1), ("interleaved", 2)):
                for m in sorted({p, 2 * p, 8}):
                    for tied in (True, False):
                        units = 0 if (m + d + tied) % 2 else 10**6
                        clip = 0.05 if (len(found) // 2 + tied) % 2 else 1e9
                        found.append(Case(p, v, d, schedule, m, tied, clip, unit_bytes=units))
    masked = (1, 7, 3, 5)
    found += [Case(p, 1, d, "1f1b", 4 // d, valid=masked) for p in (1, 2) for d in (1, 2, 4)]
    found.append(Case(2, 2, 2, "interleaved", 2, valid=masked))
    return [*found, *families()]


def families() -> list[Case]:
    """Llamas of 4, 2 and 1 key-value heads, and both families with each dropout, under layouts of each kind."""
    layouts = [(1, 1, 1, "1f1b"), (2, 1, 1, "gpipe"), (1, 1, 4, "1f1b"), (2, 1, 2, "1f1b"), (2, 2, 2, "interleaved")]
    layouts += [(4, 1, 2, "1f1b"), (1, 2, 2, "interleaved"), (4, 2, 1, "interleaved")]
    rates = [(0.0, 0.0), (0.0, 0.2), (0.3, 0.0), (0.3, 0.2)]
    found = []
    for i, layout in enumerate(layouts):
        for j, (attention, hidden) in enumerate(rates):
            for heads in (0, 4, 2, 1) if attention or hidden else (4, 2, 1):
                tied, units = (i + j + heads) % 2 == 0, 10**6 * ((i + j) % 2)
                sizes = {"tied": tied, "unit_bytes": units, "key_value_heads": heads}
                found.append(Case(*layout, 4, **sizes, attention_dropout=attention, hidden_dropout=hidden))
    masked = {"valid": (1, 7, 3, 5), "attention_dropout": 0.3, "hidden_dropout": 0.2}
    found += [Case(2, 1, 2, "1f1b", 2, key_value_heads=heads, **masked) for heads in (0, 2)]
    return found


# stages 0 and 3 on rank 0, 1 and 2 on rank 1; the last stage turns a micro-batch round with no message
V_SHAPED = """\
0F0,0F1,3F0,3B0,0F2,3F1,3B1,0B0,3F2,3B2,0B1,0F3,3F3,3B3,0B2,0B3
1F0,2F0,1F1,2F1,2B0,1B0,1F2,2F2,2B1,1B1,2B2,1B2,1F3,2F3,2B3,1B3
"""
# torch's way to write idle time and messages; the second micro-batch goes first
BY_HAND = """\
0F1,0SEND_F1,0F0,0SEND_F0,,0RECV_B1,0B1,0RECV_B0,0B0
,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0
"""
# three stages on one rank, two on another, and the first on the last
SCATTERED = """\
1F0,2F0,3F0,1F1,2F1,3F1,3B0,2B0,1B0,3B1,2B1,1B1
4F0,5F0,5B0,4B0,4F1,5F1,5B1,4B1
0F0,0F1,0B0,0B1
"""
# rank 2 makes 5B0 before the others are through: receives ahead of their users would wait for each other
TURNED = """\
0F0,0F1,0F2,3F0,3F1,3F2,3B0,3B1,3B2,0B0,0B1,0B2
1F0,1F1,1F2,4F0,4F1,4F2,4B0,4B1,4B2,1B0,1B1,1B2
2F0,2F2,5F0,5B0,2F1,5F1,5B1,5F2,5B2,2B0,2B1,2B2
"""


def splits() -> list[Case]:
    """Stages without layers or without anything, uneven ones, and schedules of one's own with their placement."""
    found = [
        Case(4, 1, 1, "1f1b", 4, layers=3),  # balanced: the head stands alone
        Case(4, 1, 2, "gpipe", 4, layers=3, tied=False),
        Case(4, 1, 1, "1f1b", 8, layers=1, clip=1e9),  # balanced: an empty stage behind the embedding
        Case(4, 1, 2, "1f1b", 4, layers=3, split="Et||t|tL"),  # empty in the middle, with and without replicas
        Case(4, 1, 2, "1f1b", 4, layers=4, split="E|tt|tt|L"),  # embedding and head alone: Megatron-LM #1852
        Case(4, 1, 1, "gpipe", 2, layers=3, split="E||ttt|L", tied=False),
        Case(3, 1, 1, "1f1b", 5, layers=2, split="Ett||L", unit_bytes=10**6),  # the middle rank holds nothing
        Case(2, 1, 2, "1f1b", 4, split="Et*6|tL"),  # uneven
        Case(2, 2, 1, "interleaved", 6, split="E|t*3||t*4L"),
        Case(2, 2, 2, "interleaved", 4, layers=3, split="Et|t||tL", unit_bytes=10**6),
        Case(4, 2, 1, "interleaved", 4, layers=2),  # balanced over more stages than blocks
        Case(2, 3, 1, "interleaved", 4, layers=3, split="E||ttt|||L"),  # several empty ones in a row
        Case(1, 4, 2, "interleaved", 2, layers=1, split="E||t|L"),
    ]
    found += [Case(2, 2, data, "v", 4, tied, rows=V_SHAPED) for tied in (True, False) for data in (1, 2)]
    found += [
        Case(2, 2, 2, "v", 4, layers=3, split="E|||tttL", rows=V_SHAPED, valid=(1, 7, 3, 5, 8, 2, 4, 6)),
        Case(2, 1, 2, "by-hand", 2, rows=BY_HAND),
        Case(3, 2, 1, "scattered", 2, rows=SCATTERED),
        Case(3, 2, 2, "turned", 3, rows=TURNED),
    ]
    # the other family, and masks, over empty stages and rows of one's own
    dropped = {"attention_dropout": 0.3, "hidden_dropout": 0.2}
    found += [
        Case(4, 1, 2, "1f1b", 4, layers=3, split="Et||t|tL", key_value_heads=2, **dropped),
        Case(2, 2, 1, "interleaved", 4, layers=2, split="E||tt|L", tied=False, **dropped),
        Case(2, 2, 2, "v", 4, key_value_heads=2, rows=V_SHAPED, **dropped),
    ]
    # fewer micro-batches than ranks
    found += [Case(4, 1, 2, "1f1b", 1), Case(4, 1, 1, "1f1b", 3), Case(4, 1, 1, "gpipe", 2)]
    return found


def tensors() -> list[Case]:
    """Tensor {2,4} × pipeline {1,2,4} × chunks {1,2} × data {1,2,4} up to 8 ranks, both families, tied or not.

    Each with the sequence whole and cut. A vocabulary of 97 is padded over 2 and over 4 ranks, one of 260 is not. Each
    third drops. Few stages have few layers: a layer exchanges a dozen small buffers, which is what takes time here.
    """
    layouts = [
        (t, p, v, d) for t in (2, 4) for p in (1, 2, 4) for v in (1, 2) for d in (1, 2, 4) if t * p * d <= MAX_WORLD
    ]
    found = []
    for i, (t, p, v, d) in enumerate(layouts):
        for j, (heads, tied) in enumerate((heads, tied) for heads in (0, 4, 2) for tied in (True, False)):
            if heads and heads % t:
                continue
            sizes = {"key_value_heads": heads, "tied": tied, "unit_bytes": 10**6 * ((i + j) % 2)}
            sizes["layers"] = 3 if p * v <= 2 else 7
            rates = {"attention_dropout": 0.3, "hidden_dropout": 0.2} if (i + j) % 3 == 0 else {}
            schedule = "interleaved" if v > 1 else ("1f1b", "gpipe")[j % 2]
            vocabulary = 97 if (i + j) % 4 else 260
            found.append(Case(p, v, d, schedule, 4, tensor=t, vocabulary=vocabulary, **sizes, **rates))
    masked = {"valid": (1, 7, 3, 5), "vocabulary": 97}
    found += [Case(2, 1, 2, "1f1b", 2, tensor=2, key_value_heads=heads, **masked) for heads in (0, 2)]
    found.append(Case(2, 1, 2, "gpipe", 4, tensor=2, layers=1, split="E|tL"))
    found.append(Case(3, 1, 1, "1f1b", 4, tensor=2, layers=2, split="Ett||L", tied=False))  # passes on
    return [replace(case, sequence_parallel=cut) for case in found for cut in (False, True)]


def smoothed() -> list[Case]:
    """Smoothed labels on one rank, over stages and replicas, and over a cut vocabulary, padded or not."""
    rate = {"label_smoothing": 0.1}
    cut = {"vocabulary": 97, **rate}
    return [
        Case(1, 1, 1, "1f1b", 2, **rate, valid=(1, 7)),
        Case(2, 1, 2, "1f1b", 2, tied=False, **rate, valid=(1, 7, 3, 5), key_value_heads=2),
        Case(1, 1, 2, "gpipe", 2, tensor=2, **cut, valid=(1, 7, 3, 5)),
        Case(1, 1, 2, "1f1b", 2, tensor=4, **cut, sequence_parallel=True),
        Case(2, 2, 1, "interleaved", 4, tensor=4, **cut, tied=False, key_value_heads=4),
        Case(2, 1, 2, "1f1b", 2, tensor=2, label_smoothing=0.3, sequence_parallel=True, hidden_dropout=0.2),
    ]


def single_precision() -> list[Case]:
    """A few layouts in float32."""
    layouts = ((1, 1, 1, "1f1b"), (2, 1, 2, "1f1b"), (2, 2, 2, "interleaved"), (4, 1, 2, "gpipe"))
    plain = [Case(*layout, 4, precision=Dtype.FLOAT32) for layout in layouts]
    dropped = {"precision": Dtype.FLOAT32, "attention_dropout": 0.1, "hidden_dropout": 0.1}
    return [*plain, *(Case(2, 1, 2, "1f1b", 4, key_value_heads=heads, **dropped) for heads in (0, 2))]


def half_precision() -> list[Case]:
    """Layouts of each kind in bfloat16 and float16, both families, gradients reduced in either type."""
    sizes = {"precision": Dtype.BFLOAT16, "layers": 3}
    found = [
        Case(1, 1, 1, "1f1b", 4, **sizes),
        Case(1, 1, 4, "1f1b", 1, **sizes, reduce_dtype="bfloat16"),
        Case(2, 1, 2, "1f1b", 2, **sizes),
        Case(2, 1, 1, "gpipe", 4, **sizes, reduce_dtype="bfloat16"),  # a tied weight alone is reduced
        Case(2, 2, 2, "interleaved", 2, **sizes, unit_bytes=10**6, tied=False),
        Case(4, 1, 2, "1f1b", 4, **sizes, clip=1e9, reduce_dtype="bfloat16"),
    ]
    dropped = {"attention_dropout": 0.1, "hidden_dropout": 0.1}
    found += [Case(2, 1, 2, "1f1b", 2, **sizes, key_value_heads=2, **dropped)]
    float16 = sizes | {"precision": Dtype.FLOAT16}
    found += [Case(2, 1, 2, "1f1b", 2, **float16), Case(2, 1, 2, "1f1b", 2, **float16, reduce_dtype="float16")]
    cut = sizes | {"tensor": 2}
    found += [
        Case(2, 1, 2, "1f1b", 2, **cut),
        Case(2, 1, 1, "1f1b", 2, **cut, key_value_heads=2, sequence_parallel=True),
        Case(1, 1, 1, "1f1b", 2, **cut, vocabulary=97, label_smoothing=0.1),
    ]
    return [*found, Case(1, 1, 1, "1f1b", 4, **sizes, key_value_heads=2)]


def seats(cases: list[Case], processes: int) -> list[tuple[int, int]]:
    """The order of play: of each case its number and the first of the neighbouring processes that play it.

    Large ones first, then as many side by side as there is room for; layouts of one training follow one another.
    """
    work = [0] * processes
    found = []
    for number in sorted(range(len(cases)), key=lambda number: cases[number].alike):
        case = cases[number]
        first = min(range(processes - case.world + 1), key=lambda p: max(work[p : p + case.world]))
        work[first : first + case.world] = [max(work[first : first + case.world]) + 1] * case.world
        found.append((number, first))
    return found


def zeros() -> list[Case]:
    """ZeRO's stages over 2 and 4 data ranks: odd sizes, accumulation, units of a block and of a whole stage.

    Beside each the same with nothing cut.
    """
    found = []
    for data in (2, 4):
        for hidden in (4, 33):
            for microbatches in (1, 4):
                for units in (0, 10**6):
                    sizes = {"hidden": hidden, "unit_bytes": units, "layers": 2, "steps": 5, "tied": hidden == 4}
                    one = Case(1, 1, data, "1f1b", microbatches, **sizes)
                    found += [replace(one, zero=stage, prefetch=(1, 0, 1, 2)[stage]) for stage in range(4)]
    return [*found, *timed_zeros(), *awaited_zeros(), *combined_zeros()]


def timed_zeros() -> list[Case]:
    """Reductions that overlap with nothing, and some that one rank starts late."""
    one = Case(1, 1, 2, "1f1b", 2, layers=2)
    return [replace(one, zero=stage, timing=timing) for stage in (1, 2, 3) for timing in ("", "at once", "late")]


def awaited_zeros() -> list[Case]:
    """A tied weight is cut and the layers are not: its last stage's rank computes others before it needs the weight."""
    layers = {"layers": 2, "split": "Et||t|L"}
    small = {"whole_below": 30_000}
    found = [Case(2, 2, 2, "interleaved", 2, zero=stage, **small) for stage in (1, 3)]
    return [*found, Case(2, 2, 2, "interleaved", 2, zero=2, **layers)]


def combined_zeros() -> list[Case]:
    """ZeRO's stages with tensor and pipeline ranks, interleaved, tied and not, dropped, small units whole, 16-bit."""
    pipelines = [(2, 1, 2, "1f1b"), (2, 2, 2, "interleaved"), (4, 1, 2, "gpipe"), (1, 2, 4, "interleaved")]
    found = []
    for stage in (1, 2, 3):
        for i, layout in enumerate(pipelines):
            cut = {"zero": stage, "prefetch": (stage + i) % 3, "tied": (stage + i) % 2 == 0}
            found.append(Case(*layout, 4, **cut, unit_bytes=10**6 * (i % 2), whole_below=300 * (i == 0)))
        dropped = {"attention_dropout": 0.3, "hidden_dropout": 0.2, "zero": stage}
        found.append(Case(1, 1, 2, "1f1b", 2, **dropped, key_value_heads=2))
        for tied in (True, False):
            cut = {"zero": stage, "tied": tied, "vocabulary": 97, "tensor": 2, "sequence_parallel": tied}
            found.append(Case(2, 1, 2, "1f1b", 2, **cut, layers=3))
            found.append(Case(1, 1, 2, "1f1b", 2, **cut, layers=3, key_value_heads=2))
        half = {"precision": Dtype.BFLOAT16, "layers": 3, "zero": stage}
        found += [Case(1, 1, 4, "1f1b", 2, **half), Case(2, 1, 2, "1f1b", 2, **half, reduce_dtype="bfloat16")]
    return found
