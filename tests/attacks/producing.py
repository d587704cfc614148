"""Topics to attack, and what is produced to them."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import Compression, compress, seal_batch
from tests.attacks.wire import Line

PRODUCE_VERSION = 9  # The newest but one kind: topics by name, flexible.
FETCH_VERSION = 11


def now_ms() -> int:
    """Return the time that a producer would put into its records."""
    return int(time.time() * 1000)


def creatable(name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> CreatableTopic:
    """Return what CreateTopics asks for."""
    wanted = tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items())
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=wanted
    )


def create(line: Line, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    """Create a topic, which has to succeed."""
    request = CreateTopicsRequest(topics=(creatable(name, partitions, configs),))
    answer = line.ask(request, CreateTopicsResponse)
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE], answer


def producing(topic: str, batch: bytes, *, acks: int = -1, partition: int = 0) -> ProduceRequest:
    """Return a request to append these bytes."""
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
    )


def produce(line: Line, topic: str, batch: bytes) -> int | None:
    """Return the error code, or None where the connection was lost instead."""
    answer = line.ask_or_lose(producing(topic, batch), ProduceResponse, PRODUCE_VERSION)
    if answer is None:
        return None
    [code] = [each.error_code for topic in answer.responses for each in topic.partition_responses]
    return code


def batch_of(payload: bytes, record_count: int, codec: Compression, *, plain: bool = True) -> bytes:
    """Return a batch with this payload, compressed first unless it is so already; its CRC is right."""
    stamp = now_ms()
    return seal_batch(
        compress(codec, payload) if plain else payload,
        record_count=record_count,
        base_timestamp_ms=stamp,
        max_timestamp_ms=stamp,
        compression=codec,
    )


def fetching(topic: str, offset: int = 0, *, max_wait_ms: int = 0, partition: int = 0) -> FetchRequest:
    """Return a request for a megabyte from there."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        topics=(FetchTopic(topic=topic, partitions=(wanted,)),),
        forgotten_topics_data=(),
    )
