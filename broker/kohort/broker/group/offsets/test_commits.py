from uuid import UUID

import pytest

from kohort.broker.group import GroupConfig, OffsetCommit, OffsetFetch
from kohort.broker.group.consumer.test_world import Metadata, Topic
from kohort.broker.group.test_world import Client, World, stable_group, sync_all
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue, encode_value
from kohort.protocol.schema import ZERO_UUID


def fetched(world: World, topics: tuple[OffsetFetchRequestTopics, ...] | None) -> OffsetFetchResponseGroup:
    request_id = next(world.request_ids)
    world.do(
        OffsetFetch(request_id, OffsetFetchRequestGroup(group_id="g", topics=topics), require_stable=True)
    )
    return world.answer(request_id, OffsetFetchResponseGroup)


@pytest.mark.requirement("R15")
def test_a_commit_is_logged_in_kafkas_form_and_can_be_fetched() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    assert a.commit("t", 3, 42, "note") is ErrorCode.NONE
    record = world.log[-1]
    assert record.key == OffsetCommitKey(group="g", topic="t", partition=3)
    assert record.value == OffsetCommitValue(
        offset=42, leader_epoch=-1, metadata="note", commit_timestamp=world.now_ms, topic_id=ZERO_UUID
    )
    asked = OffsetFetchRequestTopics(name="t", topic_id=ZERO_UUID, partition_indexes=(3, 4))
    (topic,) = fetched(world, (asked,)).topics
    assert [(each.committed_offset, each.metadata) for each in topic.partitions] == [(42, "note"), (-1, "")]
    assert topic.partitions[1].committed_leader_epoch == -1


@pytest.mark.requirement("R15")
def test_the_newest_commit_counts() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    for offset in (10, 20, 15):
        a.commit("t", 0, offset)
    assert world.fetch("t", 0) == 15


@pytest.mark.requirement("R16")
def test_all_offsets_are_fetched_if_no_topics_are_named() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        a.commit(topic, partition, 7)
    topics = fetched(world, None).topics
    assert {(each.name, found.partition_index) for each in topics for found in each.partitions} == {
        ("t", 0),
        ("t", 1),
        ("u", 0),
    }


def test_a_group_that_does_not_exist_has_no_offsets() -> None:
    world = World()
    asked = OffsetFetchRequestTopics(name="t", topic_id=ZERO_UUID, partition_indexes=(0,))
    response = fetched(world, (asked,))
    assert response.error_code == ErrorCode.NONE
    assert response.topics[0].partitions[0].committed_offset == -1
    assert fetched(world, None).topics == ()
    assert world.core.groups == {}


@pytest.mark.requirement("R15")
def test_metadata_that_is_too_long_fails_only_its_partition() -> None:
    world = World(GroupConfig(offset_metadata_max_bytes=10))
    a = Client(world, "a")
    stable_group(world, a)
    partitions = (
        OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="x" * 11),
        OffsetCommitRequestPartition(partition_index=1, committed_offset=1, committed_metadata="x" * 10),
        OffsetCommitRequestPartition(partition_index=2, committed_offset=1, committed_metadata=None),
    )
    topic_id = UUID(int=7)
    message = OffsetCommitRequest(
        group_id="g",
        member_id=a.member_id,
        generation_id_or_member_epoch=1,
        topics=(OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=partitions),),
    )
    decision = world.do(OffsetCommit(9_999, message, 10))
    (topic,) = world.answer(9_999, OffsetCommitResponse).topics
    assert topic.topic_id == topic_id
    assert [each.error_code for each in topic.partitions] == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    values = [each.value for each in decision.records]
    assert [each.topic_id for each in values if isinstance(each, OffsetCommitValue)] == [topic_id] * 2
    assert world.fetch("t", 0) == -1
    assert world.fetch("t", 2) == 1


def test_a_commit_without_a_member_creates_a_simple_group() -> None:
    world = World()
    simple = Client(world)
    assert simple.commit("t", 0, 5) is ErrorCode.NONE
    assert world.fetch("t", 0) == 5
    assert world.state() == "Empty"
    assert world.core.groups["g"].protocol_type is None


