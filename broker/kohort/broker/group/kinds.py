"""The registry of all kinds of groups. Each is imported with its first group, command or record."""

from collections.abc import Callable, Iterable

from kohort.broker.group.commands import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from kohort.broker.group.decision import Record
from kohort.broker.group.group import CLASSIC, CONSUMER, SHARE, STREAMS, AnyGroup
from kohort.broker.group.kind import GroupKind, Replay
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.turn import Handler, Turn
from kohort.broker.group.views import GroupView
from kohort.protocol.offsets_topic import CONSUMER_GROUP_TYPES, SHARE_GROUP_TYPES, STREAMS_GROUP_TYPES
from kohort.protocol.schema import Message


def _classic() -> GroupKind:
    from kohort.broker.group.classic.kind import KIND  # noqa: PLC0415  # A kind is imported when it is used.

    return KIND


def _consumer() -> GroupKind:
    from kohort.broker.group.consumer.kind import KIND  # noqa: PLC0415

    return KIND


def _share() -> GroupKind:
    from kohort.broker.group.share.kind import KIND  # noqa: PLC0415

    return KIND


def _streams() -> GroupKind:
    from kohort.broker.group.streams.kind import KIND  # noqa: PLC0415

    return KIND


_KINDS: dict[str, Callable[[], GroupKind]] = {
    CLASSIC: _classic,
    CONSUMER: _consumer,
    SHARE: _share,
    STREAMS: _streams,
}
_RECORD_TYPES: dict[int, str] = {
    **dict.fromkeys(CONSUMER_GROUP_TYPES, CONSUMER),
    **dict.fromkeys(SHARE_GROUP_TYPES, SHARE),
    **dict.fromkeys(STREAMS_GROUP_TYPES, STREAMS),
}
"""Which kind of group a record of `__consumer_offsets` is about, by the type that its key begins with."""


class GroupKinds:
    """Finds a kind by its groups, and what handles a command or a record by its class."""

    def __init__(self) -> None:
        self._loaded: dict[str, GroupKind] = {}

    def named(self, group_type: str) -> GroupKind:
        """Return the kind of Kafka's name."""
        kind = self._loaded.get(group_type)
        if kind is None:
            kind = self._loaded[group_type] = _KINDS[group_type]()
        return kind

    def of(self, group: AnyGroup | None) -> GroupKind:
        """Return the kind of the group; where there is none it would be a classic one."""
        return self.named(CLASSIC if group is None else group.group_type)

    def handler(self, command: type) -> Handler:
        """Return what handles a command that only one kind of group has."""
        return self.named(command.group_type).commands[command]  # type: ignore[attr-defined]  # Such commands have it.

    def replay(self, key: type[Message]) -> Replay:
        """Return what takes over records with such a key."""
        return self.named(_RECORD_TYPES.get(key.declaration().api_key, CLASSIC)).replays[key]

    def simple_group(self, group_id: str, shard_bytes: ShardBytes) -> AnyGroup:
        """Return a group that has offsets alone: for Kafka it is a classic one."""
        return self.named(CLASSIC).group(group_id, shard_bytes)

    def tombstones(self, group: AnyGroup) -> Iterable[Record]:
        """Return the records that delete the group."""
        return self.of(group).tombstones(group)


KINDS = GroupKinds()


def classic_request(turn: Turn, command: JoinGroup | SyncGroup | Heartbeat | LeaveGroup) -> None:
    """Have a request of the classic protocol answered by the kind of the group that it names."""
    kind = KINDS.of(turn.groups.by_id.get(command.message.group_id))
    kind.classic_requests[type(command)](turn, command)


def view_of(group: AnyGroup, now_ms: int) -> GroupView:
    """Return the group for people, as it stands at that time."""
    return KINDS.of(group).view(group, now_ms)
