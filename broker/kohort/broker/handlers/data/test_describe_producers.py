from pathlib import Path

import pytest

from kohort.broker.handlers.data import describe_producers
from kohort.broker.partitions.test_support import World, append_produced, batch_of
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopicRequest,
    PartitionResponse,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ask(world: World, topic: str = "t") -> PartitionResponse:
    topics = (DescribeProducersRequestTopicRequest(name=topic, partition_indexes=(0,)),)
    message = DescribeProducersRequest(topics=topics)
    answer = describe_producers.handle(world.family, message, world.request("DescribeProducers"))
    answer.encode(0)
    return answer.topics[0].partitions[0]


def test_producers_are_shown_with_their_last_sequence(world: World) -> None:
    world.create("t")
    batch = batch_of(b"a", b"b", timestamp_ms=5, producer_id=7, producer_epoch=2, base_sequence=0)
    append_produced(world.partition("t"), batch, 5)
    (producer,) = ask(world).active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset, producer.coordinator_epoch) == (
        5,
        -1,
        -1,
    )


def test_unknown_partition_has_an_error(world: World) -> None:
    assert ask(world).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_is_named_again_and_again_is_answered_once(world: World) -> None:
    world.create("t", 2)
    topic = DescribeProducersRequestTopicRequest(name="t", partition_indexes=(0, 1, 0))
    message = DescribeProducersRequest(topics=(topic,) * 100)
    answer = describe_producers.handle(world.family, message, world.request("DescribeProducers"))
    assert [[each.partition_index for each in topic.partitions] for topic in answer.topics] == [[0, 1]]
