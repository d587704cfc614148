import pytest

from kohort.client.assignors import RANGE, STICKY
from kohort.client.errors import NetworkError
from kohort.client.membership import (
    POLL_TIMEOUT_REASON,
    Assign,
    ClassicMembership,
    FindCoordinator,
    HandOut,
    Lose,
    MemberSettings,
    Request,
    Revoke,
    Send,
    State,
    Wait,
)
from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SETTINGS = MemberSettings("g", max_poll_interval_ms=10_000, heartbeat_interval_ms=3_000)


def new_member(settings: MemberSettings = SETTINGS) -> ClassicMembership:
    member = ClassicMembership(settings, [RANGE])
    member.poll_begins()
    member.subscribe(["t"])
    return member


def joined(
    leader: str = "m1",
    member_id: str = "m1",
    generation: int = 1,
    others: tuple[str, ...] = (),
    protocol: str = "range",
    *,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    wishes = ConsumerProtocolSubscription(topics=("t",), owned_partitions=()).encode_versioned()
    members = tuple(JoinGroupResponseMember(member_id=each, metadata=wishes) for each in (member_id, *others))
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=0,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members if leader == member_id else (),
    )


def refused_join(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time_ms=0, error_code=code, protocol_name=None, leader="", member_id=member_id, members=()
    )


def synced(*partitions: int, code: int = 0) -> SyncGroupResponse:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=(TopicPartitions(topic="t", partitions=partitions),)
    )
    return SyncGroupResponse(throttle_time_ms=0, error_code=code, assignment=assignment.encode_versioned())


def heard(code: int = 0) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=0, error_code=code)


def sent(request: Request) -> JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest:
    assert isinstance(request, Send), request
    return request.request


def join(member: ClassicMembership, now_ms: int = 0, generation: int = 1, *partitions: int) -> None:
    """Lead the member, alone in its group, from outside to owning `partitions`."""
    if member.next_request(now_ms) == FindCoordinator():
        member.coordinator_found()
    assert isinstance(sent(member.next_request(now_ms)), JoinGroupRequest)
    member.answered(joined(generation=generation), now_ms)
    assert member.next_request(now_ms) == HandOut(frozenset({"t"}))
    member.hand_out({"t": len(partitions)})
    assert isinstance(sent(member.next_request(now_ms)), SyncGroupRequest)
    member.answered(synced(*partitions), now_ms)
    assert member.begin_handover() == Assign({"t": partitions})
    member.end_handover()


def test_nothing_is_sent_without_a_subscription() -> None:
    assert ClassicMembership(SETTINGS, [RANGE]).next_request(0) == Wait(None)


@pytest.mark.requirement("R3")
def test_a_member_id_that_the_broker_demands_is_used_at_once() -> None:
    member = new_member()
    assert member.next_request(0) == FindCoordinator()
    member.coordinator_found()
    first = sent(member.next_request(0))
    member.answered(refused_join(ErrorCode.MEMBER_ID_REQUIRED, "client-uuid"), 0)
    second = sent(member.next_request(0))
    assert isinstance(first, JoinGroupRequest)
    assert isinstance(second, JoinGroupRequest)
    assert (first.member_id, second.member_id) == ("", "client-uuid")


@pytest.mark.requirement("R2")
def test_the_leader_assigns_and_syncs_for_all_members() -> None:
    member = new_member()
    member.next_request(0)
    member.coordinator_found()
    member.next_request(0)
    member.answered(joined(others=("m2",)), 0)
    assert member.next_request(0) == HandOut(frozenset({"t"}))
    member.hand_out({"t": 3})
    request = sent(member.next_request(0))
    assert isinstance(request, SyncGroupRequest)
    shares = {
        each.member_id: ConsumerProtocolAssignment.decode_versioned(each.assignment)
        for each in request.assignments
    }
    assert shares["m1"].assigned_partitions[0].partitions == (0, 1)
    assert shares["m2"].assigned_partitions[0].partitions == (2,)


def test_a_follower_syncs_with_nothing() -> None:
    member = new_member()
    member.next_request(0)
    member.coordinator_found()
    member.next_request(0)
    member.answered(joined(leader="m2"), 0)
    request = sent(member.next_request(0))
    assert isinstance(request, SyncGroupRequest)
    assert (request.member_id, request.generation_id, request.assignments) == ("m1", 1, ())


