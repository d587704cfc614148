"""Due records written again, or to the dead letters, and their end markers: one partition at a time."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from kohort.client.aio import Consumer, Delivery, Producer
from kohort.client.errors import KohortError
from kohort.client.values import ConsumerRecord, TopicPartition
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


@dataclass(slots=True)
class Outcome:
    """What came of a batch: counts, and the offsets whose fate is not known."""

    counters: TrackerCounters = NONE
    unknown: list[int] = field(default_factory=list)


class Redeliverer:
    """Writes what is due, with one producer, and reads it with one consumer that is in no group."""

    def __init__(self, queue: Queue, reader: Consumer[bytes, bytes], producer: Producer) -> None:
        self._queue = queue
        self._reader = reader
        self._producer = producer

    async def redeliver(self, partition: int, due: Sequence[int], suspects: Sequence[int]) -> Outcome:
        """Return what came of delivering these again; `suspects` may have been before.

        Whatever fails, nothing is lost: what is not known to be done stays open.
        """
        done = Outcome()
        where = TopicPartition(self._queue.topic, partition)
        try:
            before = await copied(self._reader, where, suspects)
            wanted = [each for each in due if each not in before]
            records = await read_offsets(self._reader, where, wanted)
            gone = [each for each in wanted if each not in records]
            sent = [(each, await self._send(each)) for each in records.values()]
        except KohortError as error:
            logger.warning("%s record(s) of %s could not be delivered again yet: %s", len(due), where, error)
            done.unknown = list(due)
            return done
        for offset in gone:
            logger.warning("the record of %s at %s was due again, and is gone from the topic", where, offset)
        done.counters += TrackerCounters(vanished=len(gone))
        await self._settle(where, sent, done)
        await self._end(partition, [*before, *gone, *(each.offset for each, _ in sent)], done)
        return done

    async def _send(self, record: ConsumerRecord[bytes, bytes]) -> Delivery:
        count = redelivery_count(record, self._queue)
        if may_be_redelivered(record, self._queue):
            return await self._producer.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=headers_of_copy(record, self._queue),
            )
        why = f"delivered {count + 1} times, and never acknowledged in time"
        return await self._producer.send(
            self._queue.dead_letters_topic,
            record.value,
            key=record.key,
            headers=headers_of_dead_letter(record, why),
        )

    async def _settle(
        self, where: TopicPartition, sent: list[tuple[ConsumerRecord[bytes, bytes], Delivery]], done: Outcome
    ) -> None:
        for record, delivery in sent:
            try:
                written = await delivery
            except KohortError as error:
                logger.warning("the record of %s at %s was not written: %s", where, record.offset, error)
                done.unknown.append(record.offset)
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
        unknown = set(done.unknown)
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
