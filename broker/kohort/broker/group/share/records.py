"""The records that keep a share group, as Kafka writes them (GroupCoordinatorRecordHelpers)."""

from collections.abc import Iterator

from kohort.broker.group.decision import Record
from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.epochs.records import EpochRecords
from kohort.broker.group.share.group import ShareGroup, ShareTopics
from kohort.broker.group.share.member import ShareMember
from kohort.protocol.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupCurrentPartitions,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupStatePartitions,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetPartitions,
)

RECORDS = EpochRecords(
    group_epoch=ShareGroupMetadataKey,
    member=ShareGroupMemberMetadataKey,
    target_epoch=ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=ShareGroupTargetAssignmentMetadataValue,
    target=ShareGroupTargetAssignmentMemberKey,
    current=ShareGroupCurrentMemberAssignmentKey,
)
target_epoch_record = RECORDS.target_epoch_record
member_tombstones = RECORDS.member_tombstones

STABLE = 0  # The only state that a share group's member has, as the log numbers it.


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of a group's new epoch."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareMember) -> Record:
    """Return the record of a member's metadata and subscription."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
    )
    return Record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    """Return the record of a member's target assignment."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            ShareGroupTargetPartitions(topic_id=topic_id, partitions=tuple(sorted(target[topic_id])))
            for topic_id in sorted(target)
        )
    )
    return Record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ShareMember) -> Record:
    """Return the record of a member's current assignment and epoch."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=tuple(
            ShareGroupCurrentPartitions(
                topic_id=topic_id, partitions=tuple(sorted(member.assigned[topic_id]))
            )
            for topic_id in sorted(member.assigned)
        ),
    )
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Record(key, value)


def state_record(group_id: str, initializing: ShareTopics, initialized: ShareTopics) -> Record:
    """Return the record of which share partitions are being made, and which are ready."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics(initializing), initialized_topics=_topics(initialized), deleting_topics=()
    )
    return Record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _topics(topics: ShareTopics) -> tuple[ShareGroupStatePartitions, ...]:
    return tuple(
        ShareGroupStatePartitions(
            topic_id=topic_id,
            topic_name=topics[topic_id].name,
            partitions=tuple(sorted(topics[topic_id].partitions)),
        )
        for topic_id in sorted(topics)
    )


def group_tombstones(group: ShareGroup) -> Iterator[Record]:
    """Yield the records that delete a group with all that it has."""
    group_id = group.group_id
    for member_id in group.members:
        yield from member_tombstones(group_id, member_id)
    yield Record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    yield Record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    yield Record(ShareGroupMetadataKey(group_id=group_id), None)
