"""A member of a consumer group (KIP-848), against answers as a coordinator gives them."""

from uuid import UUID

import pytest

from kohort.client.errors import BrokerError, NetworkError, UnsupportedVersionError
from kohort.client.membership import (
    POLL_TIMEOUT_REASON,
    Assign,
    FindCoordinator,
    Lose,
    MemberSettings,
    NameTopics,
    Revoke,
    SendHeartbeat,
    State,
    Wait,
)
from kohort.client.membership.consumer import AWAY, JOINING, LEAVING, ConsumerMembership
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

T, U = UUID(int=1), UUID(int=2)
SETTINGS = MemberSettings("g", max_poll_interval_ms=10_000, rack_id="r")
STATIC = MemberSettings("g", max_poll_interval_ms=10_000, group_instance_id="one")
INTERVAL_MS = 700


def new_member(settings: MemberSettings = SETTINGS) -> ConsumerMembership:
    member = ConsumerMembership(settings, "m", remote_assignor="range")
    member.poll_begins()
    member.subscribe(["t"])
    return member


def answer(
    epoch: int, assignment: dict[UUID, tuple[int, ...]] | None = None, code: int = 0, text: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    given = None
    if assignment is not None:
        given = ConsumerGroupHeartbeatAssignment(topic_partitions=as_partitions(assignment))
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=code,
        error_message=text,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=given,
    )


def as_partitions(
    assignment: dict[UUID, tuple[int, ...]],
) -> tuple[ConsumerGroupHeartbeatTopicPartitions, ...]:
    return tuple(
        ConsumerGroupHeartbeatTopicPartitions(topic_id=each, partitions=partitions)
        for each, partitions in assignment.items()
    )


def told(member: ConsumerMembership, now_ms: int = 0) -> ConsumerGroupHeartbeatRequest:
    request = member.next_request(now_ms)
    if request == FindCoordinator():
        member.coordinator_found()
        request = member.next_request(now_ms)
    assert isinstance(request, SendHeartbeat), request
    assert isinstance(request.request, ConsumerGroupHeartbeatRequest)
    return request.request


def hand_over(member: ConsumerMembership) -> list[object]:
    seen: list[object] = []
    while (handover := member.begin_handover()) is not None:
        seen.append(handover)
        member.end_handover()
    return seen


def owning(*partitions: int, settings: MemberSettings = SETTINGS) -> ConsumerMembership:
    """Return a member in epoch 5 that owns these, and has said so."""
    member = new_member(settings)
    told(member)
    member.answered(answer(5, {T: partitions}), 0)
    assert member.next_request(0) == NameTopics(frozenset({T}))
    member.topics_named({T: "t"}, 0)
    assert hand_over(member) == [Assign({"t": partitions})]
    assert told(member).topic_partitions == as_partitions({T: partitions})
    member.answered(answer(5), 0)
    return member


def test_nothing_is_sent_without_a_subscription() -> None:
    assert ConsumerMembership(SETTINGS, "m").next_request(0) == Wait(None)


def test_a_joining_member_sends_all_fields_and_owns_nothing() -> None:
    request = told(new_member())
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("m", JOINING, ())
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (("t",), None)
    assert (request.rebalance_timeout_ms, request.server_assignor, request.rack_id) == (10_000, "range", "r")


def test_the_brokers_interval_applies_and_unchanged_fields_are_not_sent_again() -> None:
    member = owning(0, 1)
    assert member.next_request(INTERVAL_MS - 1) == Wait(INTERVAL_MS)
    request = told(member, INTERVAL_MS)
    assert request.member_epoch == 5
    assert (request.subscribed_topic_names, request.topic_partitions) == (None, None)
    assert (request.rebalance_timeout_ms, request.rack_id, request.server_assignor) == (-1, None, None)


