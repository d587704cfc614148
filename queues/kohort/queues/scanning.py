"""What a part of a partition says, read without a group."""

from collections.abc import AsyncIterator

from kohort.client.aio import Consumer
from kohort.client.errors import BrokerError, CommitFailedError
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
    reader: Reader, partition: TopicPartition, begin: int, end: int, *, assignment_number: int | None = None
) -> AsyncIterator[ConsumerRecord[bytes, bytes]]:
    """Yield the records from `begin` up to `end` that still exist.

    With an `assignment_number` the reader keeps its assignment, and `begin` and `end` are offsets of the
    topic that had the name when the reader polled with that number.
    Raises: CommitFailedError if the topic was deleted and created again since; KohortError.
    """
    if begin >= end:
        return
    if assignment_number is None:
        reader.assign(partition)
    reader.seek(partition, begin)
    while await reader.position(partition) < end:
        records = await reader.poll(timeout_ms=POLL_MS)
        if assignment_number is not None and records.assignments.has_come_since(partition, assignment_number):
            raise CommitFailedError(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"{partition} was not read to its end: the topic was deleted since, and created again",
                (partition,),
            )
        for record in records:
            if record.offset >= end:
                return
            if record.offset >= begin:
                yield record
