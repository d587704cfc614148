"""`kohort queue`: records acknowledged one by one, on any Kafka."""

import click

from kohort.cli.lazy import Later, LazyGroup

_COMMANDS = {
    "run": Later("kohort.cli.queue_run", "run", "Take records, and run a command or a function for each."),
    "track": Later("kohort.cli.queue_track", "track", "Deliver again what was not acknowledged in time."),
    "stats": Later("kohort.cli.queue_views", "stats", "Print what is unread, open, overdue and dead."),
    "where": Later("kohort.cli.queue_views", "where", "Tell where a record is now."),
}


@click.group(cls=LazyGroup, later=_COMMANDS)
def queue() -> None:
    """Deliver a topic's records one by one, each until it is acknowledged.

    It works on any Kafka and mixes with SoftwareMill's KMQ. Run a tracker or two, and as many workers as
    there are partitions:

    \b
    kohort queue track orders
    kohort queue run orders -- ./handle-order
    kohort queue stats orders
    """