def test_a_stable_member_heartbeats_in_its_interval() -> None:
    member = new_member()
    join(member, 0, 1, 0, 1)
    assert member.next_request(2_999) == Wait(3_000)
    request = sent(member.next_request(3_000))
    assert isinstance(request, HeartbeatRequest)
    assert (request.member_id, request.generation_id) == ("m1", 1)
    member.answered(heard(), 3_001)
    assert member.next_request(3_001) == Wait(6_000)


def test_partitions_are_revoked_before_the_member_rejoins() -> None:
    member = new_member()
    join(member, 0, 1, 0, 1)
    member.next_request(3_000)
    member.answered(heard(ErrorCode.REBALANCE_IN_PROGRESS), 3_000)
    assert member.begin_handover() == Revoke({"t": (0, 1)})
    assert isinstance(member.next_request(3_000), Wait), "the user still commits"
    assert isinstance(sent(member.next_request(6_000)), HeartbeatRequest), "and stays alive meanwhile"
    member.answered(heard(ErrorCode.REBALANCE_IN_PROGRESS), 6_000)
    member.end_handover()
    assert member.begin_handover() is None, "the second notice asks for nothing more"
    assert isinstance(sent(member.next_request(6_000)), JoinGroupRequest)


def test_an_interrupted_handover_is_repeated() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    member.rejoin("test")
    assert member.begin_handover() == Revoke({"t": (0,)})
    assert member.begin_handover() == Revoke({"t": (0,)})
    assert member.has_handover


def test_an_assignment_that_the_user_has_not_seen_is_not_revoked() -> None:
    member = new_member()
    member.next_request(0)
    member.coordinator_found()
    member.next_request(0)
    member.answered(joined(leader="m2"), 0)
    member.next_request(0)
    member.answered(synced(0), 0)
    member.next_request(3_000)
    member.answered(heard(ErrorCode.REBALANCE_IN_PROGRESS), 3_000)
    assert member.begin_handover() is None
    assert isinstance(sent(member.next_request(3_000)), JoinGroupRequest)


def test_an_unknown_member_loses_its_partitions_and_its_id() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    member.next_request(3_000)
    member.answered(heard(ErrorCode.UNKNOWN_MEMBER_ID), 3_000)
    assert member.begin_handover() == Lose({"t": (0,)})
    member.end_handover()
    request = sent(member.next_request(3_000))
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == ""


def test_an_illegal_generation_keeps_the_member_id() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    member.next_request(3_000)
    member.answered(heard(ErrorCode.ILLEGAL_GENERATION), 3_000)
    member.begin_handover()
    member.end_handover()
    request = sent(member.next_request(3_000))
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == "m1"


def test_partitions_lost_during_their_revocation_are_lost_once() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    member.rejoin("test")
    assert isinstance(member.begin_handover(), Revoke)
    member.next_request(3_000)
    member.answered(heard(ErrorCode.UNKNOWN_MEMBER_ID), 3_000)
    member.end_handover()
    assert not member.has_handover


def test_a_lost_coordinator_is_looked_up_with_growing_delays() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    member.next_request(3_000)
    member.failed(NetworkError("gone"), 3_000)
    assert member.next_request(3_000) == Wait(3_100)
    assert member.next_request(3_100) == FindCoordinator()
    member.failed(NetworkError("still gone"), 3_100)
    assert member.next_request(3_100) == Wait(3_300)
    assert member.next_request(3_300) == FindCoordinator()
    member.coordinator_found()
    assert isinstance(sent(member.next_request(6_000)), HeartbeatRequest), "with what it owned all the time"
    assert member.owned == {"t": (0,)}


def test_a_loading_coordinator_is_asked_again() -> None:
    member = new_member()
    member.next_request(0)
    member.coordinator_found()
    member.next_request(0)
    member.answered(refused_join(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 0)
    assert member.next_request(0) == Wait(100)
    assert isinstance(sent(member.next_request(100)), JoinGroupRequest)


def test_a_fatal_error_is_kept_for_the_user() -> None:
    member = new_member()
    member.next_request(0)
    member.coordinator_found()
    member.next_request(0)
    member.answered(refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), 0)
    assert member.state is State.FAILED
    assert member.error is not None
    assert member.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.next_request(0) == Wait(None)


