"""The start and end offsets of partitions that this broker leads, and those of other brokers."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from kohort.broker.lag.first_record import FirstRecord, Work, first_records
from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.runtime.workers import Workers
from kohort.storage import StorageError

PRODUCERS_LOOKED_AT = 16

TopicPartition = tuple[str, int]
"""A topic's name and a partition."""


class Position(NamedTuple):
    """An offset from which a partition is read."""

    topic: str
    partition: int
    offset: int


class Ends(NamedTuple):
    """The readable range of a partition."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int

    def before(self, offset: int) -> int:
        """Return the end for a group with the committed `offset`.

        Records of open transactions count only for groups that have read some of them: these read
        uncommitted.
        """
        return self.last_stable_offset if offset <= self.last_stable_offset else self.high_watermark


Found = tuple[Ends, FirstRecord]


class LocalEnds:
    """The partitions that this broker leads. The loop's thread only."""

    def __init__(self, partitions: PartitionTable, workers: Workers) -> None:
        self._partitions = partitions
        self._workers = workers

    async def open(self, partitions: Iterable[TopicPartition]) -> None:
        """Open logs that are still closed since the start: their ends are not known before."""
        for topic, index in partitions:
            partition = self._partitions.peek(topic, index)
            if partition is not None and not partition.opened:
                try:
                    await self._partitions.opened(topic, index)
                except StorageError:
                    continue  # The log is offline, which is logged elsewhere.

    def ends(self, topic: str, index: int) -> Ends | None:
        """Return the ends, or None if another broker leads or the end is not known yet."""
        partition = self._led(topic, index)
        if partition is None:
            return None
        log, high_watermark = partition.log, partition.high_watermark
        return Ends(log.log_start_offset, partition.last_stable_offset, high_watermark)

    def _led(self, topic: str, index: int) -> Partition | None:
        partition = self._partitions.peek(topic, index)
        if partition is None or partition.resigned or partition.serving_log is None:
            return None
        if partition.leadership is not None and partition.leadership.latest_offset is None:
            return None  # An earlier leader may have exposed later offsets (KIP-207).
        return partition

    def holds_markers(self, topic: str, index: int) -> bool:
        """Return whether a partition may end with markers or batches that no consumer receives."""
        partition = self._partitions.peek(topic, index)
        log = None if partition is None else partition.serving_log
        if partition is None or log is None:
            return False
        if log.aborted_transactions or "compact" in partition.config.cleanup_policy:
            return True
        producers = islice(log.producers.items(), PRODUCERS_LOOKED_AT)
        return any(state.coordinator_epoch >= 0 for _, state in producers)

    async def first_records(self, positions: Sequence[Position]) -> list[FirstRecord | None]:
        """Return the first record from each position on, or None if another broker leads. Reads the disk."""
        work: list[Work | None] = []
        for topic, index, offset in positions:
            ends, partition = self.ends(topic, index), self._led(topic, index)
            work.append(
                None if ends is None or partition is None else (partition.log, offset, ends.before(offset))
            )
        return await self._workers.in_thread(first_records, work)

    async def found(self, positions: Sequence[Position]) -> list[Found | None]:
        """Return the ends and the first record of each position."""
        ends = [self.ends(topic, index) for topic, index, _ in positions]
        firsts = await self.first_records(positions)
        return [
            None if each is None or first is None else (each, first)
            for each, first in zip(ends, firsts, strict=True)
        ]


class EndsElsewhere(Protocol):
    """The partitions that other brokers lead, from their last answers."""

    def leader(self, topic: str, index: int, /) -> int | None:
        """Return the other broker that leads, or None if this broker or none leads."""
        ...

    def is_silent(self, leader: int, /) -> bool:
        """Return whether this broker has not answered recently."""
        ...

    def ends(self, topic: str, index: int, /) -> Ends | None:
        """Return the last known ends, unless they are too old."""
        ...

    def age_ms(self, topic: str, index: int, /) -> int | None:
        """Return the age of the last known ends, or None."""
        ...

    def keep_only(self, partitions: Iterable[TopicPartition], /) -> None:
        """Forget the ends of all other partitions."""
        ...

    async def ask_all(
        self, asked: Mapping[int, Sequence[Position]], /
    ) -> Mapping[int, Sequence[FirstRecord | None]]:
        """Ask each leader for its positions. The result has only leaders that answer in time."""
        ...


class NoneElsewhere:
    """Replaces `RemoteEnds` in a single broker: no other broker leads anything."""

    def leader(self, _topic: str, _index: int) -> None:
        """Return None: this broker leads everything."""

    def is_silent(self, _leader: int) -> bool:
        """Return False: there is no other broker."""
        return False

    def ends(self, _topic: str, _index: int) -> None:
        """Return None: there is no other broker."""

    def age_ms(self, _topic: str, _index: int) -> None:
        """Return None: there is no other broker."""

    def keep_only(self, _partitions: Iterable[TopicPartition]) -> None:
        """Do nothing."""

    async def ask_all(self, _asked: Mapping[int, Sequence[Position]]) -> Mapping[int, Sequence[FirstRecord]]:
        """Return an empty mapping: there is no other broker."""
        return {}
