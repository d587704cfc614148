"""CreateTopics, CreatePartitions, DeleteTopics: Kafka's answers, as Apache Kafka 4.3 gives them."""

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from kohort.broker.handlers.administration.test_admin_support import AdminWorld, creatable
from kohort.broker.metadata import OFFSETS_TOPIC, TopicState
from kohort.broker.metadata.internal_topics import offsets_topic
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kohort.storage import OsFileSystem
from kohort.storage.filesystem import StrPath


async def created(
    world: AdminWorld, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> dict[str, CreatableTopicResult]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    answer = await world.ask(request, CreateTopicsResponse, version)
    return {result.name: result for result in answer.topics}


async def code_of(world: AdminWorld, topic: CreatableTopic) -> int:
    return (await created(world, topic))[topic.name].error_code


def assigned(name: str, *assignments: tuple[int, tuple[int, ...]], partitions: int = -1) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in assignments
        ),
        configs=(),
    )


# -- create -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_created_topic_is_in_the_metadata_and_described_in_the_answer(
    tmp_path: Path, version: int
) -> None:
    world = await AdminWorld(tmp_path).start()
    topic = creatable("orders", 3, configs={"retention_ms": "5"})
    result = (await created(world, topic, version=version))["orders"]
    state = world.snapshot.topics["orders"]
    assert (result.error_code, len(state.partitions)) == (ErrorCode.NONE, 3)
    assert state.configs == {"retention.ms": "5"}
    assert state.topic_id.version == 4
    if version >= 7:
        assert result.topic_id == state.topic_id
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        retention = next(each for each in result.configs or () if each.name == "retention.ms")
        assert (retention.value, retention.config_source) == ("5", 1)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "a b", "ä", "a/b", "a\n"], ids=lambda name: repr(name)[:12]
)
async def test_impossible_names_are_refused(tmp_path: Path, name: str) -> None:
    world = await AdminWorld(tmp_path).start()
    assert await code_of(world, creatable(name)) == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_the_longest_name_is_accepted(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    assert await code_of(world, creatable("a" * 249)) == ErrorCode.NONE


async def test_names_that_give_the_same_metric_names_collide(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("a.b")
    assert await code_of(world, creatable("a_b")) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await code_of(world, creatable("a.b")) == ErrorCode.TOPIC_ALREADY_EXISTS
    results = await created(world, creatable("c.d"), creatable("c_d"))
    assert sorted(result.error_code for result in results.values()) == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


async def test_a_name_twice_in_a_request_is_refused_and_the_others_are_created(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    results = await created(world, creatable("d"), creatable("e"), creatable("d"))
    assert (results["d"].error_code, results["e"].error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert list(world.snapshot.topics) == ["e"]


@pytest.mark.parametrize(
    "partitions, factor, code",
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (10_001, 1, ErrorCode.POLICY_VIOLATION),
        (-1, -1, ErrorCode.NONE),
    ],
)
async def test_numbers_that_can_not_be_are_refused(
    tmp_path: Path, partitions: int, factor: int, code: ErrorCode
) -> None:
    world = await AdminWorld(tmp_path).start()
    assert await code_of(world, creatable("t", partitions, factor)) == code


async def test_minus_one_partitions_means_num_partitions(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path, num_partitions=4).start()
    await world.create("t", -1)
    assert len(world.snapshot.topics["t"].partitions) == 4


@pytest.mark.parametrize(
    "topic, code",
    [
        (assigned("t", (0, (1,)), (1, (1,))), ErrorCode.NONE),
        (assigned("t", (1, (1,)), (0, (1,))), ErrorCode.NONE),
        (assigned("t", (0, (1,)), partitions=1), ErrorCode.INVALID_REQUEST),
        (assigned("t", (1, (1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, (1,)), (0, (1,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, ())), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, (5,))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, (1, 1))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_possible_assignments_are_accepted(
    tmp_path: Path, topic: CreatableTopic, code: ErrorCode
) -> None:
    world = await AdminWorld(tmp_path).start()
    assert await code_of(world, topic) == code


@pytest.mark.parametrize(
    "name, value", [("nope", "1"), ("retention.ms", "x"), ("retention.ms", None), ("retention.ms", "-2")]
)
async def test_wrong_configs_are_refused(tmp_path: Path, name: str, value: str | None) -> None:
    world = await AdminWorld(tmp_path).start()
    topic = CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(CreatableTopicConfig(name=name, value=value),),
    )
    result = (await created(world, topic))["t"]
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert name in (result.error_message or "")
    assert not world.snapshot.topics


async def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    results = await created(world, creatable("t", 2), creatable("a b"), validate_only=True)
    assert results["t"].num_partitions == 2
    assert results["a b"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not world.snapshot.topics


class FullDisk(OsFileSystem):
    def replace(self, path: StrPath, content: bytes, *, sync: bool = True) -> None:
        raise OSError(28, "No space left on device")


async def test_a_full_disk_is_reported_and_nothing_is_created(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path, FullDisk()).start()
    results = await created(world, creatable("t"), creatable("a b"))
    assert results["t"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left" in (results["t"].error_message or "")
    assert results["a b"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not world.snapshot.topics


async def test_the_offsets_topic_is_created_once_and_compacted(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    first = await world.topics.ensure(offsets_topic(world.current.config))
    assert (first.name, len(first.partitions), first.is_internal) == (OFFSETS_TOPIC, 50, True)
    assert first.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert await world.topics.ensure(offsets_topic(world.current.config)) is first


# -- more partitions ----------------------------------------------------------------------------------------


async def grown(
    world: AdminWorld, *topics: tuple[str, int], assignments: tuple[tuple[int, ...], ...] | None = None
) -> list[int]:
    wanted = tuple(
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if assignments is None
            else tuple(CreatePartitionsAssignment(broker_ids=nodes) for nodes in assignments),
        )
        for name, count in topics
    )
    request = CreatePartitionsRequest(topics=wanted, timeout_ms=1, validate_only=False)
    answer = await world.ask(request, CreatePartitionsResponse)
    return [result.error_code for result in answer.results]


async def test_a_topic_that_grows_keeps_its_id_and_its_partitions(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("t", 2, retention_ms="5")
    before = world.snapshot.topics["t"]
    assert await grown(world, ("t", 5)) == [ErrorCode.NONE]
    after = world.snapshot.topics["t"]
    assert [partition.index for partition in after.partitions] == [0, 1, 2, 3, 4]
    assert after.partitions[:2] == before.partitions
    assert (after.topic_id, after.configs) == (before.topic_id, before.configs)


@pytest.mark.parametrize("count", [2, 1, 0, -1])
async def test_a_topic_does_not_shrink(tmp_path: Path, count: int) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("t", 2)
    assert await grown(world, ("t", count)) == [ErrorCode.INVALID_PARTITIONS]


@pytest.mark.parametrize(
    "assignments, code",
    [
        (((1,),), ErrorCode.NONE),
        (((7,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((),), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (((1,), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_new_partitions_go_where_they_are_assigned(
    tmp_path: Path, assignments: tuple[tuple[int, ...], ...], code: ErrorCode
) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("t", 2)
    assert await grown(world, ("t", 3), assignments=assignments) == [code]


async def test_unknown_topics_and_topics_named_twice_do_not_grow(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("t", 2)
    codes = await grown(world, ("nope", 3), ("t", 3), ("t", 4))
    assert sorted(codes) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST]
    assert len(world.snapshot.topics["t"].partitions) == 2


async def test_the_offsets_topic_cannot_grow_or_be_deleted(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.topics.ensure(offsets_topic(world.current.config))
    assert await grown(world, (OFFSETS_TOPIC, 60)) == [ErrorCode.INVALID_REQUEST]
    assert [each.error_code for each in await deleted(world, OFFSETS_TOPIC)] == [ErrorCode.INVALID_REQUEST]


# -- delete -------------------------------------------------------------------------------------------------


async def deleted(
    world: AdminWorld, *wanted: str | UUID | DeleteTopicState, version: int = 6
) -> tuple[DeletableTopicResult, ...]:
    if version < 6:
        request = DeleteTopicsRequest(topic_names=tuple(map(str, wanted)), timeout_ms=1)
    else:
        request = DeleteTopicsRequest(topics=tuple(map(state, wanted)), timeout_ms=1)
    return (await world.ask(request, DeleteTopicsResponse, version)).responses


def state(wanted: str | UUID | DeleteTopicState) -> DeleteTopicState:
    if isinstance(wanted, DeleteTopicState):
        return wanted
    return DeleteTopicState(topic_id=wanted) if isinstance(wanted, UUID) else DeleteTopicState(name=wanted)


async def topics(world: AdminWorld, *names: str) -> list[TopicState]:
    for name in names:
        await world.create(name)
    return [world.snapshot.topics[name] for name in names]


@pytest.mark.parametrize("version", range(1, 7))
async def test_deleted_topics_are_removed_and_groups_are_informed(tmp_path: Path, version: int) -> None:
    world = await AdminWorld(tmp_path).start()
    await topics(world, "a", "b", "c")
    results = await deleted(world, "a", "b", version=version)
    assert [(each.name, each.error_code) for each in results] == [("a", 0), ("b", 0)]
    assert list(world.snapshot.topics) == ["c"]
    assert world.deleted == [frozenset({"a", "b"})]


async def test_a_topic_is_deleted_by_its_id(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    [topic] = await topics(world, "a")
    [result] = await deleted(world, topic.topic_id)
    assert (result.name, result.topic_id, result.error_code) == ("a", topic.topic_id, ErrorCode.NONE)
    assert not world.snapshot.topics


async def test_an_unknown_topic_cannot_be_deleted(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    unknown = uuid4()
    by_name, by_id = await deleted(world, "nope", unknown)
    assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (by_id.error_code, by_id.name, by_id.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown)
    assert world.deleted == []


async def test_a_topic_that_is_named_twice_or_in_two_ways_is_not_deleted(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    a, b = await topics(world, "a", "b")
    results = await deleted(
        world, "a", a.topic_id, DeleteTopicState(name="b", topic_id=b.topic_id), DeleteTopicState()
    )
    assert {each.error_code for each in results} == {ErrorCode.INVALID_REQUEST}
    assert list(world.snapshot.topics) == ["a", "b"]


@pytest.mark.parametrize(
    "version, code", [(6, ErrorCode.TOPIC_DELETION_DISABLED), (2, ErrorCode.INVALID_REQUEST)]
)
async def test_deletion_can_be_forbidden(tmp_path: Path, version: int, code: ErrorCode) -> None:
    world = await AdminWorld(tmp_path, delete_topic_enable=False).start()
    await topics(world, "a")
    [result] = await deleted(world, "a", version=version)
    assert (result.name, result.error_code) == ("a", code)
    assert "a" in world.snapshot.topics


async def test_a_topic_that_is_created_again_has_another_id(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    [old] = await topics(world, "a")
    await deleted(world, "a")
    [new] = await topics(world, "a")
    assert new.topic_id != old.topic_id
    assert list(world.snapshot.topics_by_id) == [new.topic_id]


async def test_a_topic_is_answered_once_its_logs_are_there(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("orders", 2)
    assert world.made_ready == ["orders"]


async def test_the_offsets_topic_cannot_be_created_without_compaction(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    assert await code_of(world, creatable(OFFSETS_TOPIC, 1)) == ErrorCode.INVALID_CONFIG
    compacted = creatable(OFFSETS_TOPIC, 1, configs={"cleanup.policy": "compact"})
    assert await code_of(world, compacted) == ErrorCode.NONE
