"""headway checkpoint: what checkpoints hold, and whether their bytes are those that were written."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.verbs import Verbs

if TYPE_CHECKING:
    from headway.checkpoints import Manifest

DAMAGED = 1  # exit status


@click.group(cls=Verbs, subcommand_metavar="VERB [ARGS]...")
def checkpoint() -> None:
    """Look into checkpoints, and check their bytes.

    \b
    Example:
      headway checkpoint inspect runs/stdlib-20261129-120000
      headway checkpoint verify runs/stdlib-20261129-120000/checkpoints/step-00000100
    """


@checkpoint.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def inspect(directory: Path, as_json: bool) -> int:
    """Show what DIRECTORY holds: one checkpoint, a directory of them, or a run's.

    \b
    Example:
      headway checkpoint inspect runs/stdlib-20261129-120000

    Manifests, plans and sizes are looked at, not every byte: see verify. Ends with status 1 if one cannot be gone on
    from.
    """
    from headway import checkpoints

    damage = {path: checkpoints.damage(path, [checkpoints.PLAN]) for path in checkpoints.named(directory)}
    found: dict[Path, Manifest | str] = {path: why or checkpoints.manifest(path) for path, why in damage.items()}
    _print_checkpoints(found, as_json)
    return DAMAGED if any(isinstance(each, str) for each in found.values()) else 0


@checkpoint.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def verify(directory: Path, as_json: bool) -> int:
    """Read every byte of the checkpoints that DIRECTORY holds and compare the checksums.

    \b
    Example:
      headway checkpoint verify runs/stdlib-20261129-120000/checkpoints/step-00000100

    Ends with status 1 if one is not as it was written.
    """
    from headway import checkpoints
    from headway.cli.show import console, print_json

    found = {path: checkpoints.damage(path) for path in checkpoints.named(directory)}
    if as_json:
        print_json({"checkpoints": [{"path": str(path), "damage": why} for path, why in found.items()]})
    else:
        out = console()
        for path, why in found.items():
            out.print(f"{path}: {why or 'as it was written'}", style="red" if why else "", soft_wrap=True)
    return DAMAGED if any(found.values()) else 0


def _print_checkpoints(found: "dict[Path, Manifest | str]", as_json: bool) -> None:
    from headway.cli.show import console, print_json, table
    from headway.units import show_bytes

    if as_json:
        print_json({"checkpoints": [_document(path, each) for path, each in found.items()]})
        return
    out, rows = console(), table("step", "written", "size", "layout", "plan", right=("step", "size"))
    whole = {path: each for path, each in found.items() if not isinstance(each, str)}
    for each in whole.values():
        layout = " ".join(axis for axis in each.layout.split() if not axis.endswith("=1")) or "one rank"
        rows.add_row(str(each.step), each.written, show_bytes(each.bytes), layout, each.plan)
    if whole:
        out.print(rows)
    for path, why in found.items():
        if isinstance(why, str):
            out.print(f"{path.name} cannot be gone on from: {why}", style="red", soft_wrap=True)
    if len(found) == len(whole) == 1:
        _print_one(*next(iter(whole.items())))


def _document(path: Path, each: "Manifest | str") -> dict[str, Any]:
    if isinstance(each, str):
        return {"path": str(path), "damage": each}
    return {"path": str(path), "damage": None, "bytes": each.bytes, **dataclasses.asdict(each)}


def _print_one(path: Path, made: "Manifest") -> None:
    from headway import checkpoints
    from headway.cli.show import console, facts, table
    from headway.plan import plan as plans
    from headway.plan.dtypes import dtypes
    from headway.units import show_bytes, show_count

    out, plan = console(), plans.read(path / checkpoints.PLAN)
    out.print()
    scale = f", loss scale {made.loss_scale['value']:g}" if made.loss_scale["dynamic"] else ""
    out.print(
        facts(
            [
                ("job", f"{plan.name}: {made.step} of {plan.train.steps} steps, {made.updates} updates of the weights"),
                (
                    "parameters",
                    f"{show_count(plan.num_parameters)}, with two moments each, in {dtypes(plan.train).moments}",
                ),
                ("next sample", f"{made.next_sample} of the order of seed {made.seed}, {made.samples} an epoch"),
                ("learning rate", f"{made.learning_rate:.3g} at the last step{scale}"),
                ("layout", made.layout),
            ]
        )
    )
    out.print()
    rows = table("file", "bytes", "sha256", right=("bytes",))
    for name, file in sorted(made.files.items()):
        rows.add_row(name, show_bytes(file.bytes), file.sha256[:16] + "…")
    out.print(rows)
