"""Requests that wait in a member: parked, answered once, or lost with their client."""

from kohort.broker.group.classic.group import LOST, ClassicGroup, Member
from kohort.broker.group.commands import JoinGroup, RequestLost
from kohort.broker.group.turn import Parked, Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.sync_group import SyncGroupResponse

VERSION_OF_NULL_NAMES = 7  # Before it a protocol name that is not there is sent as the empty one.


def park_join(turn: Turn, group: ClassicGroup, member: Member, command: JoinGroup) -> None:
    """Park the member's JoinGroup until the join phase ends; an older one gets REBALANCE_IN_PROGRESS."""
    answer_join(turn, group, member, parked_join_error(ErrorCode.REBALANCE_IN_PROGRESS, member))
    member.awaiting_join = command.request_id
    member.join_version = command.version
    turn.groups.parked[command.request_id] = member
    group.awaiting_joins += 1


def answer_join(turn: Turn, group: ClassicGroup, member: Member, response: JoinGroupResponse) -> None:
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
    """Park the member's SyncGroup until the leader's comes; an older one gets REBALANCE_IN_PROGRESS."""
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


def dismiss(turn: Turn, group: ClassicGroup, member: Member, code: ErrorCode) -> None:
    """Answer all parked requests of the member with an error."""
    forget_id = code is not ErrorCode.FENCED_INSTANCE_ID
    answer_join(turn, group, member, parked_join_error(code, member, forget_id=forget_id))
    answer_sync(turn, member, sync_error(code))


def lose(turn: Turn, command: RequestLost) -> None:
    """Forget a parked request whose client is gone. The member stays until its session ends, as in Kafka."""
    member = turn.groups.parked.pop(command.request_id, None)
    if member is None:
        return
    if member.awaiting_join == command.request_id:
        member.awaiting_join = LOST
    else:
        assert member.awaiting_sync == command.request_id
        member.awaiting_sync = LOST


def join_error(code: ErrorCode, member_id: str, version: int) -> JoinGroupResponse:
    """Return a JoinGroup answer without a generation."""
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=code,
        protocol_name=None if version >= VERSION_OF_NULL_NAMES else "",
        leader="",
        member_id=member_id,
        members=(),
    )


def parked_join_error(code: ErrorCode, member: Member, *, forget_id: bool = False) -> JoinGroupResponse:
    """Return the error response to the member's parked JoinGroup."""
    return join_error(code, "" if forget_id else member.member_id, member.join_version)


def parked_error(code: ErrorCode, member: Parked, request_id: int) -> JoinGroupResponse | SyncGroupResponse:
    """Return the error response to the member's parked JoinGroup or SyncGroup."""
    if member.awaiting_join == request_id:
        assert isinstance(member, Member)
        return parked_join_error(code, member)
    return sync_error(code)


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    """Return a SyncGroup answer without an assignment."""
    return SyncGroupResponse(throttle_time_ms=0, error_code=code, assignment=b"")
