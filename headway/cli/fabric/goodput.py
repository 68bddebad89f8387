"""headway fabric goodput: what failures cost a job in months: crashes, GPU-hours, money, on several fabrics."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from headway.advise.assumptions import Assumptions
from headway.errors import PlanError
from headway.units import parse_seconds, parse_share

if TYPE_CHECKING:
    from headway.advise.goodput import Question
    from headway.plan.plan import Plan
    from headway.units import Seconds

_WIDE = 110  # columns from which the closed form has columns of its own
_SHARE, _TIME, _NUMBER = "SHARE", "TIME", "N"
_OPTIONS = {  # field of Assumptions → option, kind, help
    "checkpoint_seconds": ("--checkpoint-seconds", _NUMBER, "How long all GPUs stand still for a checkpoint."),
    "restart": ("--restart", _TIME, "From a crash that was noticed to the first step."),
    "cost": ("--cost", _NUMBER, "USD of a GPU-hour."),
    "link_rate": ("--link-rate", _SHARE, "Failures a month of a link from a card to a ToR."),
    "tor_rate": ("--tor-rate", _SHARE, "Of a ToR."),
    "gpu_rate": ("--gpu-rate", _SHARE, "Of a GPU."),
    "host_rate": ("--host-rate", _SHARE, "Of a host, without its GPUs."),
    "flap_rate": ("--flap-rate", _SHARE, "Of a link that comes back by itself."),
    "flap_stall": ("--flap-stall", _TIME, "How long a flap stalls a job with one ToR a card."),
    "collective_timeout": ("--collective-timeout", _TIME, "What a job with one ToR a card survives without a link."),
    "link_repair": ("--link-repair", _TIME, "Mean time until a link is repaired."),
    "tor_repair": ("--tor-repair", _TIME, "Until a ToR is."),
    "host_repair": ("--host-repair", _TIME, "Until a host is; counts where none is free."),
    "slowdown": ("--slowdown", _SHARE, "What is missing while a card has half its ports."),
    "move_after": ("--move-after", _TIME, "Then the job leaves a host with half a card; or never."),
    "spares": ("--spares", _SHARE, "Free hosts, by host of the job."),
}
_PARSE: dict[str, Callable[[str], float]] = {_SHARE: parse_share, _TIME: parse_seconds}


def _assumed(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with an option for each assumption."""
    for field, (option, kind, said) in reversed(_OPTIONS.items()):
        default = _show(kind, getattr(Assumptions(), field))
        shown = f"{said}  [{default}]"
        kinds: dict[str, Any] = {"type": float} if kind == _NUMBER else {"metavar": kind}
        command = click.option(option, field, help=shown, **kinds)(command)
    return command


def _show(kind: str, value: float | None) -> str:
    from headway.units import show_duration

    if value is None:
        return "never"
    if kind == _SHARE:
        return f"{value * 100:.3g}%"
    return show_duration(value) if kind == _TIME else f"{value:g}"


