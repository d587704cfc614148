"""The most frequent heartbeat: it changes nothing in a group that is stable.

Only the end of the session moves, which takes a third of the work of `heartbeats`. All other heartbeats go
there.
"""

from kohort.broker.group.consumer.commands import ConsumerGroupHeartbeat
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.decision import Decision, Reply
from kohort.broker.group.turn import Handler, ShardState
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def heartbeat(
    otherwise: Handler, groups: ShardState, command: ConsumerGroupHeartbeat, now_ms: int
) -> Decision:
    """Return the answer; `otherwise` handles heartbeats that may change something."""
    decision = answer_at_once(groups, command, now_ms)
    return otherwise(groups, command, now_ms) if decision is None else decision


def answer_at_once(groups: ShardState, command: ConsumerGroupHeartbeat, now_ms: int) -> Decision | None:
    """Return the answer to a heartbeat that changes nothing, None for any other."""
    message = command.message
    group = groups.by_id.get(message.group_id)
    if type(group) is not ConsumerGroup or not _has_nothing_to_do(group, command.metadata.version):
        return None
    member = group.members.get(message.member_id)
    session = group.sessions.get(message.member_id)
    if (
        member is None
        or session is None
        or session.timer_ms is None
        or message.member_epoch != member.epoch
        or not member.is_reconciled(group.assignment_epoch)
        or _says_something(message)
        or member.classic is not None
        or member.client_id != command.client_id
        or member.client_host != command.client_host
    ):
        return None
    config = groups.config
    deadline_ms = now_ms + config.of_group(
        group.overrides, "consumer.session.timeout.ms", config.group_consumer_session_timeout_ms
    )
    if session.timer_ms > deadline_ms:
        return None
    session.last_seen_ms = now_ms
    session.deadline_ms = deadline_ms
    response = ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=config.of_group(
            group.overrides, "consumer.heartbeat.interval.ms", config.group_consumer_heartbeat_interval_ms
        ),
    )
    return Decision((), (Reply(command.request_id, response),))


def _has_nothing_to_do(group: ConsumerGroup, metadata_version: int) -> bool:
    """Return whether no member's heartbeat can change anything of the group."""
    return (
        group.metadata_version == metadata_version
        and group.epoch == group.assignment_epoch
        and not group.is_rebalancing
        and not group.regex_counts  # They are resolved again from time to time.
        and not group.awaited
    )


def _says_something(message: ConsumerGroupHeartbeatRequest) -> bool:
    return not (
        message.topic_partitions is None
        and message.subscribed_topic_names is None
        and message.subscribed_topic_regex is None
        and message.instance_id is None
        and message.rack_id is None
        and message.rebalance_timeout_ms == -1
        and message.server_assignor is None
    )
