"""What may be taken away: which offsets, of which group, by whom, and not before which time.

The rules are stated here once more, from Kafka's documentation and not from the core's code.
"""

from collections.abc import Callable

from kohort.broker.group import DeleteGroup, ExpireOffsets, OffsetDelete, TopicsDeleted
from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.state import GroupState
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.offsets_topic import OffsetCommitKey

RETENTION_MINUTES = 1
RETENTION_MS = RETENTION_MINUTES * 60_000

Key = tuple[str, str, int]
"""A group, a topic, a partition."""


class Removals:
    """When each offset was last committed, and each group last known to live."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._committed_ms: dict[Key, int] = {}
        self._alive_ms: dict[str, int] = {}

    def committed(self, key: Key, at_ms: int) -> None:
        """A commit that arrived then has been acknowledged."""
        self._committed_ms[key] = max(at_ms, self._committed_ms.get(key, 0))

    def alive(self, group_id: str) -> None:
        """A member of the group is told that it lives."""
        self._alive_ms[group_id] = self._now_ms()

    def may_go(self, command: object, key: OffsetCommitKey, group: AnyGroup) -> bool:
        """Whether the command may take that offset away."""
        if isinstance(command, ExpireOffsets):
            return self._is_expired(key, group)
        if isinstance(command, DeleteGroup):
            return key.group == command.group_id and not group.members
        if isinstance(command, OffsetDelete):
            return _is_named(command, key) and not _reads(group, key.topic)
        return isinstance(command, TopicsDeleted) and key.topic in command.names

    def _is_expired(self, key: OffsetCommitKey, group: AnyGroup) -> bool:
        """Whether retention has passed since the commit, and since the last members went that read it."""
        since_ms = self._committed_ms.get((key.group, key.topic, key.partition), 0)
        if group.members:
            if group.state is not GroupState.STABLE or _reads(group, key.topic):
                return False
        else:
            since_ms = max(since_ms, self._alive_ms.get(key.group, 0))
        return self._now_ms() - since_ms >= RETENTION_MS


def _is_named(command: OffsetDelete, key: OffsetCommitKey) -> bool:
    message = command.message
    return message.group_id == key.group and any(
        topic.name == key.topic and any(each.partition_index == key.partition for each in topic.partitions)
        for topic in message.topics
    )


def _reads(group: AnyGroup, topic: str) -> bool:
    """Whether a member of a stable group subscribes to the topic; in a rebalance nobody can tell."""
    if not isinstance(group, ClassicGroup) or group.state is not GroupState.STABLE:
        return False
    subscriptions = (member.metadata(group.protocol_name) or b"" for member in group.members.values())
    return any(topic in ConsumerProtocolSubscription.decode_versioned(each).topics for each in subscriptions)
