"""StreamsGroupHeartbeat: a member joins, keeps its session, reports and gets tasks, and leaves."""

from collections.abc import Iterable, Mapping

import msgspec

from kohort.broker.group.epochs.members import AWAY, JOINING, LEAVING
from kohort.broker.group.events import MemberJoined
from kohort.broker.group.notes import fields_of
from kohort.broker.group.streams.commands import StreamsGroupHeartbeat, heartbeat_error
from kohort.broker.group.streams.endpoints import partitions_by_endpoint
from kohort.broker.group.streams.group import FIRST_ENDPOINTS, StreamsGroup
from kohort.broker.group.streams.joining import (
    Joined,
    checked_member,
    existing_group,
    joined,
    joined_group,
)
from kohort.broker.group.streams.leaving import leave
from kohort.broker.group.streams.member import Endpoint, StreamsMember
from kohort.broker.group.streams.requests import VERSION_OF_TASK_OFFSETS, check_heartbeat, topology_of
from kohort.broker.group.streams.sessions import extend_session
from kohort.broker.group.streams.stepping import Step
from kohort.broker.group.streams.tasks import Tasks, task_set
from kohort.broker.group.streams.topology import Status
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatStatus,
    StreamsGroupHeartbeatTaskIds,
)

READY_SOON_MS = 200
"""A member whose topics are being made comes again so soon; Kafka has it wait for its next heartbeat."""


def heartbeat(turn: Turn, command: StreamsGroupHeartbeat) -> None:
    """Answer the heartbeat, after its changes are logged."""
    message = command.message
    try:
        check_heartbeat(message, command.version)
        leaves = message.member_epoch in (LEAVING, AWAY)
        response = leave(turn, message) if leaves else _live(turn, command)
    except ApiError as error:
        response = heartbeat_error(error.code, error.message)
    turn.reply(command.request_id, response)


def _live(turn: Turn, command: StreamsGroupHeartbeat) -> StreamsGroupHeartbeatResponse:
    message = command.message
    owned = _owned(message)
    if message.member_epoch == JOINING:
        group = joined_group(turn, message)
        start = joined(group, message)
    else:
        group = existing_group(turn, message.group_id)
        start = Joined(checked_member(group, message, owned))
    step = Step(turn, command.metadata, group, start)
    wish = _updated(start.member, command)
    _check_room(turn, group, start.member, wish, message)
    step.prepare(None if message.topology is None else topology_of(message.topology), owned)
    is_new_group = group.group_id in turn.groups.successors
    member = step.take(wish, owned)
    extend_session(turn, group, member)
    if message.shutdown_application and group.shutdown_member_id is None:
        group.shutdown_member_id = member.member_id
    if step.is_new:
        turn.note(MemberJoined(**fields_of(turn, group, member)))
    return _answer(command, step, member, is_new_group=is_new_group)


def _owned(message: StreamsGroupHeartbeatRequest) -> Tasks | None:
    if message.active_tasks is None:
        return None
    return Tasks(
        task_set(message.active_tasks), task_set(message.standby_tasks), task_set(message.warmup_tasks)
    )


def _check_room(
    turn: Turn,
    group: StreamsGroup,
    before: StreamsMember,
    wish: StreamsMember,
    message: StreamsGroupHeartbeatRequest,
) -> None:
    """Raises: ApiError GROUP_MAX_SIZE_REACHED where there is no room for the metadata or the topology."""
    more_bytes = wish.metadata_bytes - before.metadata_bytes
    if message.topology is not None and group.topology is None:
        more_bytes += sum(len(each.encode(0)) for each in message.topology.subtopologies)
    if not turn.has_room(group, more_bytes):
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, "There is no room for what the member brings.")


def _updated(member: StreamsMember, command: StreamsGroupHeartbeat) -> StreamsMember:
    """Return the member with the changed fields of its heartbeat; omitted ones stay."""
    message = command.message
    endpoint, tags = message.user_endpoint, message.client_tags
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if message.instance_id is None else message.instance_id,
        rack_id=member.rack_id if message.rack_id is None else message.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if message.rebalance_timeout_ms == -1
            else message.rebalance_timeout_ms
        ),
        topology_epoch=member.topology_epoch if message.topology is None else message.topology.epoch,
        process_id=member.process_id if message.process_id is None else message.process_id,
        user_endpoint=member.user_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else {each.key: each.value for each in tags},
        client_id=command.client_id,
        client_host=command.client_host,
    )


def _answer(
    command: StreamsGroupHeartbeat, step: Step, member: StreamsMember, *, is_new_group: bool
) -> StreamsGroupHeartbeatResponse:
    """Return the answer; with the tasks where the member joins, or got others."""
    message, group, config = command.message, step.group, step.turn.config
    assert step.configured is not None
    is_told = message.member_epoch == JOINING or member.assigned.tasks != step.before.assigned.tasks
    if is_told and member.user_endpoint is not None:
        group.endpoint_epoch += 1
    endpoints = None
    if group.endpoint_epoch != message.endpoint_information_epoch:
        others = (each for each in group.members.values() if each.member_id != member.member_id)
        endpoints = partitions_by_endpoint((*others, member), step.configured, step.metadata)
    interval_ms = config.of_group(
        group.overrides, "streams.heartbeat.interval.ms", config.group_streams_heartbeat_interval_ms
    )
    if step.configured.missing:
        interval_ms = min(interval_ms, READY_SOON_MS)
    if step.wait_ms is not None:
        interval_ms = max(1, min(interval_ms, step.wait_ms))
    is_newer = command.version >= VERSION_OF_TASK_OFFSETS
    response = StreamsGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        acceptable_recovery_lag=config.of_group(
            group.overrides, "streams.acceptable.recovery.lag", config.group_streams_acceptable_recovery_lag
        ),
        task_offset_interval_ms=(
            config.of_group(
                group.overrides,
                "streams.task.offset.interval.ms",
                config.group_streams_task_offset_interval_ms,
            )
            if is_newer
            else 0  # As Kafka 4.3, which ignores task offsets.
        ),
        status=_statuses(step, group),
        active_tasks=_ids(member.assigned.active) if is_told else None,
        standby_tasks=_ids(member.assigned.standby) if is_told else None,
        warmup_tasks=_ids(member.assigned.warmup) if is_told else None,
        endpoint_information_epoch=FIRST_ENDPOINTS if is_new_group else group.endpoint_epoch,
        partitions_by_user_endpoint=endpoints,
    )
    if is_new_group:
        # As in Kafka: the epoch of a group's first heartbeat is not kept.
        group.endpoint_epoch = FIRST_ENDPOINTS
    return response


def _statuses(step: Step, group: StreamsGroup) -> tuple[StreamsGroupHeartbeatStatus, ...]:
    assert step.configured is not None
    told = list(step.statuses)
    if step.configured.status is not None:
        told.append((step.configured.status, step.configured.detail))
    if group.shutdown_member_id is not None:
        told.append(
            (
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a "
                "shutdown for the entire application.",
            )
        )
    return tuple(
        StreamsGroupHeartbeatStatus(status_code=status, status_detail=detail) for status, detail in told
    )


def _ids(tasks: Mapping[str, Iterable[int]]) -> tuple[StreamsGroupHeartbeatTaskIds, ...]:
    return tuple(
        StreamsGroupHeartbeatTaskIds(subtopology_id=key, partitions=tuple(sorted(tasks[key])))
        for key in sorted(tasks)
    )
