"""The only place where the logged state of a consumer group changes: live, and while loading."""

import msgspec

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ClassicSide, ConsumerMember, MemberState, Resolved
from kohort.broker.group.consumer.records import RECORDS
from kohort.broker.group.epochs.partitions import Held, Partitions
from kohort.broker.group.epochs.replaying import group_unless_tombstone, replays
from kohort.broker.group.kind import Replay
from kohort.broker.group.turn import ShardState
from kohort.protocol.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentPartitions,
)
from kohort.protocol.schema import Message


def _described(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    return msgspec.structs.replace(
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


def _classic(value: ClassicMemberMetadata | None) -> ClassicSide | None:
    if value is None or not value.supported_protocols:
        return None
    protocols = tuple((each.name, each.metadata) for each in value.supported_protocols)
    return ClassicSide(value.session_timeout_ms, protocols)


def _target(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions if each.partitions}


def _assigned(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    return msgspec.structs.replace(
        member,
        state=_state(value.state),
        assigned=_held(value.assigned_partitions, value.member_epoch),
        revoking=_held(value.partitions_pending_revocation, value.member_epoch),
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
    group = group_unless_tombstone(value, groups, key.group_id, ConsumerGroup)
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


REPLAYS: dict[type, Replay] = {
    **replays(
        ConsumerGroup,
        RECORDS,
        first_assignment_epoch=0,
        new_member=lambda member_id: ConsumerMember(member_id=member_id),
        described=_described,
        target=_target,
        assigned=_assigned,
        unassigned={"state": MemberState.STABLE, "assigned": {}, "revoking": {}},
    ),
    ConsumerGroupPartitionMetadataKey: _nothing,
    ConsumerGroupRegularExpressionKey: _regex,
}
