"""A cooperative member keeps what it keeps, and every refusal has Kafka's consequence."""

from dataclasses import replace

import pytest

from kohort.client.assignors import COOPERATIVE_STICKY, RANGE, TopicCounts
from kohort.client.errors import NetworkError
from kohort.client.membership import (
    Assign,
    ClassicMembership,
    HandOut,
    Lose,
    MemberSettings,
    Revoke,
    Send,
    State,
    Wait,
)
from kohort.client.test_membership import heard, joined, refused_join, sent, synced
from kohort.protocol.consumer import ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.messages.sync_group import SyncGroupRequest

SETTINGS = MemberSettings("g", max_poll_interval_ms=10_000, heartbeat_interval_ms=3_000, rack_id="r1")


def new_member(settings: MemberSettings = SETTINGS) -> ClassicMembership:
    member = ClassicMembership(settings, [COOPERATIVE_STICKY])
    member.poll_begins()
    member.subscribe(["t"])
    assert not isinstance(member.next_request(0), Wait)
    member.coordinator_found()
    return member


def rejoined(member: ClassicMembership, generation: int, *partitions: int, now_ms: int = 0) -> None:
    """Let a follower join and sync; what its user has to do about it is left to be done."""
    assert isinstance(sent(member.next_request(now_ms)), JoinGroupRequest)
    member.answered(joined(leader="m2", generation=generation), now_ms)
    assert isinstance(sent(member.next_request(now_ms)), SyncGroupRequest)
    member.answered(synced(*partitions), now_ms)


def owning(*partitions: int) -> ClassicMembership:
    """Return a member that owns these partitions in generation 1."""
    member = new_member()
    rejoined(member, 1, *partitions)
    assert member.begin_handover() == Assign({"t": partitions})
    member.end_handover()
    return member


def told_to_rebalance(member: ClassicMembership, now_ms: int = 3_000) -> None:
    assert isinstance(sent(member.next_request(now_ms)), HeartbeatRequest)
    member.answered(heard(ErrorCode.REBALANCE_IN_PROGRESS), now_ms)


def wishes(member: ClassicMembership, now_ms: int = 3_000) -> ConsumerProtocolSubscription:
    request = sent(member.next_request(now_ms))
    assert isinstance(request, JoinGroupRequest)
    return ConsumerProtocolSubscription.decode_versioned(request.protocols[0].metadata)


@pytest.mark.requirement("R14")
def test_it_rejoins_with_its_owned_partitions_without_calling_the_listener() -> None:
    member = owning(0, 1)
    told_to_rebalance(member)
    assert member.begin_handover() is None
    told = wishes(member)
    assert told.owned_partitions == (TopicPartitions(topic="t", partitions=(0, 1)),)
    assert (told.generation_id, told.rack_id) == (1, "r1")


@pytest.mark.requirement("R14")
def test_it_revokes_moved_partitions_and_then_rejoins() -> None:
    member = owning(0, 1, 2)
    told_to_rebalance(member)
    rejoined(member, 2, 0, now_ms=3_000)
    assert isinstance(member.next_request(3_000), Wait), "the user has not given up 1 and 2 yet"
    assert member.begin_handover() == Revoke({"t": (1, 2)})
    assert member.owned == {"t": (0, 1, 2)}, "it may still commit them"
    member.end_handover()
    assert member.begin_handover() == Assign({"t": (0,)})
    member.end_handover()
    request = sent(member.next_request(3_000))
    assert isinstance(request, JoinGroupRequest)
    assert request.reason == "gives up t-1, t-2"
    told = ConsumerProtocolSubscription.decode_versioned(request.protocols[0].metadata)
    assert told.owned_partitions == (TopicPartitions(topic="t", partitions=(0,)),)
    assert told.generation_id == 2


