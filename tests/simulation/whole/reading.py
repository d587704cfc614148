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


async def read_values(bootstrap: str, topic: str) -> set[str]:
    """Return the values in a topic's first partition. Raises: KohortError."""
    async with aio.Consumer(bootstrap_servers=bootstrap) as consumer:
        records = await read_to_end(consumer, TopicPartition(topic, 0))
    return {record.value.decode() for record in records}
