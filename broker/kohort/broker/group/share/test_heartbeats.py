"""Share groups as their members see them: joining, sharing, leaving, coming back from the log."""

import pytest

from kohort.broker.group import DeleteGroup, GroupConfig, ListGroups
from kohort.broker.group.consumer.test_world import Consumer, ConsumerWorld
from kohort.broker.group.events import GroupEmptied, GroupLoaded, MemberExpired, MemberJoined, MemberLeft
from kohort.broker.group.share.commands import (
    ForgetDeletedTopics,
    ForgetShareState,
    ShareGroupHeartbeat,
    StartShareState,
    offsets_answer,
)
from kohort.broker.group.share.test_world import AT_ONCE, Sharer, ShareWorld
from kohort.broker.group.test_world import Client, stable_group
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kohort.protocol.messages.list_groups import ListGroupsResponse

ALL = {("t", index) for index in range(4)}


def shared(world: ShareWorld, *names: str, group_id: str = "g") -> list[Sharer]:
    """Members of one group that read `t`, which is ready, and have come to its newest epoch."""
    members = [Sharer(world, name, group_id=group_id) for name in names]
    for each in members:
        assert each.join() is ErrorCode.NONE
    world.make_ready(group_id)
    for each in members:
        assert each.heartbeat() is ErrorCode.NONE
    return members


def test_a_member_gets_partitions_after_their_state_is_initialized() -> None:
    world = ShareWorld(t=4)
    one = Sharer(world, "one")
    assert one.join() is ErrorCode.NONE
    assert (one.epoch, one.has, one.last.heartbeat_interval_ms) == (2, set(), 100)
    assert one.heartbeat() is ErrorCode.NONE
    assert one.has == set()
    world.make_ready()
    assert one.heartbeat() is ErrorCode.NONE
    assert (one.epoch, one.has, one.last.heartbeat_interval_ms) == (3, ALL, 5_000)
    assert world.noted(MemberJoined)[0].member_id == "one"


def test_the_second_member_gets_half_with_its_first_heartbeat_without_waiting() -> None:
    world = ShareWorld(t=4)
    (one,) = shared(world, "one")
    two = Sharer(world, "two")
    assert two.join() is ErrorCode.NONE
    assert len(two.has) == 2
    assert one.has == ALL  # It reads on what it has, until it comes by itself.
    one.heartbeat()
    assert (one.has | two.has, one.has & two.has, one.epoch) == (ALL, set(), two.epoch)
    assert one.heartbeat() is ErrorCode.NONE
    assert one.last.assignment is None


def test_more_members_than_partitions_share_them() -> None:
    world = ShareWorld(t=2)
    members = shared(world, "a", "b", "c", "d")
    for each in members:
        each.heartbeat()
    assert all(len(each.has) == 1 for each in members)
    assert {place for each in members for place in each.has} == {("t", 0), ("t", 1)}


def test_a_member_that_leaves_or_is_silent_is_removed_and_the_others_share() -> None:
    world = ShareWorld(t=4)
    one, two, three = shared(world, "one", "two", "three")
    assert two.leave() is ErrorCode.NONE
    assert world.noted(MemberLeft)[0].member_id == "two"
    for _ in range(3):
        world.sleep(20_000)
        one.heartbeat()
    assert [each.member_id for each in world.noted(MemberExpired)] == ["three"]
    one.heartbeat()
    assert one.has == ALL
    assert three.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    one.leave()
    assert world.noted(GroupEmptied)
    assert world.describe().group_state == "Empty"