def test_it_does_not_rejoin_when_it_only_gains_partitions() -> None:
    member = owning(0)
    told_to_rebalance(member)
    rejoined(member, 2, 0, 1, now_ms=3_000)
    assert member.begin_handover() == Assign({"t": (0, 1)})
    member.end_handover()
    assert member.state is State.STABLE
    assert isinstance(member.next_request(3_000), Wait)


def test_it_sends_heartbeats_during_a_long_revocation() -> None:
    member = owning(0, 1)
    told_to_rebalance(member)
    rejoined(member, 2, 0, now_ms=3_000)
    assert member.begin_handover() == Revoke({"t": (1,)})
    told_to_rebalance(member, 6_000)
    assert member.begin_handover() == Revoke({"t": (1,)})
    member.end_handover()
    assert member.begin_handover() == Assign({"t": (0,)}), "what was in hand is not forgotten"
    member.end_handover()
    assert wishes(member, 6_000).owned_partitions == (TopicPartitions(topic="t", partitions=(0,)),)


def test_an_assignment_that_its_user_has_not_seen_is_not_claimed() -> None:
    member = owning(0)
    told_to_rebalance(member)
    rejoined(member, 2, 0, 1, now_ms=3_000)
    told_to_rebalance(member, 6_000)
    assert member.begin_handover() is None, "the user goes on with 0 and hears of the next assignment"
    assert wishes(member, 6_000).owned_partitions == (TopicPartitions(topic="t", partitions=(0,)),)


def test_partitions_of_unsubscribed_topics_are_revoked_before_it_joins() -> None:
    member = owning(0)
    member.subscribe(["u"])
    assert member.begin_handover() == Revoke({"t": (0,)})
    member.end_handover()
    told = wishes(member)
    assert (told.topics, told.owned_partitions) == (("u",), ())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_removed_member_loses_all_partitions_and_claims_none(code: ErrorCode) -> None:
    member = owning(0, 1)
    assert isinstance(sent(member.next_request(3_000)), HeartbeatRequest)
    member.answered(heard(code), 4_000)
    assert member.begin_handover() == Lose({"t": (0, 1)})
    member.end_handover()
    told = wishes(member, 4_000)
    assert (told.owned_partitions, told.generation_id) == ((), -1)
    departure = member.departure
    assert departure is not None
    assert (departure.at_ms, departure.silent_ms) == (4_000, 4_000)


def test_a_sync_refused_by_the_next_rebalance_keeps_owned_partitions() -> None:
    member = owning(0, 1)
    told_to_rebalance(member)
    member.next_request(3_000)
    member.answered(joined(leader="m2", generation=2), 3_000)
    member.next_request(3_000)
    member.answered(synced(code=ErrorCode.REBALANCE_IN_PROGRESS), 3_000)
    told = wishes(member)
    assert told.owned_partitions == (TopicPartitions(topic="t", partitions=(0, 1)),)
    assert told.generation_id == 1, "the generation in which it was given them"


@pytest.mark.requirement("R5")
def test_one_eager_assignor_makes_the_member_eager() -> None:
    member = ClassicMembership(SETTINGS, [COOPERATIVE_STICKY, RANGE])
    assert not member.is_cooperative
    member.poll_begins()
    member.subscribe(["t"])
    member.next_request(0)
    member.coordinator_found()
    rejoined(member, 1, 0)
    member.begin_handover()
    member.end_handover()
    told_to_rebalance(member)
    assert member.begin_handover() == Revoke({"t": (0,)})
    member.end_handover()
    request = sent(member.next_request(3_000))
    assert isinstance(request, JoinGroupRequest)
    assert [each.name for each in request.protocols] == ["cooperative-sticky", "range"]


@pytest.mark.requirement("R12")
def test_a_fenced_member_stays_fenced() -> None:
    member = owning(0)
    member.next_request(3_000)
    member.answered(heard(ErrorCode.FENCED_INSTANCE_ID), 3_000)
    for _ in range(2):
        error = member.take_error()
        assert error is not None
        assert error.code is ErrorCode.FENCED_INSTANCE_ID
    assert member.next_request(9_000) == Wait(None)
    assert member.leave("closed") is None, "its place is another's"


