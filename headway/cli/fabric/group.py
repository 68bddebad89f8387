"""headway fabric: the training network; its verbs are imported when they are called."""

import click

from headway.cli.lazy import LazyGroup

_VERBS = {
    "describe": ("headway.cli.fabric.describe:describe", "Draw a fabric and count it: tiers, ports, paths."),
}


@click.group(cls=LazyGroup, verbs=_VERBS, subcommand_metavar="VERB [ARGS]...")
def fabric() -> None:
    """The training network: HPN, its rivals, or one of your own.

    \b
    Example:
      headway fabric describe hpn
      headway fabric describe examples/fabric.yaml --json
    """