def test_partitions_are_revoked_and_acknowledged_before_others_are_assigned() -> None:
    member = owning(0, 1)
    told(member, INTERVAL_MS)
    member.answered(answer(5, {T: (1,)}), INTERVAL_MS)
    assert member.begin_handover() == Revoke({"t": (0,)})
    assert isinstance(member.next_request(INTERVAL_MS), Wait), "the listener still runs"
    assert member.generation_id == 5, "a commit counts meanwhile"
    member.end_handover()
    assert hand_over(member) == [Assign({"t": (1,)})]
    assert told(member, INTERVAL_MS).topic_partitions == as_partitions({T: (1,)})
    member.answered(answer(6, {T: (1, 2)}), INTERVAL_MS)
    assert hand_over(member) == [Assign({"t": (1, 2)})]
    assert told(member, INTERVAL_MS).topic_partitions == as_partitions({T: (1, 2)})
    assert member.generation_id == 6


def test_heartbeats_during_a_revocation_name_the_partitions_still_owned() -> None:
    member = owning(0, 1)
    member.answered(answer(5, {T: (1,)}), 0)
    member.begin_handover()
    request = told(member, INTERVAL_MS)
    assert request.topic_partitions is None, "it still has both, as it said"


def test_an_assignment_withdrawn_before_the_user_saw_it_is_acknowledged_too() -> None:
    member = owning(0)
    told(member, INTERVAL_MS)
    member.answered(answer(6, {T: (0, 1)}), INTERVAL_MS)
    member.answered(answer(7, {T: (0,)}), INTERVAL_MS)
    assert hand_over(member) == [Assign({"t": (0,)})]
    assert told(member, INTERVAL_MS).topic_partitions == as_partitions({T: (0,)})


def test_a_repeated_answer_after_an_error_changes_nothing() -> None:
    member = owning(0, 1)
    told(member, INTERVAL_MS)
    member.failed(NetworkError("gone"), INTERVAL_MS)
    assert member.next_request(INTERVAL_MS) == Wait(INTERVAL_MS + SETTINGS.retry_backoff_ms)
    request = told(member, 2 * INTERVAL_MS)
    assert request.member_epoch == 5
    assert (request.subscribed_topic_names, request.rebalance_timeout_ms) == (("t",), 10_000)
    assert request.topic_partitions == as_partitions({T: (0, 1)})
    member.answered(answer(5, {T: (0, 1)}), 2 * INTERVAL_MS)
    assert not member.has_handover


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_all_partitions_and_rejoins_with_its_id(code: ErrorCode) -> None:
    member = owning(0, 1)
    told(member, INTERVAL_MS)
    member.answered(answer(0, code=code), INTERVAL_MS)
    assert member.departure is not None
    assert member.next_request(INTERVAL_MS) == Wait(None), "the user has to hear of it first"
    assert hand_over(member) == [Lose({"t": (0, 1)})]
    request = told(member, INTERVAL_MS)
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("m", JOINING, ())
    member.answered(answer(8, {T: (0, 1)}), INTERVAL_MS)
    assert hand_over(member) == [Assign({"t": (0, 1)})]


def test_a_stale_commit_can_be_repeated_with_the_next_epoch() -> None:
    member = owning(0)
    assert member.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, 5, 10)
    assert told(member, 10).member_epoch == 5, "at once"
    member.answered(answer(6), 10)
    assert member.generation_id == 6
    assert member.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, 5, 10), "it is in another epoch by now"


def test_a_fenced_commit_fences_the_member() -> None:
    member = owning(0)
    assert not member.commit_refused(ErrorCode.FENCED_MEMBER_EPOCH, 5, 0)
    assert hand_over(member) == [Lose({"t": (0,)})]
    member.answered(answer(6, {T: (0, 1)}), 0)  # The heartbeat that was in flight meanwhile.
    assert not member.has_handover
    assert told(member).member_epoch == JOINING


def test_static_members_leave_temporarily_unless_told_to_leave() -> None:
    def epoch(leave_group: bool | None, settings: MemberSettings) -> int | None:
        farewell = owning(0, settings=settings).leave("closes", leave_group=leave_group)
        return None if farewell is None else farewell.request.member_epoch

    assert [epoch(each, STATIC) for each in (None, True, False)] == [AWAY, LEAVING, AWAY]
    assert [epoch(each, SETTINGS) for each in (None, True, False)] == [LEAVING, LEAVING, None]
    assert new_member().leave("closes") is None, "it was never let in"