def test_any_other_error_is_raised_once_and_then_retried() -> None:
    member = new_member()
    member.next_request(0)
    member.answered(refused_join(ErrorCode.GROUP_MAX_SIZE_REACHED), 0)
    error = member.take_error()
    assert error is not None
    assert error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert member.take_error() is None
    assert isinstance(sent(member.next_request(0)), JoinGroupRequest)


@pytest.mark.requirement("R12")
def test_a_returning_static_leader_assigns_nothing_and_watches_the_topics() -> None:
    member = new_member(MemberSettings("g", group_instance_id="i"))
    member.next_request(0)
    member.answered(joined(others=("m2",), skip_assignment=True), 0)
    request = sent(member.next_request(0))
    assert isinstance(request, SyncGroupRequest)
    assert request.assignments == ()
    member.answered(synced(0), 0)
    member.begin_handover()
    member.end_handover()
    member.partitions_changed({"t": 2})
    assert member.state is State.STABLE, "as it was when it came back"
    member.partitions_changed({"t": 3})
    assert isinstance(sent(member.next_request(0)), JoinGroupRequest)


def test_partitions_that_appear_during_a_rebalance_start_the_next() -> None:
    member = new_member()
    member.next_request(0)
    member.answered(joined(protocol="cooperative-sticky"), 0)
    assert member.next_request(0) == HandOut(frozenset({"t"}))
    member.hand_out({"t": 1})
    member.next_request(0)
    member.partitions_changed({"t": 2})
    member.answered(synced(0), 0)
    request = sent(member.next_request(0))
    assert isinstance(request, JoinGroupRequest)
    assert request.reason == "the topics' partitions have changed"


@pytest.mark.parametrize(("rack", "state"), [("r1", State.OUTSIDE), (None, State.STABLE)])
def test_a_leader_uses_racks_only_if_it_has_one(rack: str | None, state: State) -> None:
    member = new_member(replace(SETTINGS, rack_id=rack))
    member.next_request(0)
    member.answered(joined(protocol="cooperative-sticky"), 0)
    member.next_request(0)
    member.hand_out(TopicCounts({"t": 1}, {"t": (frozenset({"r1", "r2"}),)}))
    member.next_request(0)
    member.answered(synced(0), 0)
    member.begin_handover()
    member.end_handover()
    assert member.state is State.STABLE, "as it was when it shared out"
    member.partitions_changed(TopicCounts({"t": 1}, {"t": (frozenset({"r1"}),)}))
    assert member.state is state


def test_a_rebalance_that_is_enforced_during_another_follows_it_with_its_reason() -> None:
    member = new_member()
    member.next_request(0)
    member.rejoin("x" * 300)
    member.answered(joined(leader="m2"), 0)
    member.next_request(0)
    member.answered(synced(0), 0)
    request = sent(member.next_request(0))
    assert isinstance(request, JoinGroupRequest)
    assert request.reason == "x" * 255


def test_a_commit_refused_during_a_rebalance_is_repeated_after_it() -> None:
    member = owning(0)
    told_to_rebalance(member)
    assert member.commit_refused(ErrorCode.ILLEGAL_GENERATION, 1, 3_000), "it has not joined yet"
    member.next_request(3_000)
    assert member.commit_refused(ErrorCode.ILLEGAL_GENERATION, 1, 3_000), "the join is under way"
    member.answered(joined(leader="m2", generation=2), 3_000)
    assert member.commit_refused(ErrorCode.REBALANCE_IN_PROGRESS, 2, 3_000)
    member.next_request(3_000)
    member.answered(synced(0), 3_000)
    assert member.commit_refused(ErrorCode.ILLEGAL_GENERATION, 1, 3_000), "it was sent before"
    assert member.state is State.STABLE