@click.command(
    epilog="SHARE is like 0.057% or 0.00057, TIME like 90s, 2min, 3h or 1.5d. Model and sources: docs/goodput.md."
)
@click.argument("job", required=False, type=click.Path(path_type=Path))
@click.option("--gpus", type=int, metavar="N", help="A job of N GPUs instead of JOB.")
@click.option("--months", type=float, default=6.0, show_default=True, metavar="N", help="How long it runs.")
@click.option("--checkpoint-every", metavar="TIME", help="Or `optimum`.  [checkpoint.every of JOB, else the optimum]")
@click.option("--fabric", "fabrics", multiple=True, metavar="NAME", help="May repeat.  [single-tor, dcn+, hpn]")
@_assumed
@click.option("--trials", type=int, default=1000, show_default=True, metavar="N", help="Lives that are played.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Same seed, same numbers.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of JOB; may repeat.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")
def goodput(
    *,
    job: Path | None,
    gpus: int | None,
    checkpoint_every: str | None,
    fabrics: tuple[str, ...],
    overrides: tuple[str, ...],
    as_json: bool,
    **numbers: "str | float | None",
) -> None:
    """Play months of JOB (a job file or a plan) with failures, on networks of one and of two ToRs a card.

    \b
    Example:
      headway fabric goodput examples/gpt-175b.yaml --months 6
      headway fabric goodput --gpus 3000 --checkpoint-every 3h
      headway fabric goodput --gpus 3000 --gpu-rate 0 --host-rate 0 --move-after never

    Prints crashes, lost GPU-hours by cause, money and goodput, each with its 95 % interval, and all assumptions.
    """
    from headway.advise import goodput as advice
    from headway.cli.show import print_json

    given = _given({field: numbers.pop(field) for field in _OPTIONS})
    played: dict[str, Any] = numbers  # months, trials and seed
    plan, step = _plan(job, gpus, overrides)
    if plan:
        gpus = plan.layout.world
    assert gpus is not None
    interval = _interval(checkpoint_every, plan, step)
    asked = advice.Question(gpus=gpus, interval=interval, **played)
    found = advice.document(asked, given, advice.study(asked, given, fabrics or advice.FABRICS))
    if plan:
        found = {"job": _job(plan, step, asked), **found}
    if as_json:
        print_json(found)
    else:
        _print(found)


def _given(assumed: "dict[str, str | float | None]") -> Assumptions:
    changes: dict[str, Any] = {}
    for field, value in assumed.items():
        if value is not None:
            option, kind, _ = _OPTIONS[field]
            never = field == "move_after" and value == "never"
            parsed = _read(option, value, _PARSE[kind]) if isinstance(value, str) and not never else value
            changes[field] = None if never else parsed
    return dataclasses.replace(Assumptions(), **changes)


def _read(option: str, text: str, parse: Callable[[str], float]) -> float:
    try:
        return parse(text)
    except PlanError as error:
        raise PlanError(f"{option}: {error}") from None


def _plan(job: Path | None, gpus: int | None, overrides: tuple[str, ...]) -> "tuple[Plan | None, Seconds]":
    """The plan of JOB and its step's seconds; none and 0 for a number of GPUs."""
    from headway.advise.goodput import step_seconds
    from headway.plan import build
    from headway.units import Seconds

    if (job is None) == (gpus is None):
        raise click.UsageError("give a JOB or --gpus N, one of them.")
    if job is None:
        if overrides:
            raise click.UsageError("--set changes a JOB, and there is none.")
        return None, Seconds(0.0)
    built = build.from_file(job, overrides)
    return built, step_seconds(built)


def _interval(text: str | None, plan: "Plan | None", step: "Seconds") -> "Seconds | Literal['optimum']":
    """Seconds between checkpoints, or `optimum`."""
    from headway.units import Seconds

    if text is None and plan and plan.checkpoint.every:
        return Seconds(plan.checkpoint.every * step)
    if text is None or text == "optimum":
        return "optimum"
    return Seconds(_read("--checkpoint-every", text, parse_seconds))


def _job(plan: "Plan", step: "Seconds", asked: "Question") -> dict[str, Any]:
    return {
        "name": plan.name,
        "step_seconds": step,
        "tokens_per_step": plan.tokens_per_step,
        "tokens": plan.tokens_per_step * asked.horizon / step,
    }


def _print(found: dict[str, Any]) -> None:
    from headway.cli.show import console, is_coloured, print_lines
    from headway.report import goodput as report
    from headway.units import show_seconds

    out = console()
    title = f"{found['gpus']:,} GPUs for {report.months(found)}"
    if "job" in found:
        title = f"{found['job']['name']}: {title}, {show_seconds(found['job']['step_seconds'])} a step"
    out.print(title, style="bold")
    out.print()
    out.print(report.table(found, expected=out.width >= _WIDE))
    out.print()
    if lines := report.bars(found, out.width, coloured=is_coloured(out)):
        print_lines(out, lines)
        out.print()
    for note in report.notes(found):
        out.print(note)
    out.print()
    out.print(report.assumptions(found))
