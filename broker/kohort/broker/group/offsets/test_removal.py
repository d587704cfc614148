import pytest

from kohort.broker.group import ExpireOffsets, GroupConfig, OffsetDelete, TopicsDeleted
from kohort.broker.group.events import GroupDeleted, OffsetsRemoved
from kohort.broker.group.test_world import Client, World, stable_group
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kohort.protocol.offsets_topic import GroupMetadataKey

MINUTE = 60_000


def hour_of_retention() -> World:
    return World(GroupConfig(offsets_retention_minutes=60))


def delete(world: World, *topics: tuple[str, int], group_id: str = "g") -> OffsetDeleteResponse:
    request_id = next(world.request_ids)
    asked = tuple(
        OffsetDeleteRequestTopic(name=name, partitions=(OffsetDeleteRequestPartition(partition_index=index),))
        for name, index in topics
    )
    world.do(OffsetDelete(request_id, OffsetDeleteRequest(group_id=group_id, topics=asked)))
    return world.answer(request_id, OffsetDeleteResponse)


@pytest.mark.requirement("R18")
def test_offsets_of_a_simple_group_expire_and_the_group_with_the_last() -> None:
    world = hour_of_retention()
    simple = Client(world)
    simple.commit("t", 0, 1)
    world.sleep(30 * MINUTE)
    simple.commit("t", 1, 2)
    world.sleep(30 * MINUTE - 1)
    assert world.do(ExpireOffsets()).records == ()
    world.sleep(1)
    world.do(ExpireOffsets())
    assert world.fetch("t", 0) == -1
    assert world.fetch("t", 1) == 2
    world.sleep(30 * MINUTE)
    decision = world.do(ExpireOffsets())
    assert decision.records[-1].key == GroupMetadataKey(group="g")
    assert decision.records[-1].value is None
    assert world.core.groups == {}
    assert [each.expired for each in world.noted(GroupDeleted)] == [True]
    assert [each.offsets for each in world.noted(OffsetsRemoved)] == [1, 1]


@pytest.mark.requirement("R18")
def test_offset_retention_of_a_group_starts_when_its_members_are_gone() -> None:
    world = hour_of_retention()
    a = Client(world, "a", session_timeout_ms=1_800_000)
    stable_group(world, a)
    a.commit("t", 0, 1)
    for _ in range(4):
        world.sleep(20 * MINUTE)
        a.heartbeat()
    world.do(ExpireOffsets())
    assert world.fetch("t", 0) == 1
    a.leave()
    world.sleep(60 * MINUTE - 1)
    world.do(ExpireOffsets())
    assert world.fetch("t", 0) == 1
    world.sleep(1)
    world.do(ExpireOffsets())
    assert world.core.groups == {}


def test_a_commit_to_an_old_empty_group_is_kept_for_the_full_retention() -> None:
    world = hour_of_retention()
    a, simple = Client(world, "a"), Client(world)
    stable_group(world, a)
    a.leave()
    world.sleep(59 * MINUTE)
    simple.commit("t", 0, 1)
    world.sleep(59 * MINUTE)
    world.do(ExpireOffsets())
    assert world.fetch("t", 0) == 1


@pytest.mark.requirement("R18")
def test_offsets_of_topics_that_a_stable_group_no_longer_reads_expire() -> None:
    world = hour_of_retention()
    a = Client(world, "a", topics=("t",), session_timeout_ms=1_800_000)
    stable_group(world, a)
    a.commit("t", 0, 1)
    a.commit("old", 0, 1)
    for _ in range(3):
        world.sleep(20 * MINUTE)
        a.heartbeat()
    world.do(ExpireOffsets())
    assert world.fetch("t", 0) == 1
    assert world.fetch("old", 0) == -1
    assert world.state() == "Stable"


def test_no_offsets_expire_in_a_rebalancing_or_non_consumer_group() -> None:
    world = hour_of_retention()
    a = Client(world, "a", protocol_type="connect", session_timeout_ms=1_800_000)
    stable_group(world, a)
    a.commit("t", 0, 1)
    for _ in range(4):
        world.sleep(20 * MINUTE)
        a.heartbeat()
    world.do(ExpireOffsets())
    a.join()
    world.do(ExpireOffsets())
    assert world.fetch("t", 0) == 1


def test_an_empty_group_without_offsets_is_forgotten() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    a.leave()
    world.do(ExpireOffsets())
    assert world.core.groups == {}
    world.restart()
    assert world.core.groups == {}


def test_a_group_that_somebody_is_about_to_join_is_not_forgotten() -> None:
    world = World()
    a = Client(world, "a")
    a.request_join()
    world.do(ExpireOffsets())
    response = a.joined()
    assert response is not None
    a.member_id = response.member_id
    a.request_join()
    world.sleep(3_000)
    rejoined = a.joined()
    assert rejoined is not None
    assert rejoined.error_code == ErrorCode.NONE


@pytest.mark.requirement("R18")
def test_deleting_a_topic_deletes_its_offsets_in_all_groups() -> None:
    world = World()
    g, h = Client(world), Client(world, group_id="h")
    for client in (g, h):
        client.commit("t", 0, 1)
        client.commit("u", 0, 1)
    decision = world.do(TopicsDeleted(frozenset({"t", "other"})))
    assert len(decision.records) == 2
    assert [world.fetch("t", 0, group) for group in ("g", "h")] == [-1, -1]
    assert [world.fetch("u", 0, group) for group in ("g", "h")] == [1, 1]


def test_offsets_can_be_deleted_on_request() -> None:
    world = World()
    simple = Client(world)
    simple.commit("t", 0, 1)
    simple.commit("t", 1, 1)
    response = delete(world, ("t", 0), ("t", 9), ("unknown", 0))
    assert response.error_code == ErrorCode.NONE
    assert [each.partitions[0].error_code for each in response.topics] == [ErrorCode.NONE] * 3
    assert (world.fetch("t", 0), world.fetch("t", 1)) == (-1, 1)


def test_offsets_of_a_topic_that_the_group_reads_are_not_deleted() -> None:
    world = World()
    a = Client(world, "a", topics=("t",))
    stable_group(world, a)
    a.commit("t", 0, 1)
    a.commit("old", 0, 1)
    response = delete(world, ("t", 0), ("old", 0))
    assert [each.partitions[0].error_code for each in response.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert (world.fetch("t", 0), world.fetch("old", 0)) == (1, -1)
    a.leave()
    assert delete(world, ("t", 0)).topics[0].partitions[0].error_code == ErrorCode.NONE


def test_the_subscription_of_a_group_is_that_of_its_last_generation() -> None:
    world = World()
    a, b = Client(world, "a", topics=("t",)), Client(world, "b", topics=("u",))
    stable_group(world, a)
    a.commit("t", 0, 1)
    a.commit("u", 0, 1)
    b.join()
    codes = [each.partitions[0].error_code for each in delete(world, ("t", 0), ("u", 0)).topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE], "b is not in a generation yet"
    a.join()
    assert delete(world, ("u", 0)).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_other_groups_with_members_are_not_deleted() -> None:
    world = World()
    stable_group(world, Client(world, "a", protocol_type="connect"))
    assert delete(world, ("t", 0)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert delete(world, ("t", 0), group_id="none").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(world, ("t", 0), group_id="").error_code == ErrorCode.INVALID_GROUP_ID