@pytest.mark.requirement("R16")
def test_a_commit_without_a_member_is_accepted_only_by_an_empty_group() -> None:
    world = World()
    simple, a = Client(world), Client(world, "a")
    stable_group(world, a)
    assert simple.commit("t", 0, 5) is ErrorCode.UNKNOWN_MEMBER_ID
    a.leave()
    assert simple.commit("t", 0, 5) is ErrorCode.NONE


def test_a_commit_of_a_generation_in_a_group_that_does_not_exist_is_refused() -> None:
    world = World()
    client = Client(world)
    client.member_id, client.generation_id = "ghost", 3
    assert client.commit("t", 0, 5) is ErrorCode.GROUP_ID_NOT_FOUND
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    message = OffsetCommitRequest(
        group_id="g",
        member_id="ghost",
        generation_id_or_member_epoch=3,
        topics=(OffsetCommitRequestTopic(name="t", topic_id=ZERO_UUID, partitions=(partition,)),),
    )
    world.do(OffsetCommit(9_999, message, 8))
    response = world.answer(9_999, OffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
    assert world.core.groups == {}


@pytest.mark.requirement("R9")
def test_unknown_members_and_old_generations_cannot_commit() -> None:
    world = World()
    a, ghost = Client(world, "a"), Client(world, "ghost")
    stable_group(world, a)
    ghost.member_id, ghost.generation_id = "ghost", 1
    assert ghost.commit("t", 0, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    a.generation_id = 0
    assert a.commit("t", 0, 1) is ErrorCode.ILLEGAL_GENERATION
    a.generation_id = -1
    assert a.commit("t", 0, 1) is ErrorCode.ILLEGAL_GENERATION
    assert world.fetch("t", 0) == -1


@pytest.mark.requirement("R9")
def test_commits_are_accepted_during_join_but_not_during_sync() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    assert world.state() == "PreparingRebalance"
    assert a.commit("t", 0, 1) is ErrorCode.NONE
    a.join()
    assert a.joined() is not None
    assert world.state() == "CompletingRebalance"
    assert a.commit("t", 0, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    sync_all(world, a, b)
    assert a.commit("t", 0, 3) is ErrorCode.NONE
    assert world.fetch("t", 0) == 3


def test_a_commit_with_a_retention_beyond_the_record_format_is_kept_forever() -> None:
    world = World()
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", partitions=(partition,))
    request = OffsetCommitRequest(group_id="g", retention_time_ms=2**63 - 1, topics=(topic,))
    request_id = next(world.request_ids)
    world.do(OffsetCommit(request_id, request, 2))
    answer = world.answer(request_id, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    value = world.log[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert value.expire_timestamp == 2**63 - 1
    encode_value(value)


def test_offsets_of_a_deleted_topic_with_the_same_name_are_kept_but_not_returned() -> None:
    world = World()
    names = ("t", "gone")
    for number, topic_id in enumerate((UUID(int=1), UUID(int=2), ZERO_UUID)):
        topics = tuple(
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=number, committed_metadata=None
                    ),
                ),
            )
            for name in names
        )
        message = OffsetCommitRequest(group_id="g", topics=topics)
        world.do(OffsetCommit(next(world.request_ids), message, 9, (topic_id, topic_id)))
    asked = (OffsetFetchRequestTopics(name="t", topic_id=ZERO_UUID, partition_indexes=(0, 1, 2)),)
    metadata = Metadata(1, {"t": Topic("t", UUID(int=2), (0, 1, 2))})
    for group in (
        OffsetFetchRequestGroup(group_id="g", topics=None),
        OffsetFetchRequestGroup(group_id="g", topics=asked),
    ):
        request_id = next(world.request_ids)
        world.do(OffsetFetch(request_id, group, metadata=metadata))
        told = {
            topic.name: {each.partition_index: each.committed_offset for each in topic.partitions}
            for topic in world.answer(request_id, OffsetFetchResponseGroup).topics
        }
        assert {index for index, offset in told["t"].items() if offset >= 0} == {1, 2}
        assert told.get("gone", {0: 0, 1: 1, 2: 2}) == {0: 0, 1: 1, 2: 2}
    assert len(world.core.groups["g"].offsets["t"]) == 3