def test_an_instance_that_is_not_released_is_an_error_after_which_the_next_poll_tries_again() -> None:
    member = new_member(STATIC)
    told(member)
    member.answered(answer(0, code=ErrorCode.UNRELEASED_INSTANCE_ID), 0)
    error = member.take_error()
    assert isinstance(error, BrokerError)
    assert "its session has to end first" in str(error)
    assert told(member).member_epoch == JOINING


def test_a_replaced_static_member_is_fenced_for_good() -> None:
    member = owning(0, settings=STATIC)
    told(member, INTERVAL_MS)
    member.answered(answer(0, code=ErrorCode.FENCED_INSTANCE_ID), INTERVAL_MS)
    assert member.take_error() is member.take_error() is not None
    assert member.state is State.FAILED


@pytest.mark.parametrize("by_api", [True, False])
def test_a_broker_without_the_protocol_is_named(by_api: bool) -> None:
    member = new_member()
    told(member)
    if by_api:
        member.failed(UnsupportedVersionError("b:1 does not speak ConsumerGroupHeartbeat"), 0)
    else:
        member.answered(answer(0, code=ErrorCode.UNSUPPORTED_VERSION), 0)
    error = member.take_error()
    assert isinstance(error, UnsupportedVersionError)
    assert "give group_protocol='classic'" in str(error)


def test_a_pattern_is_sent_to_the_broker_and_a_new_subscription_replaces_it() -> None:
    member = new_member()
    member.subscribe_pattern("t.*")
    request = told(member)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ((), "t.*")
    member.answered(answer(1, {}), 0)
    assert hand_over(member) == [Assign({})]
    member.subscribe(["u"])
    request = told(member)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (("u",), "")


def test_topics_with_unknown_names_wait_and_the_others_are_assigned() -> None:
    member = new_member()
    told(member)
    member.answered(answer(1, {T: (0,), U: (0,)}), 0)
    assert member.next_request(0) == NameTopics(frozenset({T, U}))
    member.topics_named({T: "t"}, 0)
    assert hand_over(member) == [Assign({"t": (0,)})]
    assert told(member).topic_partitions == as_partitions({T: (0,)})
    member.answered(answer(1), 0)
    assert member.next_request(150) == Wait(200)
    assert member.next_request(200) == NameTopics(frozenset({U}))
    member.topics_named({}, 200)
    assert not member.has_handover, "what the user has is no news"
    assert member.next_request(600) == NameTopics(frozenset({U}))
    member.topics_named({U: "u"}, 600)
    assert hand_over(member) == [Assign({"t": (0,), "u": (0,)})]


@pytest.mark.parametrize("settings, epoch", [(SETTINGS, LEAVING), (STATIC, AWAY)])
def test_a_member_that_does_not_poll_leaves_and_rejoins_with_the_next_poll(
    settings: MemberSettings, epoch: int
) -> None:
    member = owning(0, settings=settings)
    member.poll_ends(0)
    member.answered(answer(5), 9_900)
    assert member.next_request(9_990) == Wait(10_000)
    assert told(member, 10_000).member_epoch == epoch
    assert member.departure is not None
    assert member.departure.reason == POLL_TIMEOUT_REASON
    assert member.next_request(10_001) == Wait(None)
    assert member.poll_begins()
    assert hand_over(member) == [Lose({"t": (0,)})]
    assert told(member, 10_002).member_epoch == JOINING


def test_a_lost_coordinator_is_looked_up() -> None:
    member = owning(0)
    told(member, INTERVAL_MS)
    member.answered(answer(0, code=ErrorCode.NOT_COORDINATOR), INTERVAL_MS)
    assert member.next_request(2 * INTERVAL_MS) == FindCoordinator()
    assert not member.has_handover