@pytest.mark.requirement("R13")
def test_a_member_that_does_not_poll_leaves_with_a_reason() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    member.poll_ends(1_000)
    assert isinstance(sent(member.next_request(3_000)), HeartbeatRequest)
    assert isinstance(sent(member.next_request(10_999)), HeartbeatRequest)
    assert member.next_request(10_999) == Wait(11_000)
    request = sent(member.next_request(11_000))
    assert isinstance(request, LeaveGroupRequest)
    assert (request.members[0].member_id, request.members[0].reason) == ("m1", POLL_TIMEOUT_REASON)
    assert member.next_request(99_000) == Wait(None), "until the user is back"
    assert member.poll_begins()
    assert member.begin_handover() == Lose({"t": (0,)})
    member.end_handover()
    assert isinstance(sent(member.next_request(99_000)), JoinGroupRequest)


def test_a_long_poll_is_no_reason_to_leave() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    assert isinstance(sent(member.next_request(1_000_000)), HeartbeatRequest)


@pytest.mark.requirement("R12", "R13")
def test_a_static_member_falls_silent_instead_of_leaving() -> None:
    member = new_member(MemberSettings("g", max_poll_interval_ms=10_000, group_instance_id="i"))
    join(member, 0, 1, 0)
    member.poll_ends(0)
    assert member.next_request(10_000) == Wait(None)
    assert member.departure is not None
    assert member.departure.silently
    assert member.leave("closed") is None


@pytest.mark.requirement("R11")
def test_leaving_names_the_member_and_the_reason() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    request = member.leave("closed")
    assert request is not None
    assert (request.members[0].member_id, request.members[0].reason) == ("m1", "closed")
    assert member.next_request(0) == Wait(None)
    assert new_member().leave("closed") is None, "who was no member has nothing to leave"


def test_a_subscription_that_changes_while_joining_joins_again_afterwards() -> None:
    member = new_member()
    member.next_request(0)
    member.coordinator_found()
    member.next_request(0)
    member.subscribe(["t", "u"])
    member.answered(joined(leader="m2"), 0)
    member.next_request(0)
    member.answered(synced(0), 0)
    request = sent(member.next_request(0))
    assert isinstance(request, JoinGroupRequest)
    wishes = ConsumerProtocolSubscription.decode_versioned(request.protocols[0].metadata)
    assert wishes.topics == ("t", "u")


@pytest.mark.requirement("R8")
def test_only_the_leader_rejoins_when_a_topic_gets_partitions() -> None:
    member = new_member()
    join(member, 0, 1, 0)
    member.partitions_changed({"t": 1, "other": 5})
    assert member.state is State.STABLE
    member.partitions_changed({"t": 2})
    assert member.begin_handover() == Revoke({"t": (0,)})


def test_a_sticky_member_sends_its_previously_owned_partitions() -> None:
    member = ClassicMembership(SETTINGS, [STICKY])
    member.poll_begins()
    member.subscribe(["t"])
    member.next_request(0)
    member.coordinator_found()
    member.next_request(0)
    member.answered(joined(leader="m2"), 0)
    member.next_request(0)
    member.answered(synced(4), 0)
    member.begin_handover()
    member.end_handover()
    member.rejoin("test")
    member.begin_handover()
    member.end_handover()
    request = sent(member.next_request(0))
    assert isinstance(request, JoinGroupRequest)
    wishes = ConsumerProtocolSubscription.decode_versioned(request.protocols[0].metadata)
    assert wishes.owned_partitions == (), "an eager member owns nothing when it joins"
    assert wishes.user_data == STICKY.user_data({"t": (4,)}, 1) if STICKY.user_data else False


def test_an_assignment_that_cannot_be_read_ends_the_membership() -> None:
    member = new_member()
    member.next_request(0)
    member.coordinator_found()
    member.next_request(0)
    member.answered(joined(leader="m2"), 0)
    member.next_request(0)
    member.answered(SyncGroupResponse(throttle_time_ms=0, error_code=0, assignment=b"\x00\x00\xff"), 0)
    assert member.state is State.FAILED
