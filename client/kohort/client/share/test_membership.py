"""A member of a share group, against answers as a coordinator gives them."""

from uuid import UUID

from kohort.client.errors import UnsupportedVersionError
from kohort.client.membership import FindCoordinator, MemberSettings, NameTopics, SendHeartbeat, State, Wait
from kohort.client.share.membership import ShareMembership
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatTopicPartitions,
)

T = UUID(int=1)
SETTINGS = MemberSettings("g", max_poll_interval_ms=10_000, rack_id="r")


def told(member: ShareMembership, now_ms: int = 0) -> ShareGroupHeartbeatRequest:
    request = member.next_request(now_ms)
    if request == FindCoordinator():
        member.coordinator_found()
        request = member.next_request(now_ms)
    assert isinstance(request, SendHeartbeat), request
    assert isinstance(request.request, ShareGroupHeartbeatRequest)
    return request.request


def answer(epoch: int, *partitions: int, code: int = 0) -> ShareGroupHeartbeatResponse:
    given = ShareGroupHeartbeatTopicPartitions(topic_id=T, partitions=partitions)
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=code,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=500,
        assignment=ShareGroupHeartbeatAssignment(topic_partitions=(given,)) if partitions else None,
    )


def joined() -> ShareMembership:
    member = ShareMembership(SETTINGS, "m")
    member.subscribe(["t"])
    request = told(member)
    assert (request.member_epoch, request.rack_id, request.subscribed_topic_names) == (0, "r", ("t",))
    member.answered(answer(3, 0, 1), 0)
    assert member.next_request(0) == NameTopics(frozenset({T}))
    member.topics_named({T: "t"}, 0)
    return member


def test_assigned_partitions_are_read_at_once_without_acknowledgement() -> None:
    member = joined()
    assert (member.assignment, member.topic_ids) == ({"t": (0, 1)}, {"t": T})
    assert not member.has_handover
    assert member.next_request(0) == Wait(500)
    request = told(member, 500)
    assert (request.member_epoch, request.rack_id, request.subscribed_topic_names) == (3, None, None)
    member.answered(answer(4, 1), 500)
    assert member.assignment == {"t": (1,)}


def test_a_changed_subscription_is_sent_at_once() -> None:
    member = joined()
    member.subscribe(["t", "u"])
    assert told(member).subscribed_topic_names == ("t", "u")


def test_a_fenced_member_reads_nothing_and_rejoins() -> None:
    member = joined()
    told(member, 500)
    member.answered(answer(0, code=ErrorCode.FENCED_MEMBER_EPOCH), 500)
    assert member.assignment == {}
    assert told(member, 500).member_epoch == 0


def test_a_member_that_does_not_poll_leaves() -> None:
    member = joined()
    member.poll_ends(0)
    member.answered(answer(3), 9_990)
    assert told(member, 10_000).member_epoch == -1
    assert (member.state, member.assignment) == (State.IDLE, {})


def test_a_broker_without_share_groups_is_named() -> None:
    member = ShareMembership(SETTINGS, "m")
    member.subscribe(["t"])
    told(member)
    member.answered(answer(0, code=ErrorCode.UNSUPPORTED_VERSION), 0)
    error = member.take_error()
    assert isinstance(error, UnsupportedVersionError)
    assert "share.version" in str(error)
