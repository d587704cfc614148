"""Metadata and what else describes the cluster: versions, brokers, pages of partitions, folders."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import uuid4

import pytest

from kohort.broker.handlers.administration.metadata import handle
from kohort.broker.handlers.administration.test_admin_support import AdminWorld
from kohort.broker.handlers.apis import MODULES
from kohort.broker.handlers.prepared import Prepared
from kohort.broker.metadata import OFFSETS_TOPIC, Mutation, PartitionState, TopicState, update
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kohort.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopicRequest,
    DescribeTopicPartitionsResponse,
)
from kohort.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kohort.broker.transport.request import Request

NOT_ASKED = -(2**31)


async def asked(
    world: AdminWorld, *topics: MetadataRequestTopic, version: int = 13, create: bool = False
) -> tuple[MetadataResponseTopic, ...]:
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create or version < 4)
    return (await world.ask(request, MetadataResponse, version)).topics


def named(name: str) -> MetadataRequestTopic:
    return MetadataRequestTopic(name=name)


@pytest.mark.parametrize("version", range(14))
async def test_every_version_describes_the_broker_and_the_topics(tmp_path: Path, version: int) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("orders", 2)
    answer = await world.ask(MetadataRequest(topics=() if version == 0 else None), MetadataResponse, version)
    [broker] = answer.brokers
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (1, "localhost", 9092, None)
    [topic] = answer.topics
    assert (topic.name, topic.error_code) == ("orders", 0)
    assert [(each.partition_index, each.leader_id) for each in topic.partitions] == [(0, 1), (1, 1)]
    assert all((each.replica_nodes, each.isr_nodes) == ((1,), (1,)) for each in topic.partitions)
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert answer.cluster_id == ("cluster" if version >= 2 else None)
    if version >= 7:
        assert {each.leader_epoch for each in topic.partitions} == {0}
    if version >= 10:
        assert topic.topic_id == world.snapshot.topics["orders"].topic_id


async def test_an_empty_list_means_no_topics_from_version_1(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("orders")
    assert await asked(world, version=1) == ()
    assert [topic.name for topic in await asked(world, version=0)] == ["orders"]


async def test_topics_are_found_by_id(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("orders")
    topic_id = world.snapshot.topics["orders"].topic_id
    [known] = await asked(world, MetadataRequestTopic(name=None, topic_id=topic_id))
    assert (known.name, known.error_code) == ("orders", ErrorCode.NONE)
    other = uuid4()
    [unknown] = await asked(world, MetadataRequestTopic(name=None, topic_id=other))
    assert (unknown.name, unknown.topic_id) == (None, other)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_ids_are_refused_before_version_12_and_nothing_is_refused_always(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("orders")
    by_id = MetadataRequestTopic(name=None, topic_id=world.snapshot.topics["orders"].topic_id)
    for topic, version in ((by_id, 10), (by_id, 11), (MetadataRequestTopic(name=None), 13)):
        [result] = await asked(world, topic, version=version)
        assert result.error_code == ErrorCode.INVALID_REQUEST


async def test_each_topic_has_its_own_error(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("orders")
    results = await asked(world, named("a b"), named("orders"), named("nope"), named("orders"))
    assert [(each.name, each.error_code) for each in results] == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("orders", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(world.snapshot.topics) == ["orders"]


@pytest.mark.parametrize("version", [1, 4, 13])
async def test_a_topic_is_created_if_the_client_allows_it(tmp_path: Path, version: int) -> None:
    world = await AdminWorld(tmp_path, num_partitions=3).start()
    new, bad = await asked(world, named("new"), named("a b"), version=version, create=True)
    assert (new.error_code, len(new.partitions)) == (ErrorCode.NONE, 3)
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert list(world.snapshot.topics) == ["new"]


async def test_no_topic_is_created_if_the_broker_forbids_it(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path, auto_create_topics_enable=False).start()
    [result] = await asked(world, named("new"), create=True)
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not world.snapshot.topics


async def test_a_topic_that_can_not_be_created_has_the_reason(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("a.b")
    [result] = await asked(world, named("a_b"), create=True)
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_the_offsets_topic_is_internal_and_created_as_such(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path, offsets_topic_num_partitions=7).start()
    [result] = await asked(world, named(OFFSETS_TOPIC), create=True)
    assert (result.is_internal, len(result.partitions)) == (True, 7)
    assert world.snapshot.topics[OFFSETS_TOPIC].configs["cleanup.policy"] == "compact"


async def test_authorized_operations_are_returned_on_request(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("orders")
    plain = await world.ask(MetadataRequest(topics=None), MetadataResponse, 10)
    full = await world.ask(
        MetadataRequest(
            topics=None,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        MetadataResponse,
        10,
    )
    assert plain.cluster_authorized_operations == plain.topics[0].topic_authorized_operations == NOT_ASKED
    assert (full.cluster_authorized_operations, full.topics[0].topic_authorized_operations) == (8096, 3576)


async def test_a_prepared_answer_is_not_reused_for_newer_metadata(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("a")
    await asked(world, named("a"))
    await world.ask(MetadataRequest(topics=None), MetadataResponse)
    lost = TopicState("a", uuid4(), (PartitionState(0, -1, 1, (1,), ()),))
    await update(world.store, lambda _: Mutation(put=(lost,)))
    [topic] = await asked(world, named("a"))
    assert topic.partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (await world.ask(MetadataRequest(topics=None), MetadataResponse)).topics == (topic,)


async def test_a_replica_on_a_missing_broker_is_offline_and_does_not_lead(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    gone = PartitionState(0, 2, 5, (2, 1, 3), (2, 1))
    here = PartitionState(1, 1, 5, (1, 2), (1,), elr=(2,))
    await update(world.store, lambda _: Mutation(put=(TopicState("a", uuid4(), (gone, here)),)))
    [topic] = await asked(world, named("a"))
    assert [
        (each.error_code, each.leader_id, each.leader_epoch, each.isr_nodes, each.offline_replicas)
        for each in topic.partitions
    ] == [
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, 5, (2, 1), (2, 3)),
        (ErrorCode.NONE, 1, 5, (1,), (2,)),
    ]
    described = await world.ask(
        DescribeTopicPartitionsRequest(
            topics=(DescribeTopicPartitionsRequestTopicRequest(name="a"),), response_partition_limit=10
        ),
        DescribeTopicPartitionsResponse,
    )
    assert [
        (each.error_code, each.leader_id, each.offline_replicas, each.eligible_leader_replicas)
        for each in described.topics[0].partitions
    ] == [(ErrorCode.LEADER_NOT_AVAILABLE, -1, (2, 3), ()), (ErrorCode.NONE, 1, (2,), (2,))]


async def test_the_answer_for_all_topics_is_encoded_once_for_each_version(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("a")
    message = MetadataRequest(topics=None)

    def answer() -> Prepared[MetadataResponse]:
        answered = handle(
            world.administration,
            message,
            cast("Request", SimpleNamespace(version=12, connection=world.connection)),
        )
        assert isinstance(answered, Prepared)
        return answered

    first, again = answer().encode_parts(12), answer().encode_parts(12)
    assert first[0] is again[0]
    first.insert(0, b"the transport puts its head before it")
    assert len(answer().encode_parts(12)) == 1
    for version in (9, 12):
        [body] = answer().encode_parts(version)
        assert isinstance(body, bytes)
        assert MetadataResponse.decode(body, version).topics[0].name == "a"


# -- versions and brokers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
async def test_the_versions_are_those_of_the_handlers(tmp_path: Path, version: int) -> None:
    world = await AdminWorld(tmp_path).start()
    request = ApiVersionsRequest(client_software_name="kafka-python", client_software_version="3.0.12")
    answer = await world.ask(request, ApiVersionsResponse, version)
    assert answer.error_code == ErrorCode.NONE
    assert [each.api_key for each in answer.api_keys] == sorted(MODULES)
    assert all(each.min_version <= each.max_version for each in answer.api_keys)
    assert world.connection.client_software == ("kafka-python 3.0.12" if version >= 3 else "")


@pytest.mark.parametrize("name, number", [("", "1"), ("a b", "1"), ("-x", "1"), ("x", ""), ("é", "1")])
async def test_software_needs_a_name_and_a_version(tmp_path: Path, name: str, number: str) -> None:
    world = await AdminWorld(tmp_path).start()
    request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
    answer = await world.ask(request, ApiVersionsResponse, 3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, ())


@pytest.mark.parametrize(
    "cluster_id, node_id, code",
    [
        ("cluster", 1, ErrorCode.NONE),
        (None, 9, ErrorCode.NONE),
        ("other", -1, ErrorCode.NONE),
        ("other", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("cluster", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
async def test_a_client_of_another_broker_must_bootstrap_again(
    tmp_path: Path, cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    world = await AdminWorld(tmp_path).start()
    request = ApiVersionsRequest(
        client_software_name="x", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    assert (await world.ask(request, ApiVersionsResponse, 5)).error_code == code


async def test_a_single_broker_describes_its_cluster_without_a_controller(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    answer = await world.ask(
        DescribeClusterRequest(include_cluster_authorized_operations=True), DescribeClusterResponse
    )
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 1)
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(1, "localhost", 9092)]
    assert answer.cluster_authorized_operations == 8096
    for kind, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)
        assert (await world.ask(request, DescribeClusterResponse)).error_code == code


# -- pages of partitions ------------------------------------------------------------------------------------


Page = tuple[list[tuple[str | None, int, list[int]]], tuple[str, int] | None]


async def page(
    world: AdminWorld, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Page:
    request = DescribeTopicPartitionsRequest(
        topics=tuple(DescribeTopicPartitionsRequestTopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None
        if cursor is None
        else DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = await world.ask(request, DescribeTopicPartitionsResponse)
    after = answer.next_cursor
    return [
        (topic.name, topic.error_code, [each.partition_index for each in topic.partitions])
        for topic in answer.topics
    ], None if after is None else (after.topic_name, after.partition_index)


async def test_pages_go_through_all_partitions_in_the_order_of_names(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("b", 3)
    await world.create("a", 2)
    seen: list[tuple[str | None, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(3):
        topics, cursor = await page(world, limit=2, cursor=cursor)
        seen += [(name, index) for name, _, indexes in topics for index in indexes]
    assert cursor is None
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]


async def test_pages_are_cut_as_kafka_cuts_them(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("m", 2)
    await world.create("c", 3)
    assert await page(world, "m", "c", limit=3) == ([("c", 0, [0, 1, 2])], ("m", 0))
    assert await page(world, "m", limit=0) == ([("m", 0, [0])], ("m", 1))
    assert await page(world, "m", "c", limit=1, cursor=("m", 1)) == ([("m", 0, [1])], None)
    assert await page(world, "m", cursor=("m", 9)) == ([("m", 0, [])], None)
    assert await page(world, cursor=("d", 0)) == ([("m", 0, [0, 1])], None)
    assert await page(world, "nope", "a b") == ([("a b", 17, []), ("nope", 3, [])], None)
    refused: list[tuple[str | None, int, list[int]]] = [
        ("c", ErrorCode.INVALID_REQUEST, []),
        ("m", ErrorCode.INVALID_REQUEST, []),
    ]
    assert await page(world, "m", "c", cursor=("gone", 0)) == (refused, None)
    assert await page(world, "m", "c", cursor=("m", -1)) == (refused, None)


# -- folders ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 6))
async def test_log_dirs_report_the_bytes_of_each_partition(tmp_path: Path, version: int) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("orders", 2)
    (tmp_path / "orders-1").mkdir()
    for name in ("00000000000000000000.log", "00000000000000000005.log", "00000000000000000005.index"):
        (tmp_path / "orders-1" / name).write_bytes(b"12345")
    for topics in (None, (DescribableLogDirTopic(topic="orders", partitions=(0, 1, 9)),)):
        answer = await world.ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, version)
        [folder] = answer.results
        [topic] = folder.topics
        assert (folder.log_dir, folder.error_code, topic.name) == (str(tmp_path), 0, "orders")
        assert [(each.partition_index, each.partition_size) for each in topic.partitions] == [(0, 0), (1, 10)]
        if version >= 4:
            assert folder.total_bytes >= folder.usable_bytes > 0
    unknown = DescribeLogDirsRequest(topics=(DescribableLogDirTopic(topic="nope", partitions=(0,)),))
    assert (await world.ask(unknown, DescribeLogDirsResponse, version)).results[0].topics == ()
