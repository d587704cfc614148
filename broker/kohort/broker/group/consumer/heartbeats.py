"""ConsumerGroupHeartbeat: a member joins, keeps its session, changes its subscription, gets its assignment.

A changed subscription makes a new group epoch, and a new group epoch a new target assignment. Then this
member reconciles with the target; each other member does with its own next heartbeat.
"""

import msgspec

from kohort.broker.group.consumer.commands import ConsumerGroupHeartbeat, heartbeat_error
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.joining import (
    Joined,
    check_epoch,
    check_room,
    joined,
    joining_group,
)
from kohort.broker.group.consumer.leaving import leave
from kohort.broker.group.consumer.member import ConsumerMember, metadata_bytes
from kohort.broker.group.consumer.requests import check_heartbeat
from kohort.broker.group.consumer.stepping import Step
from kohort.broker.group.consumer.subscriptions import compiled
from kohort.broker.group.epochs.members import AWAY, JOINING, LEAVING, known_member
from kohort.broker.group.epochs.partitions import same_partitions
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)


def heartbeat(turn: Turn, command: ConsumerGroupHeartbeat) -> None:
    """Answer the heartbeat, after its changes are logged."""
    message = command.message
    try:
        check_heartbeat(message, command.version, turn.config.group_consumer_assignors)
        leaves = message.member_epoch in (LEAVING, AWAY)
        response = leave(turn, message) if leaves else _live(turn, command)
    except ApiError as error:
        response = heartbeat_error(error.code, error.message)
    turn.reply(command.request_id, response)


def _live(turn: Turn, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResponse:
    message = command.message
    if message.subscribed_topic_regex:
        compiled(message.subscribed_topic_regex)  # Before anything comes into being.
    group = turn.groups.find(message.group_id, ConsumerGroup)
    more_bytes = metadata_bytes(message.subscribed_topic_names or (), message.subscribed_topic_regex)
    check_room(turn, group, message.member_id, more_bytes)
    if message.member_epoch == JOINING:
        joins = joining_group(turn, message, command.metadata)
        start = joined(turn, joins, message, command.member_id)
    else:
        joins = turn.groups.existing(message.group_id, ConsumerGroup)
        start = Joined(_known_member(joins, message))
    wish = _updated(start.member, command)
    step = Step(turn, command.metadata, joins, start, may_describe=command.may_describe)
    member = step.taken(wish, message.topic_partitions)
    interval_ms = turn.config.of_group(
        joins.overrides,
        "consumer.heartbeat.interval.ms",
        turn.config.group_consumer_heartbeat_interval_ms,
    )
    if step.wait_ms is not None:
        interval_ms = min(interval_ms, step.wait_ms)
    return _answer(message, start.member, member, interval_ms)


def _known_member(group: ConsumerGroup, message: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    member = known_member(group, message.member_id, message.instance_id)
    check_epoch(member, message.member_epoch, message.topic_partitions)
    return member


def _updated(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> ConsumerMember:
    """Return the member with the changed fields of its heartbeat; omitted ones stay."""
    message = command.message
    names, regex = message.subscribed_topic_names, message.subscribed_topic_regex
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if message.instance_id is None else message.instance_id,
        rack_id=member.rack_id if message.rack_id is None else message.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if message.rebalance_timeout_ms == -1
            else message.rebalance_timeout_ms
        ),
        server_assignor=member.server_assignor
        if message.server_assignor is None
        else message.server_assignor,
        topic_names=member.topic_names if names is None else tuple(sorted(set(names))),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=command.client_id,
        client_host=command.client_host,
        classic=None,
    )


def _answer(
    message: ConsumerGroupHeartbeatRequest,
    before: ConsumerMember,
    member: ConsumerMember,
    interval_ms: int,
) -> ConsumerGroupHeartbeatResponse:
    """Return the answer; with the assignment if the member sends all fields, or got another one.

    A member that has to wait for the next assignment is asked to come as soon as that may be made.
    """
    tells_all = message.member_epoch == JOINING or (
        message.rebalance_timeout_ms != -1
        and (message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None)
        and message.topic_partitions is not None
    )
    assignment = None
    if tells_all or not same_partitions(before.assigned, member.assigned):
        assignment = ConsumerGroupHeartbeatAssignment(
            topic_partitions=tuple(
                ConsumerGroupHeartbeatTopicPartitions(
                    topic_id=topic_id, partitions=tuple(sorted(member.assigned[topic_id]))
                )
                for topic_id in sorted(member.assigned)
            )
        )
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )
