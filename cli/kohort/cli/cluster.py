"""`kohort cluster`: its brokers, and what an administrator has them do."""

from kohort.cli.lazy import Later, LazyGroup

import click  # isort: skip

_COMMANDS = {
    "up": Later("kohort.cli.cluster_up", "up", "Run a cluster on this machine, for trying."),
    "describe": Later("kohort.cli.cluster_brokers", "describe", "Print the brokers, and what each holds."),
    "wait": Later("kohort.cli.cluster_wait", "wait", "Return once the cluster is healthy."),
    "drain": Later("kohort.cli.cluster_brokers", "drain", "Have a broker lead nothing for a while."),
    "undrain": Later("kohort.cli.cluster_brokers", "undrain", "Let a drained broker lead again."),
    "reassign": Later("kohort.cli.cluster_reassign", "reassign", "Spread replicas evenly over brokers."),
    "balance": Later("kohort.cli.cluster_brokers", "balance", "Let preferred leaders lead again."),
    "unregister": Later("kohort.cli.cluster_brokers", "unregister", "Take out a broker that is gone."),
}


@click.group(cls=LazyGroup, later=_COMMANDS)
def cluster() -> None:
    """Describe the cluster, move replicas, drain and unregister brokers."""
