"""The only place where the logged state of a share group changes: live, and while loading."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kohort.broker.group.epochs.partitions import Partitions, TopicPartitions
from kohort.broker.group.epochs.replaying import forget, group_of, known, made_unless_gone
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


def replay(groups: ShardState, key: Message, value: Message | None) -> None:
    """Take over what the log says of a share group; with None it has gone."""
    _REPLAYS[type(key)](groups, key, value)


def share_group(groups: ShardState, group_id: str) -> ShareGroup:
    """Return the group; what was there under its id before was written earlier, and is over."""
    return group_of(groups, group_id, ShareGroup)


def _epoch(groups: ShardState, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None) -> None:
    if value is None:
        _forget(groups, key.group_id)
        return
    group = share_group(groups, key.group_id)
    group.generation_id = value.epoch
    group.metadata_hash = value.metadata_hash


def _forget(groups: ShardState, group_id: str) -> None:
    group = known(groups, group_id, ShareGroup)
    if group is None:
        return
    for member_id in list(group.share_members):
        group.drop_member(member_id)
    forget(groups, group)


def _member(
    groups: ShardState, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group = known(groups, key.group_id, ShareGroup)
        if group is not None:
            group.drop_member(key.member_id)
        return
    group = share_group(groups, key.group_id)
    member = group.share_members.get(key.member_id) or ShareMember(member_id=key.member_id)
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
    group = made_unless_gone(value, groups, key.group_id, ShareGroup)
    if group is not None:
        group.assignment_epoch = 0 if value is None else value.assignment_epoch
        group.assigned_at_ms = None if value is None else value.assignment_timestamp or None


def _target(
    groups: ShardState,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is not None:
        share_group(groups, key.group_id).targets[key.member_id] = _partitions(value.topic_partitions)
        return
    group = known(groups, key.group_id, ShareGroup)
    if group is not None:
        group.targets.pop(key.member_id, None)


def _current(
    groups: ShardState,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
) -> None:
    group = made_unless_gone(value, groups, key.group_id, ShareGroup)
    if group is None:
        return
    member = group.share_members.get(key.member_id)
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


_REPLAYS: dict[type[Message], Callable[[ShardState, Any, Any], None]] = {
    ShareGroupMetadataKey: _epoch,
    ShareGroupMemberMetadataKey: _member,
    ShareGroupTargetAssignmentMetadataKey: _target_epoch,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupCurrentMemberAssignmentKey: _current,
    ShareGroupStatePartitionMetadataKey: _state,
}
