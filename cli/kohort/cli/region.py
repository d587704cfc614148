"""`kohort region`: consumers that drain, checkpoint and reset together, on any Kafka."""

import click

from kohort.cli.lazy import Later, LazyGroup

_COMMANDS = {
    "run": Later("kohort.cli.region_run", "run", "Be a member, with an operator in Python."),
    "coordinate": Later("kohort.cli.region_commands", "coordinate", "Decide for a region."),
    "status": Later("kohort.cli.region_commands", "status", "Print how a region stands."),
    "checkpoint": Later("kohort.cli.region_commands", "checkpoint", "Ask for a checkpoint now."),
    "reset": Later("kohort.cli.region_commands", "reset", "Have all members go back to the last checkpoint."),
}


@click.group(cls=LazyGroup, later=_COMMANDS)
def region() -> None:
    """Have consumers drain, checkpoint and reset together.

    What a member computes is a Python class. Run a coordinator or two beside the members:

    \b
    kohort region coordinate sums --members 3
    kohort region run sums a --call shop.sums:Sum --topic payments
    kohort region status sums
    """
