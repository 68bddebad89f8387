"""Recompute of a job: what `parallel.recompute` says, checked against the model."""

import json
from typing import Any, get_args

from headway.errors import PlanError
from headway.model.recompute import Mode, Recompute
from headway.model.spec import ModelSpec


def recompute(wanted: str | dict[str, Any], model: ModelSpec) -> Recompute:
    """A mode by its name, or `{mode: full, layers: N}`; without layers all of the model's. Raises PlanError."""
    fields = {"mode": wanted} if isinstance(wanted, str) else dict(wanted)
    named, layers = fields.pop("mode", None), fields.pop("layers", model.layers)
    known: tuple[Mode, ...] = get_args(Mode)
    mode = next((each for each in known if each == named), None)
    if mode is None or fields:
        said = wanted if isinstance(wanted, str) else json.dumps(wanted)
        raise PlanError(
            f"parallel.recompute is {said}. Use {', '.join(known)}, or {{mode: full, layers: 8}} for the first 8 "
            f"layers of each stage."
        )
    if layers != model.layers and mode != "full":
        raise PlanError(f"parallel.recompute.layers is for mode full, but the mode is {mode}. Leave layers out.")
    if not isinstance(layers, int) or isinstance(layers, bool) or not 1 <= layers <= model.layers:
        raise PlanError(
            f"parallel.recompute.layers is {json.dumps(layers)}, but should be a whole number from 1 to the model's "
            f"{model.layers}: the layers of each stage that are computed again."
        )
    return Recompute() if mode == "none" else Recompute(mode, layers)
