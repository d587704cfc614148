import pytest

from kohort.broker.group import LeaveGroup
from kohort.broker.group.events import CauseKind, MemberLeft, RebalanceStarted
from kohort.broker.group.test_world import Client, World, stable_group, sync_all
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity


def leave(
    world: World, *members: MemberIdentity, version: int = 5, group_id: str = "g"
) -> LeaveGroupResponse:
    request_id = next(world.request_ids)
    message = LeaveGroupRequest(group_id=group_id, member_id=members[0].member_id, members=members)
    world.do(LeaveGroup(request_id, message, version))
    return world.answer(request_id, LeaveGroupResponse)


@pytest.mark.requirement("R8", "R11")
def test_a_member_that_leaves_is_removed_at_once_and_the_others_rebalance() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    assert a.leave("the consumer is being closed") is ErrorCode.NONE
    assert b.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.noted(MemberLeft)[-1].reason == "the consumer is being closed"
    cause = world.noted(RebalanceStarted)[-1].cause
    assert (cause.kind, cause.client_id, cause.reason) == (
        CauseKind.MEMBER_LEFT,
        "a",
        "the consumer is being closed",
    )
    b.join()
    sync_all(world, b)
    assert b.generation_id == 2


@pytest.mark.requirement("R11")
def test_several_members_leave_together_with_one_rebalance() -> None:
    world = World()
    a, b, c = Client(world, "a", instance="one"), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b, c)
    response = leave(
        world,
        MemberIdentity(member_id="", group_instance_id="one", reason="removed by admin"),
        MemberIdentity(member_id=b.member_id, reason="x" * 300),
        MemberIdentity(member_id="ghost"),
        MemberIdentity(member_id="", group_instance_id="nobody"),
        MemberIdentity(member_id=c.member_id, group_instance_id="one"),
    )
    assert response.error_code == ErrorCode.NONE
    assert [each.error_code for each in response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert [each.member_id for each in world.noted(MemberLeft)] == [a.member_id, b.member_id]
    assert len(world.noted(MemberLeft)[1].reason) == 255
    assert len(world.noted(RebalanceStarted)) == 2
    assert world.classic().leader == c.member_id


def test_a_member_cannot_leave_with_the_instance_id_of_another() -> None:
    world = World()
    a, b = Client(world, "a", instance="one"), Client(world, "b", instance="two")
    stable_group(world, a, b)
    response = leave(world, MemberIdentity(member_id=a.member_id, group_instance_id="two"))
    assert response.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.state() == "Stable"


@pytest.mark.requirement("R11")
def test_before_version_3_one_member_leaves_with_one_code() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    ghost = leave(world, MemberIdentity(member_id="ghost"), version=2)
    assert (ghost.error_code, ghost.members) == (ErrorCode.UNKNOWN_MEMBER_ID, ())
    assert leave(world, MemberIdentity(member_id=a.member_id), version=2).error_code == ErrorCode.NONE
    assert world.state() == "Empty"


def test_leaving_an_unknown_group_is_refused() -> None:
    world = World()
    response = leave(world, MemberIdentity(member_id="ghost"))
    assert (response.error_code, response.members[0].error_code) == (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )
    assert leave(world, MemberIdentity(member_id="a"), group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_member_that_leaves_while_parked_is_answered_unknown_member_id() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b)
    c.join()
    c.leave()
    response = c.joined()
    assert response is not None
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    a.join()
    assert a.joined() is None
    b.leave()
    sync_all(world, a)


def test_leaving_with_an_unused_id_rebalances_a_stable_group_as_in_kafka() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.request_join()
    response = b.joined()
    assert response is not None
    b.member_id = response.member_id
    assert world.state() == "Stable"
    assert b.leave("changed my mind") is ErrorCode.NONE
    assert world.state() == "PreparingRebalance"
    cause = world.noted(RebalanceStarted)[-1].cause
    assert (cause.kind, cause.member_id, cause.reason) == (
        CauseKind.MEMBER_LEFT,
        b.member_id,
        "changed my mind",
    )


def test_an_unused_id_can_leave() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.request_join()
    response = b.joined()
    assert response is not None
    b.member_id = response.member_id
    a.join()
    assert a.joined() is None
    assert b.leave() is ErrorCode.NONE
    assert a.joined() is not None, "nobody is expected any more"
