"""Records of `__consumer_offsets` as rows: commits, and groups with their members. No Spark."""

from __future__ import annotations

from typing import NamedTuple

from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.protocol.errors import WireError
from kohort.protocol.offsets_topic import (
    DecodedRecord,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitRecord,
    decode_record,
)

CONSUMER = "consumer"
Cells = dict[str, object]


class Raw(NamedTuple):
    """A raw record of the topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def commit_row(record: Raw) -> Cells | None:
    """Return a committed offset as a row, None for another kind of record; a removal has no offset."""
    found = _decoded(record)
    if not isinstance(found, OffsetCommitRecord):
        return None
    key, value = found.key, found.value
    return {
        "group_id": key.group,
        "topic": key.topic,
        "partition": key.partition,
        "committed_offset": None if value is None else value.offset,
        "leader_epoch": None if value is None else value.leader_epoch,
        "metadata": None if value is None else value.metadata,
        "committed_ms": None if value is None else value.commit_timestamp,
        "log_partition": record.partition,
        "log_offset": record.offset,
    }


def group_row(record: Raw) -> Cells | None:
    """Return a group in one generation as a row, None for another kind of record."""
    found = _decoded(record)
    if not isinstance(found, GroupMetadataRecord):
        return None
    value = found.value
    if value is None:
        value = GroupMetadataValue(protocol_type="", generation=-1, protocol=None, leader=None, members=())
    return {
        "group_id": found.key.group,
        "is_deleted": record.value is None,
        "protocol_type": value.protocol_type,
        "generation_id": value.generation,
        "protocol_name": value.protocol,
        "leader": value.leader,
        "state_ms": value.current_state_timestamp,
        "members": [_member_cells(each, value.protocol_type) for each in value.members],
        "log_partition": record.partition,
        "log_offset": record.offset,
    }


def _decoded(record: Raw) -> DecodedRecord | None:
    """Return the content of a record, None for bytes that cannot be decoded."""
    try:
        return decode_record(record.key or b"", record.value)
    except WireError:
        return None


def _member_cells(member: MemberMetadata, protocol_type: str) -> Cells:
    is_consumer = protocol_type == CONSUMER
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
        "topics": _topics(member.subscription) if is_consumer else [],
        "assigned": _assigned(member.assignment) if is_consumer else [],
    }


def _topics(subscription: bytes) -> list[str]:
    """Return the topics that a member asks for; none of bytes that are not the consumer protocol's."""
    try:
        return list(ConsumerProtocolSubscription.decode_versioned(subscription).topics)
    except WireError:
        return []


def _assigned(assignment: bytes) -> list[Cells]:
    """Return the partitions that a member has; none of bytes that are not the consumer protocol's."""
    try:
        found = ConsumerProtocolAssignment.decode_versioned(assignment).assigned_partitions
    except WireError:
        return []
    return [{"topic": each.topic, "partitions": list(each.partitions)} for each in found]
