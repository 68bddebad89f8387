"""Job: what the user asks for, as the sections and defaults of the job file."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from headway.errors import PlanError
from headway.placement import Tier
from headway.units import Bytes, Dtype, parse_bytes


def _bytes(value: object) -> object:
    try:
        return parse_bytes(value) if isinstance(value, str) else value
    except PlanError as error:
        raise ValueError(str(error)) from None  # pydantic adds the key


_UNIT_BYTES, _WHOLE_BELOW = Bytes(4 * 2**20), Bytes(64 * 2**10)
BytesText = Annotated[Bytes, BeforeValidator(_bytes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Tier of each state that may leave the device."""

    optimizer: Tier = "device"
    params: Tier = "device"
    activations: Tier = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """How the model is split: world = tensor × pipeline × data."""

    tensor: int = 1
    pipeline: int = 2
    data: int = 2
    chunks: int = 1
    schedule: str = "1f1b"
    split: str | tuple[int, ...] = "balanced"
    sequence_parallel: bool = False
    zero: int = 0
    offload: Offload | str = field(default_factory=Offload)
    disk_path: str | None = None
    recompute: str | dict[str, Any] = "none"
    unit_bytes: BytesText = _UNIT_BYTES
    prefetch: int = 1
    whole_below: BytesText = _WHOLE_BELOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What is read: `path` is a folder or file of text, `stdlib` (Python's standard library), or a token file."""

    path: str = "stdlib"
    tokenizer: str = "bytes"
    sequence_length: int = 256
    validation: float = 0.01
    workers: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """AdamW with warm-up to `lr` and decay to `min_lr`; `clip` bounds the global gradient norm (0: off)."""

    name: Literal["adamw"] = "adamw"
    lr: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0
    schedule: Literal["cosine", "linear", "wsd", "constant"] = "cosine"
    warmup_steps: int = 20
    decay_steps: int = 20
    min_lr: float = 3e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    """How long and how large: `global_batch` and `microbatch` count sequences.

    `label_smoothing` is the share of each target that is spread evenly over the vocabulary (Szegedy et al. 2016, §7).
    `loss_scale` is for float16; a dynamic one doubles after `loss_scale_window` steps without overflow.
    """

    steps: int = 200
    global_batch: int = 32
    microbatch: int = 4
    precision: Dtype = Dtype.FLOAT32
    reduce_dtype: Dtype = Dtype.FLOAT32
    label_smoothing: float = 0.0
    loss_scale: float | Literal["dynamic"] = "dynamic"
    loss_scale_window: int = 1000
    seed: int = 0
    evaluate_every: int = 50
    hang_after: int = 300
    on_nonfinite: Literal["stop", "skip"] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where and how often checkpoints are written, how many are kept (0: all), and where another run's are.

    `on_error`: what happens to the training when one cannot be written.
    """

    directory: str | None = None
    every: int = 0
    keep: int = 2
    asynchronous: bool = True
    on_error: Literal["stop", "continue"] = "stop"
    resume: str | None = None

    @property
    def saves(self) -> bool:
        """Whether the job writes checkpoints without being told to stop."""
        return self.every > 0 or self.directory is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Where the run's files go (`{name}` is the job's, `{time}` the start's), and which step's trace it keeps."""

    directory: str = "runs/{name}-{time}"
    profile: int | Literal["last"] = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job file, section by section with the defaults. `model` and `cluster` are a preset's name or a mapping."""

    model: str | dict[str, Any] = "gpt-tiny"
    cluster: str | dict[str, Any] = "local-cpu"
    parallel: Parallel | Literal["auto"] = field(default_factory=Parallel)
    data: Data = field(default_factory=Data)
    optimizer: Optimizer = field(default_factory=Optimizer)
    train: Train = field(default_factory=Train)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    run: Run = field(default_factory=Run)
