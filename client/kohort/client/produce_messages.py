"""Produce requests from batches, and the results of each batch in an answer."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from kohort.client.batch import Batch, Codec
from kohort.client.config import ProducerConfig
from kohort.client.partition_queue import PartitionQueue
from kohort.client.values import TopicPartition
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.schema import ZERO_UUID

NAMES_IN_PRODUCE = 12  # The newest version that names topics; later ones have their ids alone.


class QueuedBatch(NamedTuple):
    """A batch in flight, with its queue."""

    queue: PartitionQueue
    batch: Batch


Load = list[QueuedBatch]
"""What travels in one request: a batch of each partition at most."""


def produce_request(
    load: Load, topic_ids: Mapping[str, UUID], codec: Codec, config: ProducerConfig
) -> ProduceRequest:
    """Return the request that carries these batches."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for queue, batch in load:
        data = PartitionProduceData(index=queue.partition.partition, records=batch.to_bytes(codec))
        topics.setdefault(queue.partition.topic, []).append(data)
    return ProduceRequest(
        transactional_id=config.transactional_id,
        acks=config.required_acks,
        timeout_ms=config.request_timeout_ms,
        topic_data=tuple(
            TopicProduceData(
                name=topic, topic_id=topic_ids.get(topic, ZERO_UUID), partition_data=tuple(partitions)
            )
            for topic, partitions in topics.items()
        ),
    )


def read_answers(
    load: Load, topic_ids: Mapping[str, UUID], response: ProduceResponse
) -> Iterator[tuple[QueuedBatch, PartitionProduceResponse | None]]:
    """Yield each batch with its result, None if the answer lacks it."""
    names = {topic_id: topic for topic, topic_id in topic_ids.items()}
    answers = {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), each.index): each
        for topic in response.responses
        for each in topic.partition_responses
    }
    for queued_batch in load:
        yield queued_batch, answers.get(queued_batch.queue.partition)
