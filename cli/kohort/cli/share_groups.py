"""`kohort share-groups`: each command is imported when it is called."""

import click

from kohort.cli.lazy import Later, LazyGroup

_COMMANDS = {
    "list": Later("kohort.cli.share_group_views", "list_groups", "Print the share groups."),
    "describe": Later(
        "kohort.cli.share_group_views",
        "describe",
        "Describe share groups: where each begins, who is in it, how it is.",
    ),
    "reset-offsets": Later(
        "kohort.cli.group_changes",
        "reset_share_offsets",
        "Show, or with --execute set, where a share group begins.",
    ),
    "delete-offsets": Later(
        "kohort.cli.group_deletions", "delete_share_offsets", "Let a share group forget topics."
    ),
    "delete": Later("kohort.cli.group_deletions", "delete_share_groups", "Delete share groups."),
}


@click.group(cls=LazyGroup, later=_COMMANDS)
def share_groups() -> None:
    """List, describe, reset and delete share groups."""
