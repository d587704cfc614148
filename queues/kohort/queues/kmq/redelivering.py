"""Due records written again, or to the dead letters, and their end markers: one partition at a time.

What may take long, reading, comes first. Then the tracker proves that the partition is its own, and only then
is written, by a producer that gives up before anybody else could have the partition. So no copy is written
beside a successor's.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kohort.client.aio import Consumer, Delivery, Producer
from kohort.client.config import ProducerOptions
from kohort.client.errors import KohortError
from kohort.client.values import ConsumerRecord, Headers, RecordMetadata, TopicPartition
from kohort.queues.copying import is_too_large, write_compressed
from kohort.queues.kmq.copies import (
    headers_of_copy,
    headers_of_dead_letter,
    may_be_redelivered,
    redelivery_count,
)
from kohort.queues.kmq.counters import NONE, TrackerCounters
from kohort.queues.kmq.markers import END, MarkerKey
from kohort.queues.kmq.queue import Queue
from kohort.queues.kmq.reading import copied, read_offsets

logger = logging.getLogger(__name__)

AT_ONCE = 32  # So many records are in memory, however large they are.


@dataclass(slots=True)
class Outcome:
    """What came of a batch: counts, offsets whose fate is not known, and those that no topic takes as yet."""

    counters: TrackerCounters = NONE
    unknown: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Copy:
    """Where a record is written again: to a partition of its topic, or to the dead letters."""

    topic: str
    partition: int | None
    headers: Headers


IsOurs = Callable[[], Awaitable[bool]]


class Redeliverer:
    """Writes what is due, with one producer, and reads it with one consumer that is in no group.

    `options` are the producer's: where a record is too large as it is, another one has them, too.
    """

    def __init__(
        self, queue: Queue, reader: Consumer[bytes, bytes], producer: Producer, options: ProducerOptions
    ) -> None:
        self._queue = queue
        self._reader = reader
        self._producer = producer
        self._options = options

    async def redeliver(
        self, partition: int, due: Sequence[int], suspects: Sequence[int], is_ours: IsOurs
    ) -> Outcome:
        """Return what came of delivering these again; `suspects` may have been before.

        `is_ours` proves that the partition is ours, and for how much longer it will be.

        Whatever fails, nothing is lost: what is not known to be done stays open.
        """
        done = Outcome()
        where = TopicPartition(self._queue.topic, partition)
        try:
            before = await copied(self._reader, where, suspects)
        except KohortError as error:
            logger.warning("%s record(s) of %s could not be delivered again yet: %s", len(due), where, error)
            done.unknown = list(due)
            return done
        await self._end(partition, list(before), done)
        wanted = [each for each in due if each not in before]
        for first in range(0, len(wanted), AT_ONCE):
            await self._deliver(where, wanted[first : first + AT_ONCE], done, is_ours)
            if done.unknown:  # Brokers are in trouble: the rest waits, and we are back in time for the group.
                done.unknown += wanted[first + AT_ONCE :]
                break
        return done

    async def _deliver(
        self, where: TopicPartition, wanted: Sequence[int], done: Outcome, is_ours: IsOurs
    ) -> None:
        """Write some again, and end markers for those that are kept."""
        try:
            records = await read_offsets(self._reader, where, wanted)
        except KohortError as error:
            logger.warning("%s record(s) of %s could not be read: %s", len(wanted), where, error)
            done.unknown += wanted
            return
        if not await is_ours():
            done.unknown += wanted
            return
        gone = [each for each in wanted if each not in records]
        for offset in gone:
            logger.warning("the record of %s at %s was due again, and is gone from the topic", where, offset)
        done.counters += TrackerCounters(vanished=len(gone))
        sent = [(each, await self._send(each, self._copies(each)[0])) for each in records.values()]
        await self._settle(where, sent, done, is_ours)
        await self._end(where.partition, [*gone, *records], done)

    def _copies(self, record: ConsumerRecord[bytes, bytes]) -> list[_Copy]:
        """Return what the record becomes: the first of these that is not too large for its topic."""
        if may_be_redelivered(record, self._queue):
            again = _Copy(record.topic, record.partition, headers_of_copy(record, self._queue))
            return [again, self._dead_letter(record, "too large to be written again with a count")]
        count = redelivery_count(record, self._queue)
        return [self._dead_letter(record, f"delivered {count + 1} times, and never acknowledged in time")]

    def _dead_letter(self, record: ConsumerRecord[bytes, bytes], why: str) -> _Copy:
        return _Copy(self._queue.dead_letters_topic, None, headers_of_dead_letter(record, why))

    async def _send(self, record: ConsumerRecord[bytes, bytes], copy: _Copy) -> Delivery | KohortError:
        """Return the delivery, or what is wrong with this record: others are none the worse for it."""
        try:
            return await self._producer.send(
                copy.topic, record.value, key=record.key, partition=copy.partition, headers=copy.headers
            )
        except KohortError as error:
            return error

    async def _written(
        self, record: ConsumerRecord[bytes, bytes], sent: Delivery | KohortError, is_ours: IsOurs
    ) -> RecordMetadata:
        """Return where the record was written, in whatever form it fits. Raises: KohortError."""
        try:
            return await self._known(sent)
        except KohortError as error:
            if not is_too_large(error):
                raise
            refusal = error
        for copy in self._copies(record):
            if not await is_ours():
                break
            try:
                return await write_compressed(
                    self._options,
                    copy.topic,
                    record.value,
                    key=record.key,
                    headers=copy.headers,
                    partition=copy.partition,
                )
            except KohortError as error:
                if not is_too_large(error):
                    raise
        raise refusal

    @staticmethod
    async def _known(sent: Delivery | KohortError) -> RecordMetadata:
        if isinstance(sent, KohortError):
            raise sent
        return await sent

    async def _settle(
        self,
        where: TopicPartition,
        sent: list[tuple[ConsumerRecord[bytes, bytes], Delivery | KohortError]],
        done: Outcome,
        is_ours: IsOurs,
    ) -> None:
        for record, delivery in sent:
            try:
                written = await self._written(record, delivery, is_ours)
            except KohortError as error:
                logger.warning("the record of %s at %s was not written: %s", where, record.offset, error)
                (done.refused if is_too_large(error) else done.unknown).append(record.offset)
                continue
            is_dead = written.topic == self._queue.dead_letters_topic
            done.counters += TrackerCounters(redelivered=int(not is_dead), dead=int(is_dead))
            logger.info(
                "the record of %s at %s %s at %s-%s",
                where,
                record.offset,
                "is dead:" if is_dead else "comes again:",
                f"{written.topic}-{written.partition}",
                written.offset,
            )

    async def _end(self, partition: int, offsets: list[int], done: Outcome) -> None:
        """Write end markers for all whose copies are kept."""
        unknown = {*done.unknown, *done.refused}
        markers = []
        try:
            for offset in offsets:
                if offset not in unknown:
                    key = MarkerKey(partition, offset).encode()
                    topic = self._queue.markers_topic
                    marker = await self._producer.send(topic, END, key=key, partition=partition)
                    markers.append((offset, marker))
        except KohortError as error:
            logger.warning("end markers of %s could not be written: %s", self._queue.topic, error)
            done.unknown += [each for each in offsets if each not in dict(markers) and each not in unknown]
        for offset, marker in markers:
            try:
                await marker
            except KohortError as error:
                logger.warning("the end marker of %s at %s was not written: %s", partition, offset, error)
                done.unknown.append(offset)
