"""The records that keep a group, as Kafka writes them (GroupCoordinatorRecordHelpers)."""

from collections.abc import Mapping

from kohort.broker.group.classic.member import Member
from kohort.broker.group.decision import Record
from kohort.broker.group.group import CLASSIC, SHARE, STREAMS, Group
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
)


def group_record(group: Group, assignments: Mapping[str, bytes], since_ms: int) -> Record:
    """Return the record of a generation with everybody's assignment, stable since `since_ms`."""
    assert group.members, group
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=since_ms,
        members=tuple(
            _member_metadata(group, member, assignments.get(member.member_id, b""))
            for member in group.members.values()
        ),
    )
    return Record(GroupMetadataKey(group=group.group_id), value)


def empty_group_record(group: Group, now_ms: int) -> Record:
    """Return the record of a group whose last member has gone: one generation on, without members."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id + 1,
        protocol=None,
        leader=None,
        current_state_timestamp=now_ms,
        members=(),
    )
    return Record(GroupMetadataKey(group=group.group_id), value)


def tombstones(group: Group) -> tuple[Record, ...]:
    """Return the records that delete a group of whichever kind."""
    if group.group_type == CLASSIC:
        return (group_tombstone(group.group_id),)
    # Imported where there is such a group.
    if group.group_type == SHARE:
        from kohort.broker.group.share import group as shared  # noqa: PLC0415
        from kohort.broker.group.share import records  # noqa: PLC0415

        assert isinstance(group, shared.ShareGroup), group
        return tuple(records.group_tombstones(group))
    if group.group_type == STREAMS:
        from kohort.broker.group.streams import group as streaming  # noqa: PLC0415
        from kohort.broker.group.streams import records as streams_records  # noqa: PLC0415

        assert isinstance(group, streaming.StreamsGroup), group
        return tuple(streams_records.group_tombstones(group))
    from kohort.broker.group.consumer.group import ConsumerGroup  # noqa: PLC0415
    from kohort.broker.group.consumer.records import group_tombstones  # noqa: PLC0415

    assert isinstance(group, ConsumerGroup), group
    return tuple(group_tombstones(group))


def group_tombstone(group_id: str) -> Record:
    """Return the record that deletes a classic group."""
    return Record(GroupMetadataKey(group=group_id), None)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """Return the record that deletes a committed offset."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def _member_metadata(group: Group, member: Member, assignment: bytes) -> MemberMetadata:
    subscription = member.metadata(group.protocol_name)
    assert subscription is not None, (group, member)
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )
