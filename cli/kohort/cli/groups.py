"""`kohort groups`: each command is imported when it is called."""

import click

from kohort.cli.lazy import Later, LazyGroup

_COMMANDS = {
    "list": Later("kohort.cli.group_views", "list_groups", "Print the groups."),
    "describe": Later(
        "kohort.cli.group_views",
        "describe",
        "Describe groups: how far each has read, who is in it, how it is.",
    ),
    "watch": Later("kohort.cli.group_watch", "watch", "Watch groups: state, members, lag and its growth."),
    "explain": Later("kohort.cli.explain", "explain", "Tell why a group rebalanced, and what to change."),
    "reset-offsets": Later(
        "kohort.cli.group_changes", "reset_offsets", "Show, or with --execute set, where groups read on."
    ),
    "delete-offsets": Later(
        "kohort.cli.group_deletions", "delete_offsets", "Let a group forget its offsets of topics."
    ),
    "remove-members": Later(
        "kohort.cli.group_deletions", "remove_members", "Make members leave their group."
    ),
    "delete": Later("kohort.cli.group_deletions", "delete_groups", "Delete groups with their offsets."),
}


@click.group(cls=LazyGroup, later=_COMMANDS)
def groups() -> None:
    """List, describe, watch, explain, reset and delete consumer groups."""
