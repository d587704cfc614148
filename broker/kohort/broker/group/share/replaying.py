"""The only place where the logged state of a share group changes: live, and while loading."""

from collections.abc import Iterable

import msgspec

from kohort.broker.group.epochs.partitions import Partitions, TopicPartitions
from kohort.broker.group.epochs.replaying import group_unless_tombstone, replays
from kohort.broker.group.kind import Replay
from kohort.broker.group.share.group import ShareGroup, ShareTopic, ShareTopics
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.share.records import RECORDS
from kohort.broker.group.turn import ShardState
from kohort.protocol.share_group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupStatePartitions,
    ShareGroupTargetAssignmentMemberValue,
)


def _described(member: ShareMember, value: ShareGroupMemberMetadataValue) -> ShareMember:
    return msgspec.structs.replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=value.subscribed_topic_names,
    )


def _target(value: ShareGroupTargetAssignmentMemberValue) -> Partitions:
    return _partitions(value.topic_partitions)


def _assigned(member: ShareMember, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
    return msgspec.structs.replace(member, assigned=_partitions(value.assigned_partitions))


def _state(
    groups: ShardState,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    group = group_unless_tombstone(value, groups, key.group_id, ShareGroup)
    if group is None:
        return
    group.initializing = {} if value is None else _topics(value.initializing_topics)
    group.initialized = {} if value is None else _topics(value.initialized_topics)
    group.deleting = (
        {} if value is None else {each.topic_id: each.topic_name for each in value.deleting_topics}
    )


def _topics(topics: Iterable[ShareGroupStatePartitions]) -> ShareTopics:
    return {
        each.topic_id: ShareTopic(each.topic_name, frozenset(each.partitions))
        for each in topics
        if each.partitions
    }


def _partitions(topics: Iterable[TopicPartitions]) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in topics if each.partitions}


REPLAYS: dict[type, Replay] = {
    **replays(
        ShareGroup,
        RECORDS,
        first_assignment_epoch=0,
        new_member=lambda member_id: ShareMember(member_id=member_id),
        described=_described,
        target=_target,
        assigned=_assigned,
        unassigned={"assigned": {}},
    ),
    ShareGroupStatePartitionMetadataKey: _state,
}