def test_a_commit_refused_to_a_stable_member_removes_it() -> None:
    member = owning(0)
    assert not member.commit_refused(ErrorCode.ILLEGAL_GENERATION, 1, 1_000)
    assert member.begin_handover() == Lose({"t": (0,)})
    assert member.departure is not None


def test_a_commit_of_a_fenced_member_ends_it() -> None:
    member = owning(0)
    assert not member.commit_refused(ErrorCode.FENCED_INSTANCE_ID, 1, 1_000)
    assert member.state is State.FAILED


def test_an_answer_after_the_end_changes_nothing() -> None:
    member = owning(0)
    assert isinstance(sent(member.next_request(3_000)), HeartbeatRequest)
    assert isinstance(member.leave("closed"), LeaveGroupRequest)
    member.answered(heard(ErrorCode.UNKNOWN_MEMBER_ID), 3_000)
    member.failed(NetworkError("gone"), 3_000)
    assert member.state is State.LEFT


@pytest.mark.requirement("R13")
def test_a_cooperative_member_that_does_not_poll_leaves_too() -> None:
    member = owning(0)
    member.poll_ends(0)
    send = member.next_request(10_000)
    assert isinstance(send, Send)
    assert isinstance(send.request, LeaveGroupRequest)
    departure = member.departure
    assert departure is not None
    assert departure.by_poll_interval
    assert member.begin_handover() == Lose({"t": (0,)})


def test_a_static_member_that_missed_a_generation_loses_its_partitions() -> None:
    """Others may have read it and have committed more: its own commits would take that back."""
    member = owning(0, 1)
    member.rejoin("the subscription has changed")
    rejoined(member, 3, 0)
    assert member.lost == {"t": (0, 1)}
    assert member.begin_handover() == Lose({"t": (0, 1)})
    assert member.lost == {"t": (0, 1)}
    member.end_handover()
    assert not member.lost
    assert member.begin_handover() == Assign({"t": (0,)})
    member.end_handover()
    assert isinstance(sent(member.next_request(0)), JoinGroupRequest), "nobody else has 1 before it says so"


def test_a_join_with_a_lost_answer_counts_as_a_missed_generation() -> None:
    member = owning(0)
    told_to_rebalance(member)
    assert isinstance(sent(member.next_request(3_000)), JoinGroupRequest)
    member.failed(NetworkError("the connection has ended"), 3_000)
    assert not isinstance(member.next_request(9_000), Wait)
    member.coordinator_found()
    rejoined(member, 3, 0, now_ms=9_000)
    assert member.begin_handover() == Lose({"t": (0,)})


def test_one_generation_without_an_assignment_keeps_owned_partitions() -> None:
    member = owning(0)
    told_to_rebalance(member)
    assert isinstance(sent(member.next_request(3_000)), JoinGroupRequest)
    member.answered(joined(leader="m2", generation=2), 3_000)
    assert isinstance(sent(member.next_request(3_000)), SyncGroupRequest)
    member.answered(synced(code=ErrorCode.REBALANCE_IN_PROGRESS), 3_000)
    rejoined(member, 3, 0, now_ms=3_000)
    assert member.begin_handover() == Assign({"t": (0,)})


def test_two_generations_without_an_assignment_lose_all_partitions() -> None:
    """After the first of them its claim counts for less than what others were given in it."""
    member = owning(0)
    told_to_rebalance(member)
    for generation in (2, 3):
        assert isinstance(sent(member.next_request(3_000)), JoinGroupRequest)
        member.answered(joined(leader="m2", generation=generation), 3_000)
        assert isinstance(sent(member.next_request(3_000)), SyncGroupRequest)
        member.answered(synced(code=ErrorCode.REBALANCE_IN_PROGRESS), 3_000)
    rejoined(member, 4, 0, now_ms=3_000)
    assert member.begin_handover() == Lose({"t": (0,)})
