"""Reads all that partitions have, without a group."""

from typing import Any

from kohort.client import TopicPartition, aio


async def read_to_end(consumer: aio.Consumer, *partitions: TopicPartition) -> list[Any]:
    """Return the records that are there, those of a partition in their order. Raises: KohortError."""
    consumer.assign(*partitions)
    ends = await consumer.end_offsets(*partitions)
    consumer.seek_to_beginning(*partitions)
    found: list[Any] = []
    while any([await consumer.position(each) < ends[each] for each in partitions]):
        found += await consumer.poll(timeout_ms=1_000)
    return found
