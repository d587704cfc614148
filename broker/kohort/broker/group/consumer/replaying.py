"""The only place where the logged state of a consumer group changes: live, and while loading."""

import msgspec

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ClassicSide, ConsumerMember, MemberState, Resolved
from kohort.broker.group.epochs.partitions import Held
from kohort.broker.group.epochs.replaying import (
    drop_member,
    drop_target,
    forget_group,
    keep_target_epoch,
    made_unless_gone,
)
from kohort.broker.group.kind import Replay
from kohort.broker.group.turn import ShardState
from kohort.protocol.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
)
from kohort.protocol.schema import Message


def _epoch(
    groups: ShardState, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> None:
    if value is None:
        forget_group(groups, key.group_id, ConsumerGroup)
        return
    group = groups.group_of_kind(key.group_id, ConsumerGroup)
    group.generation_id = value.epoch
    group.metadata_hash = value.metadata_hash
    group.refresh()


def _member(
    groups: ShardState, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        drop_member(groups, key.group_id, key.member_id, ConsumerGroup)
        return
    group = groups.group_of_kind(key.group_id, ConsumerGroup)
    former = group.members.get(key.member_id)
    member = ConsumerMember(member_id=key.member_id) if former is None else former
    group.put_member(
        msgspec.structs.replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topic_names=value.subscribed_topic_names,
            topic_regex=value.subscribed_topic_regex,
            server_assignor=value.server_assignor,
            classic=_classic(value.classic_member_metadata),
        )
    )


def _classic(value: ClassicMemberMetadata | None) -> ClassicSide | None:
    if value is None or not value.supported_protocols:
        return None
    protocols = tuple((each.name, each.metadata) for each in value.supported_protocols)
    return ClassicSide(value.session_timeout_ms, protocols)


def _target_epoch(
    groups: ShardState,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    keep_target_epoch(groups, key.group_id, value, ConsumerGroup, first=0)


def _target(
    groups: ShardState,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        drop_target(groups, key.group_id, key.member_id, ConsumerGroup)
        return
    groups.group_of_kind(key.group_id, ConsumerGroup).targets[key.member_id] = {
        each.topic_id: frozenset(each.partitions) for each in value.topic_partitions if each.partitions
    }


def _current(
    groups: ShardState,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    group = made_unless_gone(value, groups, key.group_id, ConsumerGroup)
    if group is None:
        return
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put_member(
                msgspec.structs.replace(
                    member, epoch=0, previous_epoch=0, state=MemberState.STABLE, assigned={}, revoking={}
                )
            )
        return
    group.put_member(
        msgspec.structs.replace(
            ConsumerMember(member_id=key.member_id) if member is None else member,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_state(value.state),
            assigned=_held(value.assigned_partitions, value.member_epoch),
            revoking=_held(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _state(number: int) -> MemberState:
    return MemberState(number) if number in (0, 1, 2) else MemberState.UNKNOWN


def _held(topics: tuple[CurrentPartitions, ...], epoch: int) -> Held:
    """Return the partitions with their epochs; brokers before 4.2 have not written those."""
    held = {}
    for each in topics:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = (epoch,) * len(each.partitions)
        if each.partitions:
            held[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return held


def _regex(
    groups: ShardState,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    group = made_unless_gone(value, groups, key.group_id, ConsumerGroup)
    if group is None:
        return
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = Resolved(
            frozenset(value.topics), value.version, value.timestamp
        )
    group.refresh()


def _nothing(_groups: ShardState, _key: Message, _value: Message | None) -> None:
    """Pass over what Kafka before 4.1 kept: the topics, which the metadata have."""


REPLAYS: dict[type[Message], Replay] = {
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _nothing,
    ConsumerGroupMemberMetadataKey: _member,
    ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
    ConsumerGroupRegularExpressionKey: _regex,
}
