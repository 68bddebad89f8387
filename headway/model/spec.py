"""ModelSpec: the numbers that define a model of either family, and the presets known by name."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from headway.errors import PlanError

MOST_LAYERS = 2048
Family = Literal["gpt", "llama"]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder of transformer layers, normalised before attention and before the feed-forward.

    `gpt`: layer norm, GELU, learned positions, biases everywhere (Radford et al. 2019). `llama`: RMS norm, SwiGLU,
    rotary positions of base `rope_theta`, no biases (Touvron et al. 2023), and `key_value_heads` keys and values that
    groups of heads share (Ainslie et al. 2023). `vocabulary` rows of the token embedding; `positions` is the longest
    sequence; `tied` uses the token embedding as the weight of the head (Press and Wolf 2017). `attention_dropout` is
    the share of attention probabilities that are dropped in training, `hidden_dropout` that of the embedding's output
    and of what a layer adds to its residual stream.
    """

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    tied: bool = True
    family: Family = "gpt"
    key_value_heads: int = dataclasses.field(kw_only=True)  # `complete` fills it; heads where no keys are shared
    rope_theta: float = dataclasses.field(default=0.0, kw_only=True)  # 0: the positions are learned
    attention_dropout: float = dataclasses.field(default=0.0, kw_only=True)
    hidden_dropout: float = dataclasses.field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "feed_forward", "vocabulary", "positions", "key_value_heads"):
            if getattr(self, name) < 1:
                raise PlanError(f"model.{name} must be at least 1, got {getattr(self, name)}.")
        if self.layers > MOST_LAYERS:
            raise PlanError(f"model.layers is at most {MOST_LAYERS}, got {self.layers}.")
        if self.hidden % self.heads:
            near = _nearest(_divisors(self.hidden), self.heads)
            width = max(1, self.hidden // self.heads) * self.heads
            raise PlanError(
                f"model.heads must divide model.hidden: {self.hidden} over {self.heads} heads leaves "
                f"{self.hidden % self.heads}. Use heads {near}, or hidden {width}."
            )
        for name in ("attention_dropout", "hidden_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise PlanError(
                    f"model.{name} is the share that is dropped, at least 0 and below 1, got {getattr(self, name)}."
                )
        match self.family:
            case "gpt":
                _check_gpt(self)
            case "llama":
                _check_llama(self)
            case _:
                assert_never(self.family)

    @property
    def head_width(self) -> int:
        """Elements of one head's query, key or value."""
        return self.hidden // self.heads

    @property
    def key_value_width(self) -> int:
        """Elements of all heads' keys (or values) of one token."""
        return self.key_value_heads * self.head_width

    @property
    def without_dropout(self) -> "ModelSpec":
        """The model as it is evaluated."""
        return dataclasses.replace(self, attention_dropout=0.0, hidden_dropout=0.0)


def complete(fields: Mapping[str, Any], preset: ModelSpec | None = None) -> dict[str, Any]:
    """A model's fields as a user gave them, with those that follow from them or from the preset filled in.

    Without a preset: `key_value_heads` is `heads`; `llama` is untied with `rope_theta` 10000. Of a preset, the
    feed-forward keeps its ratio to `hidden`, and `key_value_heads` follows `heads` where the preset has as many.

    >>> complete({"hidden": 2048}, PRESETS["llama-3-8b"])["feed_forward"]
    7168
    """
    if preset is None:
        family = {"tied": False, "rope_theta": 10000.0} if fields.get("family") == "llama" else {}
        shared = {"key_value_heads": fields["heads"]} if "heads" in fields else {}
        return {**family, **shared, **fields}
    known = dataclasses.asdict(preset)
    if isinstance(hidden := fields.get("hidden"), int):
        known["feed_forward"] = -(-hidden * preset.feed_forward // preset.hidden)
    if preset.key_value_heads == preset.heads and "heads" in fields:
        known["key_value_heads"] = fields["heads"]
    return {**known, **fields}


def _check_gpt(spec: ModelSpec) -> None:
    if spec.key_value_heads != spec.heads:
        raise PlanError(
            f"model.key_value_heads {spec.key_value_heads} for {spec.heads} heads: only family llama shares keys and "
            f"values. Use key_value_heads {spec.heads}, or family llama."
        )
    if spec.rope_theta:
        raise PlanError(
            f"model.rope_theta {spec.rope_theta:g} is for family llama; gpt learns its positions. "
            f"Leave it out, or use family llama."
        )


def _check_llama(spec: ModelSpec) -> None:
    if spec.heads % spec.key_value_heads:
        near = _nearest(_divisors(spec.heads), spec.key_value_heads)
        raise PlanError(
            f"model.key_value_heads must divide model.heads: {spec.heads} over {spec.key_value_heads} leaves "
            f"{spec.heads % spec.key_value_heads}. Use key_value_heads {near}."
        )
    if spec.head_width % 2:
        raise PlanError(
            f"rotary positions turn pairs of elements, but a head has {spec.head_width} (model.hidden {spec.hidden} "
            f"over {spec.heads} heads). Use hidden {spec.heads * (spec.head_width + 1)}, or other heads."
        )
    if not (spec.rope_theta > 1 and math.isfinite(spec.rope_theta)):
        raise PlanError(
            f"model.rope_theta must be a number above 1, got {spec.rope_theta:g}. "
            f"Use 10000 as Llama 2, or 500000 as Llama 3."
        )


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _nearest(choices: list[int], wanted: int) -> int:
    return min(choices, key=lambda n: abs(n - wanted))


def _gpt(layers: int, hidden: int, heads: int, vocabulary: int = 50257, positions: int = 1024) -> ModelSpec:
    return ModelSpec(layers, hidden, heads, 4 * hidden, vocabulary, positions, key_value_heads=heads)


def _megatron(layers: int, hidden: int, heads: int) -> ModelSpec:
    return _gpt(layers, hidden, heads, vocabulary=51200, positions=2048)


def _llama(layers: int, hidden: int, heads: tuple[int, int], feed_forward: int, version: Literal[2, 3]) -> ModelSpec:
    vocabulary, positions, theta = {2: (32000, 4096, 10000.0), 3: (128256, 8192, 500000.0)}[version]
    return ModelSpec(
        layers, hidden, heads[0], feed_forward, vocabulary, positions, tied=False, family="llama",
        key_value_heads=heads[1], rope_theta=theta,
    )  # fmt: skip


PRESETS: dict[str, ModelSpec] = {
    "gpt-tiny": _gpt(4, 128, 4, vocabulary=256, positions=256),
    "gpt-mini": _gpt(6, 384, 6, vocabulary=256, positions=512),
    # Radford et al. 2019, table 2
    "gpt2": _gpt(12, 768, 12),
    "gpt2-medium": _gpt(24, 1024, 16),
    "gpt2-large": _gpt(36, 1280, 20),
    "gpt2-xl": _gpt(48, 1600, 25),
    # Brown et al. 2020, table 2.1, with Megatron's vocabulary padded to 51200; 22b: Korthikanti et al. 2022, table 3
    "gpt-1.3b": _megatron(24, 2048, 16),
    "gpt-2.7b": _megatron(32, 2560, 32),
    "gpt-6.7b": _megatron(32, 4096, 32),
    "gpt-13b": _megatron(40, 5120, 40),
    "gpt-22b": _megatron(48, 6144, 64),
    "gpt-175b": _megatron(96, 12288, 96),
    # Narayanan et al. 2021, table 1
    "gpt-1.7b": _megatron(24, 2304, 24),
    "gpt-3.6b": _megatron(30, 3072, 32),
    "gpt-7.5b": _megatron(36, 4096, 32),
    "gpt-18.4b": _megatron(40, 6144, 48),
    "gpt-39.1b": _megatron(48, 8192, 64),
    "gpt-76.1b": _megatron(60, 10240, 80),
    "gpt-145.6b": _megatron(80, 12288, 96),
    "gpt-310.1b": _megatron(96, 16384, 128),
    "gpt-529.6b": _megatron(105, 20480, 128),
    "gpt-1t": _megatron(128, 25600, 160),
    "llama-tiny": ModelSpec(
        4, 128, 4, 352, 256, 256, tied=False, family="llama", key_value_heads=2, rope_theta=10000.0
    ),
    # Touvron et al. 2023, with the feed-forwards of its published weights
    "llama-2-7b": _llama(32, 4096, (32, 32), 11008, 2),
    "llama-2-13b": _llama(40, 5120, (40, 40), 13824, 2),
    "llama-2-70b": _llama(80, 8192, (64, 8), 28672, 2),
    # Grattafiori et al. 2024, table 3; positions: the sequence of the first phase (section 3.4)
    "llama-3-8b": _llama(32, 4096, (32, 8), 14336, 3),
    "llama-3-70b": _llama(80, 8192, (64, 8), 28672, 3),
    "llama-3-405b": _llama(126, 16384, (128, 8), 53248, 3),
}
