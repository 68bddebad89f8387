"""headway container: containers for training; its verbs are imported when they are called."""

import click

from headway.cli.verbs import LazyGroup

_VERBS = {
    "command": ("headway.cli.container.making:command", "Print the line of docker run; touch nothing."),
    "create": ("headway.cli.container.making:create", "Make a container of what this host has."),
    "start": ("headway.cli.container.living:start", "Start containers."),
    "exec": ("headway.cli.container.living:execute", "Run a command, or a shell, in a running container."),
    "logs": ("headway.cli.container.living:logs", "Print what a container's command has written."),
    "stop": ("headway.cli.container.living:stop", "Stop containers: SIGTERM, then SIGKILL."),
    "remove": ("headway.cli.container.living:remove", "Take containers away."),
    "list": ("headway.cli.container.living:listing", "List Headway's containers, running or not."),
    "images": ("headway.cli.container.living:images", "List the images that the engine holds."),
}


@click.group(cls=LazyGroup, verbs=_VERBS, subcommand_metavar="VERB [ARGS]...")
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
