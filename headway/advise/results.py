"""Results of a validation as one document: accuracy by source, what was skipped and why, and one row explained."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.advise import inputs
from headway.advise.accuracy import Errors, Pair, Sweeps, errors, sweeps
from headway.advise.inputs import Lacking
from headway.advise.published import COMPUTED, MEASURED, Published
from headway.advise.validate import Judged
from headway.sim import explain

GOOD_MFU = 0.2  # below, the host's overhead rules a row more than anything that a prediction of devices knows


@dataclass(frozen=True, slots=True)
class Flagged:
    """How many rows were predicted not to fit (`flagged`), among those that ran and among those that did not."""

    ran: int
    ran_flagged: int
    did_not_run: int
    did_not_run_flagged: int


def document(found: Sequence[tuple[Published, Judged | Lacking]], *, rows: bool = False) -> dict[str, Any]:
    """The results as `headway validate --json` prints them; errors and shares are fractions, null where nothing was
    measured. `rows`: with every row.
    """
    judged = [each for _, each in found if isinstance(each, Judged)]
    lacking = [(row, each.reason) for row, each in found if isinstance(each, Lacking)]
    skipped = Counter(row.source for row, _ in lacking)
    result: dict[str, Any] = {
        "sources": {
            source: _source([each for each in judged if each.row.source == source]) | {"skipped": skipped[source]}
            for source in dict.fromkeys(row.source for row, _ in found)
        },
        "fits": _shares(_flagged(judged)),
        "skipped": dict(Counter(reason for _, reason in lacking).most_common()),
        "memory_not_compared": dict(Counter(filter(None, map(_memory_not_compared, judged)))),
        "generic_stack": dict(
            Counter(
                each.row.facts.get("framework", "not named") for each in judged if not inputs.knows_framework(each.row)
            )
        ),
    }
    if rows:
        result["rows"] = [_row(each) for each in judged]
        result["skipped_rows"] = {row.id: reason for row, reason in lacking}
    return result


def explanation(row: Published, found: Judged | Lacking) -> dict[str, Any]:
    """All about one row: what it says, what it became, what was predicted and of what that is made."""
    said: dict[str, Any] = {"id": row.id, "facts": dict(row.facts)}
    if isinstance(found, Lacking):
        return said | {"lacking": found.reason}
    guess, stack = found.estimate, found.outline.stack
    entries = [field.name for field in dataclasses.fields(stack) if field.name not in {"name", "reasons"}]
    return said | _row(found) | {
        "outline": {
            field.name: _plain(getattr(found.outline, field.name))
            for field in dataclasses.fields(found.outline)
            if field.name != "stack"
        },
        "stack_entries": {
            name: {"is": _plain(getattr(stack, name)), "why": stack.reasons.get(name, "")} for name in entries
        },
        "parts": dict(guess.parts),
        "explain": explain.document(explain.explain(found.outline)),
        "memory": dict(guess.memory),
        "worst_rank": guess.worst_rank,
        "room": guess.room,
    }  # fmt: skip


def _source(judged: Sequence[Judged]) -> dict[str, Any]:
    good = [each for each in judged if each.row.mfu is not None and each.row.mfu >= GOOD_MFU]
    return _figures(judged) | {"at_least_20_mfu": _figures(good) if good else None}


def _figures(judged: Sequence[Judged]) -> dict[str, Any]:
    times = _pairs(each.time_pair for each in judged)
    memory = _pairs(each.memory_pair for each in judged)
    kinds = dict.fromkeys(each.row.memory_kind for each in judged if each.memory_pair)
    by_kind = {
        kind: errors(_pairs(each.memory_pair for each in judged if each.row.memory_kind == kind)) for kind in kinds
    }
    groups: dict[tuple[object, ...], list[Pair]] = {}
    for each in judged:
        if pair := each.time_pair:
            groups.setdefault(each.sweep, []).append(pair)
    return {
        "rows": sum(each.row.ran for each in judged),
        "mfu_rows": sum(each.row.ran and each.row.mfu is not None for each in judged),
        **_named("time", errors(times)),
        **_named("memory", errors(memory)),
        "memory_by_kind": {kind: _named("memory", each) for kind, each in by_kind.items()},
        **_ranking(sweeps([*groups.values()])),
        **_shares(_flagged(judged)),
    }


def _pairs(pairs: Iterable[Pair | None]) -> list[Pair]:
    return [pair for pair in pairs if pair]


def _named(what: str, found: Errors | None) -> dict[str, Any]:
    return {
        f"{what}_rows": found.rows if found else 0,
        f"{what}_mape": found.mean if found else None,
        f"{what}_median": found.median if found else None,
        f"{what}_bias": found.bias if found else None,
        f"{what}_worst": {"id": found.worst.id, "error": found.worst.error} if found else None,
    }


def _ranking(found: Sweeps) -> dict[str, Any]:
    return {
        "spearman": found.spearman,
        "sweeps": found.count,
        "sweep_rows": found.rows,
        "picks_within_5_percent": found.near,
        "pick_loss": found.loss,
        "worst_pick": {"id": found.worst.id, "loss": found.worst.error} if found.worst else None,
    }


def _flagged(judged: Sequence[Judged]) -> Flagged:
    ran = [each.estimate.fits for each in judged if each.row.ran]
    others = [each.estimate.fits for each in judged if not each.row.ran]
    return Flagged(len(ran), ran.count(False), len(others), others.count(False))


def _shares(found: Flagged) -> dict[str, Any]:
    return {
        "ran": found.ran,
        "ran_flagged": found.ran_flagged / found.ran if found.ran else None,
        "did_not_run": found.did_not_run,
        "did_not_run_flagged": found.did_not_run_flagged / found.did_not_run if found.did_not_run else None,
    }


def _memory_not_compared(judged: Judged) -> str | None:
    row = judged.row
    if "peak_mem_gb" not in row.facts or row.memory is not None:
        return None
    if row.memory_kind == COMPUTED:
        return "computed, not measured (mem_kind)"
    return "no mem_unit" if row.memory_kind in MEASURED else f"unknown mem_kind: {row.memory_kind}"


def _row(judged: Judged) -> dict[str, Any]:
    row, time, memory = judged.row, judged.time_pair, judged.memory_pair
    return {
        "id": row.id,
        "source": row.source,
        "ran": row.ran,
        "predicted_s": judged.estimate.seconds,
        "published_s": time.published if time else None,
        "time_error": time.error if time else None,
        "predicted_gb": judged.memory / row.unit,
        "published_gb": row.numbers["peak_mem_gb"] if memory else None,
        "memory_error": memory.error if memory else None,
        "unit": row.unit_name,
        "fits": judged.estimate.fits,
        "stack": judged.outline.stack.name,
    }


def _plain(value: object) -> object:
    """A frozen noun as what JSON can hold."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return sorted(map(str, value)) if isinstance(value, frozenset) else value