def test_wrong_epochs_are_fenced_but_the_previous_one_is_accepted() -> None:
    world = ShareWorld(t=4)
    (one,) = shared(world, "one")
    assert one.send(one.epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert one.send(2) is ErrorCode.NONE  # It missed the last answer, and gets it again.
    assert one.has == ALL
    Sharer(world, "two").join()
    assert one.send(2) is ErrorCode.NONE
    assert one.send(2) is ErrorCode.FENCED_MEMBER_EPOCH
    assert one.send(0, subscribed_topic_names=("t",)) is ErrorCode.NONE  # Whoever is fenced joins again.


def test_a_changed_subscription_and_changed_topics_make_new_epochs() -> None:
    world = ShareWorld(t=1, u=1)
    (one,) = shared(world, "one")
    assert one.heartbeat(subscribed_topic_names=("u",)) is ErrorCode.NONE
    world.make_ready()
    one.heartbeat()
    assert one.has == {("u", 0)}
    world.change(t=1, u=2)
    one.heartbeat()
    world.make_ready()
    one.heartbeat()
    assert one.has == {("u", 0), ("u", 1)}
    world.change(t=1)
    one.heartbeat()
    assert one.has == set()
    deleted = frozenset(each for each, topic in world.group().initialized.items() if topic.name == "u")
    world.run(world.core.handle(ForgetDeletedTopics(deleted), world.now_ms))
    assert [each.name for each in world.group().initialized.values()] == ["t"]


def test_a_restart_restores_the_group() -> None:
    world = ShareWorld(t=4)
    one, two = shared(world, "one", "two")
    one.heartbeat()
    had = one.has
    world.restart()
    assert world.noted(GroupLoaded)[-1].members == 2
    assert (one.heartbeat(), one.has) == (ErrorCode.NONE, had)
    world.sleep(45_001)
    assert two.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_state_requested_before_a_crash_is_requested_again() -> None:
    world = ShareWorld(t=4)
    one = Sharer(world, "one")
    one.join()
    world.restart()
    assert one.heartbeat() is ErrorCode.NONE
    assert [each.partitions for each in world.group().initializing.values()] == [frozenset(range(4))]
    world.make_ready()
    one.heartbeat()
    assert one.has == ALL


def test_a_full_group_refuses_new_members() -> None:
    world = ShareWorld(GroupConfig(group_share_max_size=1))
    (one,) = shared(world, "one")
    assert Sharer(world, "two").join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert one.join() is ErrorCode.NONE


def test_many_changes_share_an_assignment() -> None:
    world = ShareWorld(GroupConfig(group_share_assignment_interval_ms=1_000), t=4)
    (one,) = shared(world, "one")
    two = Sharer(world, "two")
    assert two.join() is ErrorCode.NONE
    assert (two.has, two.last.heartbeat_interval_ms) == (set(), 1_000)
    world.sleep(1_000)
    two.heartbeat()
    assert len(two.has) == 2
    assert one.has == ALL


def test_a_new_coordinator_waits_until_the_next_assignment_is_due() -> None:
    world = ShareWorld(GroupConfig(group_share_assignment_interval_ms=1_000), t=4)
    (one,) = shared(world, "one")
    world.restart()
    two = Sharer(world, "two")
    assert two.join() is ErrorCode.NONE
    assert (two.has, two.last.heartbeat_interval_ms) == (set(), 1_000)
    world.sleep(1_000)
    two.heartbeat()
    assert len(two.has) == 2
    assert one.has == ALL


@pytest.mark.parametrize(
    "epoch, fields",
    [(-2, {}), (0, {}), (0, {"subscribed_topic_names": ()}), (1, {"rack_id": ""})],
)
def test_an_invalid_heartbeat_is_refused(epoch: int, fields: dict[str, object]) -> None:
    world = ShareWorld()
    assert Sharer(world, "one").send(epoch, **fields) is ErrorCode.INVALID_REQUEST
    assert Sharer(world, "").send(1) is ErrorCode.INVALID_REQUEST
    assert Sharer(world, "one", group_id="").send(1) is ErrorCode.INVALID_REQUEST
    assert not world.core.groups


def test_an_unknown_group_or_one_of_another_kind_is_not_found() -> None:
    world = ShareWorld()
    sharer = Sharer(world, "two")
    assert sharer.send(1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert sharer.leave() is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    stable_group(world, Client(world, "classic"))
    assert sharer.join() is ErrorCode.GROUP_ID_NOT_FOUND
    assert sharer.leave() is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    shared(world, "one", group_id="h")
    other = ConsumerWorld()
    other.core = other.follower = world.core
    assert Consumer(other, "three", group_id="h").join() is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_of_other_protocols_cannot_join_a_share_group() -> None:
    world = ShareWorld(AT_ONCE)
    shared(world, "one")
    client = Client(world, "classic")
    client.join()
    joined = client.joined()
    assert joined is not None
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    client.sync()
    synced = client.synced()
    assert synced is not None
    assert synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.leave() is ErrorCode.UNKNOWN_MEMBER_ID
    assert client.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert client.commit("t", 0, 1) is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_is_listed_until_it_is_deleted() -> None:
    world = ShareWorld()
    (one,) = shared(world, "one")
    assert world.ask(DeleteGroup, DeletableGroupResult, "g").error_code == ErrorCode.NON_EMPTY_GROUP
    one.leave()
    world.sleep(8 * 24 * 3_600_000)
    (listed,) = world.ask(ListGroups, ListGroupsResponse, (), ()).groups
    assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "share", "Empty")
    assert listed.protocol_type == "share"
    assert world.ask(DeleteGroup, DeletableGroupResult, "g").error_code == ErrorCode.NONE
    assert not world.core.groups
    world.restart()
    assert not world.core.groups


def test_administrators_initialize_and_delete_share_partitions_only_of_empty_groups() -> None:
    world = ShareWorld(t=4)
    (one,) = shared(world, "one")
    (topic_id,) = world.group().initialized
    forget = (ForgetShareState, DeleteShareGroupOffsetsResponse, "g", frozenset((topic_id,)))
    assert world.ask(*forget) == offsets_answer(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    one.leave()
    assert world.ask(*forget).error_code == ErrorCode.NONE
    assert not world.group().initialized
    started = {topic_id: frozenset((1, 2))}
    answer = world.ask(StartShareState, DeleteShareGroupOffsetsResponse, "g", started, world.metadata)
    assert answer.error_code == ErrorCode.NONE
    assert world.group().initialized[topic_id].partitions == {1, 2}
    one.join()
    assert one.has == {("t", 1), ("t", 2)}


def test_older_metadata_delete_no_share_partition_and_a_deletion_does() -> None:
    world = ShareWorld(t=2, u=1)
    a = Sharer(world, "a", "t", "u")
    a.join()
    world.make_ready()
    a.heartbeat()
    t, u = (world.metadata.topics[name].topic_id for name in ("t", "u"))
    world.change(u=1)
    a.heartbeat()
    assert a.has == {("u", 0)}
    assert world.group().initialized.keys() == {t, u}
    world.change(t=2, u=1)
    a.heartbeat()
    assert a.has == {("t", 0), ("t", 1), ("u", 0)}, "nothing had to be made again"
    assert not world.group().initializing
    world.change(u=1)
    world.run(world.core.handle(ForgetDeletedTopics(frozenset({t})), world.now_ms))
    assert world.group().initialized.keys() == {u}
    a.heartbeat()
    assert a.has == {("u", 0)}


def test_a_shard_that_cannot_be_reached_is_refused_with_its_code() -> None:
    command = ShareGroupHeartbeat(1, None, "", "", None)  # type: ignore[arg-type]  # Nothing of it is read.
    assert command.refused(ErrorCode.NOT_COORDINATOR).error_code == ErrorCode.NOT_COORDINATOR
