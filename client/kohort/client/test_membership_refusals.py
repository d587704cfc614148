"""What each error code does to a member, request by request, as Kafka's Java client has it."""

import pytest

from kohort.client.membership import ClassicMembership, FindCoordinator, Lose, Request, Send, State, Wait
from kohort.client.test_membership import heard, joined, refused_join, synced
from kohort.client.test_membership_cooperative import new_member, owning
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest

LATER_MS = 5_000
LOOKS_AGAIN = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
FOR_THE_USER = (
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


def refused(request: str, code: ErrorCode) -> ClassicMembership:
    """Return a member whose request was answered with an error: a join, a sync or a heartbeat."""
    member = owning(0, 1) if request == "heartbeat" else new_member()
    if request == "heartbeat":
        member.next_request(3_000)
        member.answered(heard(code), 3_000)
    else:
        member.next_request(0)
        if request == "sync":
            member.answered(joined(leader="m2"), 0)
            member.next_request(0)
            member.answered(synced(code=code), 0)
        else:
            member.answered(refused_join(code), 0)
    return member


def next_after_handovers(member: ClassicMembership) -> Request:
    """Return what is asked for once the user has done its part and the wait is over."""
    while member.begin_handover() is not None:
        member.end_handover()
    return member.next_request(LATER_MS)


@pytest.mark.parametrize("code", LOOKS_AGAIN)
@pytest.mark.parametrize(
    "request_name, then",
    [("join", JoinGroupRequest), ("sync", JoinGroupRequest), ("heartbeat", HeartbeatRequest)],
)
def test_a_moved_coordinator_is_looked_up_and_the_member_continues(
    request_name: str, then: type[object], code: ErrorCode
) -> None:
    member = refused(request_name, code)
    assert not member.has_handover, "it keeps what it owns"
    assert isinstance(member.next_request(3_000 if request_name == "heartbeat" else 0), Wait)
    assert member.next_request(LATER_MS) == FindCoordinator()
    member.coordinator_found()
    request = member.next_request(6_000)
    assert isinstance(request, Send)
    assert isinstance(request.request, then)


@pytest.mark.parametrize("request_name", ["join", "sync", "heartbeat"])
@pytest.mark.parametrize(
    "code, member_id", [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m1")]
)
def test_an_unknown_member_joins_as_a_new_one_and_an_old_generation_rejoins(
    request_name: str, code: ErrorCode, member_id: str
) -> None:
    member = refused(request_name, code)
    assert isinstance(member.handover, Lose) == (request_name == "heartbeat")
    request = next_after_handovers(member)
    assert isinstance(request, Send)
    assert isinstance(request.request, JoinGroupRequest)
    if request_name != "join":
        assert request.request.member_id == member_id


@pytest.mark.parametrize("request_name", ["join", "sync", "heartbeat"])
def test_a_rebalance_is_joined_without_a_loss(request_name: str) -> None:
    member = refused(request_name, ErrorCode.REBALANCE_IN_PROGRESS)
    assert not member.has_handover
    request = next_after_handovers(member)
    assert isinstance(request, Send)
    assert isinstance(request.request, JoinGroupRequest)
    assert member.owned == ({"t": (0, 1)} if request_name == "heartbeat" else {})


@pytest.mark.parametrize(
    "request_name, then",
    [("join", JoinGroupRequest), ("sync", JoinGroupRequest), ("heartbeat", HeartbeatRequest)],
)
def test_a_loading_coordinator_is_asked_again_later(request_name: str, then: type[object]) -> None:
    member = refused(request_name, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert not member.has_handover
    assert isinstance(member.next_request(3_000 if request_name == "heartbeat" else 0), Wait)
    request = member.next_request(6_000)
    assert isinstance(request, Send)
    assert isinstance(request.request, then)


@pytest.mark.parametrize("request_name", ["join", "sync", "heartbeat"])
@pytest.mark.parametrize("code", FOR_THE_USER)
def test_any_other_error_is_raised_to_the_user(request_name: str, code: ErrorCode) -> None:
    member = refused(request_name, code)
    assert member.state is State.FAILED
    assert member.error is not None
    assert member.error.code is code
    assert isinstance(member.handover, Lose) == (request_name == "heartbeat")
    assert member.next_request(LATER_MS) == Wait(None)


def test_an_unknown_error_code_is_raised_to_the_user() -> None:
    member = owning(0)
    member.next_request(3_000)
    member.answered(heard(9_999), 3_000)
    assert member.error is not None
    assert member.error.code is ErrorCode.UNKNOWN_SERVER_ERROR
