"""The records that keep a consumer group, as Kafka writes them (GroupCoordinatorRecordHelpers)."""

from collections.abc import Iterator

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ClassicSide, ConsumerMember, Resolved
from kohort.broker.group.decision import Record
from kohort.broker.group.epochs.partitions import Held, Partitions
from kohort.broker.group.epochs.records import EpochRecords
from kohort.protocol.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    TargetPartitions,
)

RECORDS = EpochRecords(
    group_epoch=ConsumerGroupMetadataKey,
    member=ConsumerGroupMemberMetadataKey,
    target_epoch=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
    target=ConsumerGroupTargetAssignmentMemberKey,
    current=ConsumerGroupCurrentMemberAssignmentKey,
)
target_epoch_record = RECORDS.target_epoch_record
member_tombstones = RECORDS.member_tombstones


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of a group's new epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of a member's metadata and subscription."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=_classic(member.classic),
    )
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    """Return the record of a member's target assignment."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            TargetPartitions(topic_id=topic_id, partitions=tuple(sorted(target[topic_id])))
            for topic_id in sorted(target)
        )
    )
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of a member's current assignment and epoch."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_held(member.assigned),
        partitions_pending_revocation=_held(member.revoking),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Record(key, value)


def regex_record(group_id: str, regex: str, resolved: Resolved) -> Record:
    """Return the record of the topics that an expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=tuple(sorted(resolved.topics)), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> Record:
    """Return the record that forgets an expression."""
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def group_tombstones(group: ConsumerGroup) -> Iterator[Record]:
    """Yield the records that delete a group with all that it has."""
    group_id = group.group_id
    for member_id in group.members:
        yield from member_tombstones(group_id, member_id)
    for regex in group.regexes:
        yield regex_tombstone(group_id, regex)
    yield Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    yield Record(ConsumerGroupMetadataKey(group_id=group_id), None)


def _classic(side: ClassicSide | None) -> ClassicMemberMetadata | None:
    if side is None:
        return None
    return ClassicMemberMetadata(
        session_timeout_ms=side.session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in side.protocols
        ),
    )


def _held(held: Held) -> tuple[CurrentPartitions, ...]:
    return tuple(
        CurrentPartitions(
            topic_id=topic_id,
            partitions=tuple(sorted(held[topic_id])),
            assignment_epochs=tuple(held[topic_id][index] for index in sorted(held[topic_id])),
        )
        for topic_id in sorted(held)
    )
