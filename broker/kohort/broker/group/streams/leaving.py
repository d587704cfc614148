"""Members of streams groups that go: by their own word, or because nothing was heard of them."""

import msgspec

from kohort.broker.group.decision import RevocationTimer, SessionTimer
from kohort.broker.group.epochs import explaining
from kohort.broker.group.epochs.leaving import (
    AWAY_FOR_A_WHILE,
    LEFT,
    SILENT,
    note_expired,
    note_left,
)
from kohort.broker.group.epochs.members import check_static
from kohort.broker.group.epochs.sessions import expect_revocation, has_ended, silent_ms
from kohort.broker.group.events import (
    Cause,
    CauseKind,
    GroupEmptied,
    GroupLoaded,
)
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import AWAY, MemberState, StreamsMember
from kohort.broker.group.streams.records import current_record, epoch_record, member_tombstones
from kohort.broker.group.streams.sessions import extend_session, forget_timers
from kohort.broker.group.streams.tasks import NOTHING_HELD
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


def leave(turn: Turn, message: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    """Let the member go, and return the answer. Raises: ApiError."""
    group = turn.groups.by_id.get(message.group_id)
    if not isinstance(group, StreamsGroup):
        raise not_found(message.group_id, is_there=group is not None)
    if message.instance_id is None:
        member = group.streams_member(message.member_id)
    else:
        member = check_static(group, message.instance_id, message.member_id)
    if message.shutdown_application and group.shutdown_member_id is None:
        group.shutdown_member_id = member.member_id
    is_away = message.instance_id is not None and message.member_epoch == AWAY
    if is_away:
        away = msgspec.structs.replace(
            member, epoch=AWAY, assigned=member.assigned.since_ever(), revoking=NOTHING_HELD
        )
        turn.log(current_record(group.group_id, away))
    else:
        remove_member(turn, group, explaining.cause_of(turn, CauseKind.MEMBER_LEFT, member), member)
    note_left(turn, group.group_id, member, AWAY_FOR_A_WHILE if is_away else LEFT)
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


def not_found(group_id: str, *, is_there: bool) -> ApiError:
    """Return what is said where there is no streams group of that id."""
    words = f"Group {group_id} is not a streams group." if is_there else f"Group {group_id} not found."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, words)


def remove_member(turn: Turn, group: StreamsGroup, cause: Cause, member: StreamsMember) -> None:
    """Take the member out; what it had is free for the others from the next epoch on."""
    group_id, member_id = group.group_id, member.member_id
    explaining.epoch_grows(turn, group, cause, without={member_id})
    explaining.gone(turn, group, member_id, is_expired=cause.kind is not CauseKind.MEMBER_LEFT)
    for record in member_tombstones(group_id, member_id):
        turn.log(record)
    forget_timers(turn, group, member_id)
    epoch = group.epoch + 1
    validated = group.validated_topology_epoch
    turn.log(epoch_record(group, epoch, group.metadata_hash, validated, group.last_configs))
    if group.member_count == 1:
        explaining.emptied(turn, group, epoch)
        turn.note(GroupEmptied(group_id=group_id, at_ms=turn.now_ms, generation_id=epoch))


def session_timer_fired(turn: Turn, group: StreamsGroup, key: SessionTimer) -> None:
    """Put the member out if nothing was heard of it, or wait on for as long as it has said since."""
    if has_ended(turn, group, key):
        _expire(turn, group, key.member_id, CauseKind.MEMBER_EXPIRED, SILENT)


def revocation_timer_fired(turn: Turn, group: StreamsGroup, key: RevocationTimer) -> None:
    """Put the member out that has not given up what it had to, in the same epoch still."""
    asked_epoch = group.revocations.get(key.member_id)
    member = group.streams_members.get(key.member_id)
    if member is None or member.state is not MemberState.UNREVOKED or member.epoch != asked_epoch:
        return
    reason = "it did not give up its tasks within its rebalance timeout"
    _expire(turn, group, key.member_id, CauseKind.MEMBER_DID_NOT_COME, reason)


def _expire(turn: Turn, group: StreamsGroup, member_id: str, kind: CauseKind, reason: str) -> None:
    member = group.streams_member(member_id)
    after_ms = silent_ms(turn, group, member_id)
    remove_member(turn, group, explaining.cause_of(turn, kind, member, after_ms=after_ms), member)
    note_expired(turn, group.group_id, member, reason, after_ms)


def resume(turn: Turn, group: StreamsGroup) -> None:
    """Let the members of a group that came back from the log go on where they were."""
    if not group.streams_members:
        return
    for member in group.streams_members.values():
        extend_session(turn, group, member.member_id)
        if member.state is MemberState.UNREVOKED:
            expect_revocation(turn, group, member)
    turn.note(
        GroupLoaded(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            generation_id=group.epoch,
            members=group.member_count,
        )
    )
