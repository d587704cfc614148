"""The only place where the logged state of a share group changes: live, and while loading."""

from collections.abc import Iterable

import msgspec

from kohort.broker.group.epochs.partitions import Partitions, TopicPartitions
from kohort.broker.group.epochs.replaying import (
    drop_member,
    drop_target,
    forget_group,
    keep_target_epoch,
    made_unless_gone,
)
from kohort.broker.group.kind import Replay
from kohort.broker.group.share.group import ShareGroup, ShareTopic, ShareTopics
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.turn import ShardState
from kohort.protocol.schema import Message
from kohort.protocol.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
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
)


def _epoch(groups: ShardState, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None) -> None:
    if value is None:
        forget_group(groups, key.group_id, ShareGroup)
        return
    group = groups.group_of_kind(key.group_id, ShareGroup)
    group.generation_id = value.epoch
    group.metadata_hash = value.metadata_hash


def _member(
    groups: ShardState, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None
) -> None:
    if value is None:
        drop_member(groups, key.group_id, key.member_id, ShareGroup)
        return
    group = groups.group_of_kind(key.group_id, ShareGroup)
    member = group.members.get(key.member_id) or ShareMember(member_id=key.member_id)
    group.put_member(
        msgspec.structs.replace(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=value.subscribed_topic_names,
        )
    )


def _target_epoch(
    groups: ShardState,
    key: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
) -> None:
    keep_target_epoch(groups, key.group_id, value, ShareGroup, first=0)


def _target(
    groups: ShardState,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        drop_target(groups, key.group_id, key.member_id, ShareGroup)
        return
    group = groups.group_of_kind(key.group_id, ShareGroup)
    group.targets[key.member_id] = _partitions(value.topic_partitions)


def _current(
    groups: ShardState,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
) -> None:
    group = made_unless_gone(value, groups, key.group_id, ShareGroup)
    if group is None:
        return
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put_member(msgspec.structs.replace(member, epoch=0, previous_epoch=0, assigned={}))
        return
    group.put_member(
        msgspec.structs.replace(
            ShareMember(member_id=key.member_id) if member is None else member,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=_partitions(value.assigned_partitions),
        )
    )


def _state(
    groups: ShardState,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    group = made_unless_gone(value, groups, key.group_id, ShareGroup)
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


REPLAYS: dict[type[Message], Replay] = {
    ShareGroupMetadataKey: _epoch,
    ShareGroupMemberMetadataKey: _member,
    ShareGroupTargetAssignmentMetadataKey: _target_epoch,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupCurrentMemberAssignmentKey: _current,
    ShareGroupStatePartitionMetadataKey: _state,
}
