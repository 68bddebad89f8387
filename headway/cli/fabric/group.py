"""headway fabric: the training network; its verbs are imported when they are called."""

import click

from headway.cli.verbs import LazyGroup

_VERBS = {
    "describe": ("headway.cli.fabric.describe:describe", "Draw a fabric and count it: tiers, ports, paths."),
    "run": ("headway.cli.fabric.run:run", "A job's messages on a fabric: what crosses what, and the step's seconds."),
    "bench": ("headway.cli.fabric.bench:bench", "Predict the bus bandwidth of a collective."),
    "fail": ("headway.cli.fabric.fail:fail", "Break things under a job: its bandwidth over time, and its end."),
    "goodput": ("headway.cli.fabric.goodput:goodput", "What failures cost a job in months, and on which network."),
}


@click.group(cls=LazyGroup, verbs=_VERBS, subcommand_metavar="VERB [ARGS]...")
def fabric() -> None:
    """The training network: HPN, its rivals, or one of your own.

    \b
    Example:
      headway fabric describe hpn
      headway fabric bench --fabric dcn+ --collective multi_all_reduce --gpus 448
      headway fabric run examples/gpt-175b-hpn.yaml
      headway fabric goodput examples/gpt-175b.yaml --months 6
    """
