"""The records that keep a group, as Kafka writes them (GroupCoordinatorRecordHelpers)."""

from collections.abc import Mapping

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.decision import Record
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes], since_ms: int) -> Record:
    """Return the record of a generation with all assignments, stable since `since_ms`."""
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


def empty_group_record(group: ClassicGroup, now_ms: int) -> Record:
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


def tombstones(group: ClassicGroup) -> tuple[Record, ...]:
    """Return the records that delete the group."""
    return (group_tombstone(group.group_id),)


def group_tombstone(group_id: str) -> Record:
    """Return the record that deletes a classic group."""
    return Record(GroupMetadataKey(group=group_id), None)


def _member_metadata(group: ClassicGroup, member: Member, assignment: bytes) -> MemberMetadata:
    subscription = member.metadata(group.protocol_name)
    assert subscription is not None, (group, member)
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )
