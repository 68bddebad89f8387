"""ModelSpec: the numbers that define a model, and the presets known by name."""

from dataclasses import dataclass
from typing import Literal

from headway.errors import PlanError


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A GPT: layer norm before attention and before a GELU feed-forward, learned positions, biases everywhere.

    `vocabulary` rows of the token embedding; `positions` is the longest sequence; `tied` uses the token embedding
    as the weight of the head (Press and Wolf 2017).
    """

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    tied: bool = True
    family: Literal["gpt"] = "gpt"

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "feed_forward", "vocabulary", "positions"):
            if getattr(self, name) < 1:
                raise PlanError(f"model.{name} must be at least 1, got {getattr(self, name)}.")
        if self.hidden % self.heads:
            near = min(_divisors(self.hidden), key=lambda n: abs(n - self.heads))
            width = max(1, self.hidden // self.heads) * self.heads
            raise PlanError(
                f"model.heads must divide model.hidden: {self.hidden} over {self.heads} heads leaves "
                f"{self.hidden % self.heads}. Use heads {near}, or hidden {width}."
            )


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def _gpt(layers: int, hidden: int, heads: int, vocabulary: int = 50257, positions: int = 1024) -> ModelSpec:
    return ModelSpec(layers, hidden, heads, 4 * hidden, vocabulary, positions)


# gpt2-*: Radford et al. 2019, table 2. gpt-*: Brown et al. 2020, table 2.1, with Megatron's vocabulary padded to 51200.
PRESETS: dict[str, ModelSpec] = {
    "gpt-tiny": _gpt(4, 128, 4, vocabulary=256, positions=256),
    "gpt-mini": _gpt(6, 384, 6, vocabulary=256, positions=512),
    "gpt2": _gpt(12, 768, 12),
    "gpt2-medium": _gpt(24, 1024, 16),
    "gpt2-large": _gpt(36, 1280, 20),
    "gpt2-xl": _gpt(48, 1600, 25),
    "gpt-1.3b": _gpt(24, 2048, 16, vocabulary=51200, positions=2048),
    "gpt-2.7b": _gpt(32, 2560, 32, vocabulary=51200, positions=2048),
    "gpt-6.7b": _gpt(32, 4096, 32, vocabulary=51200, positions=2048),
    "gpt-13b": _gpt(40, 5120, 40, vocabulary=51200, positions=2048),
    "gpt-22b": _gpt(48, 6144, 64, vocabulary=51200, positions=2048),
    "gpt-175b": _gpt(96, 12288, 96, vocabulary=51200, positions=2048),
}
