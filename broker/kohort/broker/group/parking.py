"""Requests that wait in a member: parked, answered once, or lost with their client."""

from kohort.broker.group.commands import RequestLost
from kohort.broker.group.group import Group
from kohort.broker.group.member import LOST, Member
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import JoinGroupResponse, SyncGroupResponse


def park_join(turn: Turn, group: Group, member: Member, request_id: int) -> None:
    """Keep the member's JoinGroup until the join phase ends; an older one is sent away."""
    answer_join(turn, group, member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.awaiting_join = request_id
    turn.groups.parked[request_id] = member
    group.awaiting_joins += 1
    if group.rebalance is not None:
        group.rebalance.joined_ms.setdefault(member.member_id, turn.now_ms)


def answer_join(turn: Turn, group: Group, member: Member, response: JoinGroupResponse) -> None:
    """Answer the member's parked JoinGroup, if there is one."""
    request_id = member.awaiting_join
    if request_id is None:
        return
    member.awaiting_join = None
    group.awaiting_joins -= 1
    if request_id != LOST:
        del turn.groups.parked[request_id]
        turn.reply(request_id, response)


def park_sync(turn: Turn, member: Member, request_id: int) -> None:
    """Keep the member's SyncGroup until the leader's comes; an older one is sent away."""
    answer_sync(turn, member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = request_id
    turn.groups.parked[request_id] = member


def answer_sync(turn: Turn, member: Member, response: SyncGroupResponse) -> bool:
    """Answer the member's parked SyncGroup; return whether there was one."""
    request_id = member.awaiting_sync
    if request_id is None:
        return False
    member.awaiting_sync = None
    if request_id != LOST:
        del turn.groups.parked[request_id]
        turn.reply(request_id, response)
    return True


def dismiss(turn: Turn, group: Group, member: Member, code: ErrorCode) -> None:
    """Answer whatever the member waits for with an error."""
    member_id = member.member_id if code is ErrorCode.FENCED_INSTANCE_ID else ""
    answer_join(turn, group, member, join_error(code, member_id))
    answer_sync(turn, member, sync_error(code))


def lose(turn: Turn, command: RequestLost) -> None:
    """Never answer that request. Its member stays until its session ends, as in Kafka."""
    member = turn.groups.parked.pop(command.request_id, None)
    if member is None:
        return
    if member.awaiting_join == command.request_id:
        member.awaiting_join = LOST
    else:
        assert member.awaiting_sync == command.request_id
        member.awaiting_sync = LOST


def join_error(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Return a JoinGroup answer without a generation."""
    # Null names can be sent from version 7 only: the empty one stands for them, and clients read neither.
    return JoinGroupResponse(
        throttle_time_ms=0, error_code=code, protocol_name="", leader="", member_id=member_id, members=()
    )


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    """Return a SyncGroup answer without an assignment."""
    return SyncGroupResponse(throttle_time_ms=0, error_code=code, assignment=b"")
