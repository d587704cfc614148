"""Dead letters and stashed records brought back, or given up, by command."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack

from kohort.client.aio import Consumer, Producer
from kohort.client.config import ConsumerOptions
from kohort.client.consumer_records import PolledOffsets
from kohort.client.errors import KohortError
from kohort.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition
from kohort.queues.copying import is_too_large, write_compressed
from kohort.queues.forward.envelope import Envelope, envelope_of, with_envelope
from kohort.queues.forward.settings import Destination
from kohort.queues.options import consumer_options, producer_options
from kohort.queues.scanning import Reader, scan

BATCH = 500


@dataclass(frozen=True, slots=True)
class _Part:
    """What was not brought back yet of one partition."""

    partition: TopicPartition
    begin: int
    end: int


async def replay(destination: Destination, topic: str, **options: Unpack[ConsumerOptions]) -> int:
    """Return how many records of the topic of dead letters, or of stashed ones, are pushed once more.

    They go to the destination's first retry topic, due at once and as if they had never been pushed; other
    groups of the topic hear nothing of it. What was brought back is committed, and does not come twice.
    Raises: KohortError.
    """
    written = 0
    async with (
        _unread(destination, topic, options) as (reader, parts, number),
        Producer(**producer_options(options)) as producer,
    ):
        for part in parts:
            batch: list[ConsumerRecord[bytes, bytes]] = []
            reader.resume(part.partition)
            async for record in scan(reader, part.partition, part.begin, part.end, assignment_number=number):
                batch.append(record)
                if len(batch) >= BATCH:
                    written += await _write_all(destination, batch, producer, options)
                    batch.clear()
                    await reader.commit(_offset(part, record.offset + 1, number))
            written += await _write_all(destination, batch, producer, options)
            reader.pause(part.partition)
            await reader.commit(_offset(part, part.end, number))
    return written


def _offset(part: _Part, offset: int, assignment_number: int) -> PolledOffsets:
    """Return an offset that is committed only for the topic that the partition belonged to at first."""
    return PolledOffsets({part.partition: OffsetAndMetadata(offset)}, assignment_number)


async def _write_all(
    destination: Destination,
    batch: Sequence[ConsumerRecord[bytes, bytes]],
    producer: Producer,
    options: ConsumerOptions,
) -> int:
    """Return how many were written to the first retry topic: all of them, and kept. Raises: KohortError."""
    topic = destination.retry_topics[0]
    sent = []
    for record in batch:
        origin = envelope_of(record, destination.topic).origin
        headers = with_envelope(record, Envelope(0, 0, origin), "replayed")
        delivery = await producer.send(topic, record.value, key=record.key, headers=headers)
        sent.append((record, headers, delivery))
    for record, headers, delivery in sent:
        try:
            await delivery
        except KohortError as error:
            if not is_too_large(error):
                raise
            await write_compressed(
                producer_options(options), topic, record.value, key=record.key, headers=headers
            )
    return len(sent)


async def purge(destination: Destination, topic: str, **options: Unpack[ConsumerOptions]) -> int:
    """Return how many offsets are given up: they stay in the topic, and are never brought back.

    Raises: KohortError.
    """
    async with _unread(destination, topic, options) as (reader, parts, number):
        ends = {each.partition: OffsetAndMetadata(each.end) for each in parts}
        if ends:
            await reader.commit(PolledOffsets(ends, number))
    return sum(each.end - each.begin for each in parts)


@asynccontextmanager
async def _unread(
    destination: Destination, topic: str, options: ConsumerOptions
) -> AsyncIterator[tuple[Reader, list[_Part], int]]:
    """Open a reader; give the parts of the topic that are not replayed yet, and their assignment number."""
    settings = consumer_options(options, f"{destination.group_id}__replay")
    settings["fetch_max_wait_ms"] = 20
    async with Consumer(**settings) as reader:
        partitions = await reader.partitions_for(topic)
        reader.assign(*partitions)  # First: the offsets that are looked up below are bound to this topic.
        reader.pause(*partitions)
        number = (await reader.poll(timeout_ms=0)).assignment_number
        kept = await reader.committed(*partitions)
        begins, ends = await reader.beginning_offsets(*partitions), await reader.end_offsets(*partitions)
        parts = []
        for each in partitions:
            found = kept[each]
            begin = max(begins[each], 0 if found is None else found.offset)
            if begin < ends[each]:
                parts.append(_Part(each, begin, ends[each]))
        yield reader, parts, number
