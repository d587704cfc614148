"""Members of streams groups that leave, by their own request or after a timeout."""

import msgspec

from kohort.broker.group.epochs.leaving import AWAY_FOR_A_WHILE, LEFT
from kohort.broker.group.epochs.members import AWAY, known_member
from kohort.broker.group.epochs.rebalancing import end_rebalance, epoch_grows
from kohort.broker.group.epochs.sessions import forget_timers
from kohort.broker.group.events import Cause, CauseKind, GroupEmptied, MemberLeft
from kohort.broker.group.notes import fields_of, member_cause
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.streams.records import current_record, epoch_record, member_tombstones
from kohort.broker.group.streams.tasks import NOTHING_HELD
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


def leave(turn: Turn, message: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    """Remove the member, and return the answer. Raises: ApiError."""
    group = turn.groups.existing(message.group_id, StreamsGroup)
    member = known_member(group, message.member_id, message.instance_id)
    if message.shutdown_application and group.shutdown_member_id is None:
        group.shutdown_member_id = member.member_id
    is_away = message.instance_id is not None and message.member_epoch == AWAY
    if is_away:
        away = msgspec.structs.replace(
            member, epoch=AWAY, assigned=member.assigned.since_ever(), revoking=NOTHING_HELD
        )
        turn.log(current_record(group.group_id, away))
    else:
        remove_member(turn, group, member_cause(turn, CauseKind.MEMBER_LEFT, member), member)
    reason = AWAY_FOR_A_WHILE if is_away else LEFT
    turn.note(MemberLeft(**fields_of(turn, group, member), reason=reason))
    return StreamsGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
        task_offset_interval_ms=0,
        status=(),
        endpoint_information_epoch=0,
    )


def remove_member(turn: Turn, group: StreamsGroup, cause: Cause, member: StreamsMember) -> None:
    """Remove the member; its tasks are free for the others from the next epoch."""
    group_id, member_id = group.group_id, member.member_id
    epoch_grows(turn, group, cause, member)
    for record in member_tombstones(group_id, member_id):
        turn.log(record)
    forget_timers(turn, group, member_id)
    epoch = group.epoch + 1
    validated = group.validated_topology_epoch
    turn.log(epoch_record(group, epoch, group.metadata_hash, validated, group.last_configs))
    if group.member_count == 1:
        end_rebalance(turn, group, epoch, {})
        turn.note(GroupEmptied(group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.epoch + 1))
