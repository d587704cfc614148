"""What a part of a partition says, read without a group."""

from collections.abc import AsyncIterator

from kohort.client.aio import Consumer
from kohort.client.values import ConsumerRecord, TopicPartition

POLL_MS = 1_000
Reader = Consumer[bytes, bytes]


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
