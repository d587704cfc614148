"""What is wrong with a request whatever state its group is in: told at once, also while a shard loads.

Source: org.apache.kafka.coordinator.group.GroupCoordinatorService, which checks this before it asks a shard.
"""

from kohort.broker.group.commands import Command, Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from kohort.broker.group.config import GroupConfig
from kohort.protocol.errors import ErrorCode

_OF_GROUPS = JoinGroup, SyncGroup, Heartbeat, LeaveGroup


def final_error(command: Command, config: GroupConfig) -> ErrorCode | None:
    """Return the code that the command gets in any case, None where that depends on its group."""
    if isinstance(command, _OF_GROUPS) and not command.message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(command, JoinGroup):
        shortest_ms, longest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest_ms <= command.message.session_timeout_ms <= longest_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
    return None
