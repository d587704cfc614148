from kohort.broker.group import DeleteGroup, DescribeGroup, ListGroups
from kohort.broker.group.events import GroupDeleted
from kohort.broker.group.test_world import Client, World, assignment, stable_group, subscription, sync_all
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from kohort.protocol.messages.list_groups import ListGroupsResponse


def described(world: World, group_id: str = "g", version: int = 6) -> DescribedGroup:
    request_id = next(world.request_ids)
    world.do(DescribeGroup(request_id, group_id, version))
    return world.answer(request_id, DescribedGroup)


def listed(world: World, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    request_id = next(world.request_ids)
    world.do(ListGroups(request_id, states, types))
    groups = world.answer(request_id, ListGroupsResponse).groups
    return {(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in groups}


def delete(world: World, group_id: str = "g") -> DeletableGroupResult:
    request_id = next(world.request_ids)
    world.do(DeleteGroup(request_id, group_id))
    return world.answer(request_id, DeletableGroupResult)


def test_a_stable_group_is_described_with_subscriptions_and_assignments() -> None:
    world = World()
    a = Client(world, "a", instance="one")
    stable_group(world, a)
    group = described(world)
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.group_instance_id, member.client_id) == (a.member_id, "one", "a")
    assert member.client_host == "/127.0.0.1"
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), assignment("t", 0))


def test_a_group_that_rebalances_is_described_without_its_protocol() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    group = described(world)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [each.member_metadata for each in group.members] == [b"", b""]
    assert [each.member_assignment for each in group.members] == [assignment("t", 0), b""]


def test_assignments_are_not_described_after_an_abandoned_sync_phase() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    stable_group(world, a)
    b.join()
    a.join()
    assert [each.member_assignment for each in described(world).members] == [assignment("t", 0), b""]
    c.join()
    assert described(world).group_state == "PreparingRebalance"
    assert [each.member_assignment for each in described(world).members] == [b"", b"", b""]
    a.join()
    b.join()
    sync_all(world, a, b, c)
    assert all(each.member_assignment for each in described(world).members)


def test_an_unknown_group_is_dead_and_from_version_6_an_error() -> None:
    world = World()
    old, new = described(world, version=5), described(world, version=6)
    assert (old.error_code, old.group_state, old.error_message) == (ErrorCode.NONE, "Dead", None)
    assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert new.error_message == "Group g not found."


def test_groups_are_listed_by_state_and_type() -> None:
    world = World()
    stable_group(world, Client(world, "a"))
    Client(world, group_id="simple").commit("t", 0, 1)
    stable, simple = ("g", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")
    assert listed(world) == {stable, simple}
    assert listed(world, states=("stable",)) == {stable}
    assert listed(world, states=("EMPTY", "Dead")) == {simple}
    assert listed(world, types=("Classic",)) == {stable, simple}
    assert listed(world, types=("consumer", "share")) == set()


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    a.commit("t", 0, 1)
    a.commit("u", 0, 1)
    a.leave()
    assert delete(world).error_code == ErrorCode.NONE
    assert [each.value for each in world.log[-3:]] == [None, None, None]
    assert world.fetch("t", 0) == -1
    assert world.core.groups == {}
    assert [each.expired for each in world.noted(GroupDeleted)] == [False]
    world.restart()
    assert world.core.groups == {}


def test_a_group_with_members_is_not_deleted() -> None:
    world = World()
    stable_group(world, Client(world, "a"))
    assert delete(world).error_code == ErrorCode.NON_EMPTY_GROUP
    assert world.state() == "Stable"
    assert delete(world, "none").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_id_given_by_a_deleted_group_is_unknown() -> None:
    world = World()
    a = Client(world, "a")
    a.request_join()
    given = a.joined()
    assert given is not None
    assert delete(world).error_code == ErrorCode.NONE
    a.member_id = given.member_id
    a.request_join()
    response = a.joined()
    assert response is not None
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.timers == {}


def test_an_answer_has_space_for_the_longest_group_id() -> None:
    world = World()
    group = described(world, "g" * 32_767)
    assert DescribeGroupsResponse(groups=(group,)).encode(6)
    assert group.error_message is not None
    assert group.error_message.endswith("ggg not found.")
