"""headway container: containers for training on Ascend and NVIDIA hosts, made and kept."""

import click

from headway.cli.container.living import execute, images, listing, logs, remove, start, stop
from headway.cli.container.making import command, create
from headway.cli.data import Verbs


@click.group(cls=Verbs, subcommand_metavar="VERB [ARGS]...")
def container() -> None:
    """Containers that have what training needs of an Ascend or NVIDIA host.

    \b
    Example:
      headway container command --profile ascend --image cann:8.5 --name job --devices 0-7 --mount /data:/data
      headway container create --profile ascend --image cann:8.5 --name job --mount /data:/data --workdir /data
      headway container start job
      headway container exec job -- npu-smi info

    `command` prints a line of `docker run` and touches nothing. The other verbs talk to the engine at DOCKER_HOST
    (default: Docker's own socket), and all but `images` and `create` only to containers that Headway made.
    """


for _verb in (images, command, create, listing, start, stop, execute, logs, remove):
    container.add_command(_verb)
