"""What a part of a partition says, read without a group."""

from collections.abc import AsyncIterator

from kohort.client.aio import Consumer
from kohort.client.errors import BrokerError
from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.protocol.errors import ErrorCode

POLL_MS = 1_000
Reader = Consumer[bytes, bytes]


async def partitions_if_any(reader: Reader, topic: str) -> tuple[TopicPartition, ...]:
    """Return the topic's partitions, none where it does not exist. Raises: KohortError."""
    try:
        return await reader.partitions_for(topic)
    except BrokerError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return ()


async def scan(
    reader: Reader, partition: TopicPartition, begin: int, end: int
) -> AsyncIterator[ConsumerRecord[bytes, bytes]]:
    """Yield the records from `begin` up to `end`, those that are still there. Raises: KohortError."""
    if begin >= end:
        return
    reader.assign(partition)
    reader.seek(partition, begin)
    while await reader.position(partition) < end:
        for record in await reader.poll(timeout_ms=POLL_MS):
            if record.offset >= end:
                return
            if record.offset >= begin:
                yield record
