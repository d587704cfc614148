"""The registry of all kinds of groups. Each is imported with its first group, command or record."""

from collections.abc import Callable, Iterable

from kohort.broker.group.decision import Record
from kohort.broker.group.group import CLASSIC, CONSUMER, SHARE, STREAMS, AnyGroup
from kohort.broker.group.kind import GroupKind
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.views import GroupStatus
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


class GroupKinds(dict[str, GroupKind]):
    """The kinds by Kafka's names for them."""

    def __missing__(self, name: str) -> GroupKind:
        kind = self[name] = _KINDS[name]()
        return kind

    def of_record(self, key: type[Message]) -> GroupKind:
        """Return the kind whose groups records with such a key are about."""
        return self[_RECORD_TYPES.get(key.declaration().api_key, CLASSIC)]

    def simple_group(self, group_id: str, shard_bytes: ShardBytes) -> AnyGroup:
        """Return a group that has offsets alone: for Kafka it is a classic one."""
        return self[CLASSIC].group(group_id, shard_bytes)

    def tombstones(self, group: AnyGroup) -> Iterable[Record]:
        """Return the records that delete the group."""
        return self[group.group_type].tombstones(group)


KINDS = GroupKinds()


def status_of(group: AnyGroup, now_ms: int) -> GroupStatus:
    """Return the state of the group for people, at that time."""
    return KINDS[group.group_type].status(group, now_ms)
