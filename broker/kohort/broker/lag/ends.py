"""Where partitions end that this broker leads, and what is asked of those that other brokers lead."""

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
    """From where on a partition is to be read."""

    topic: str
    partition: int
    offset: int


class Ends(NamedTuple):
    """What of a partition can be read now."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int

    def before(self, offset: int) -> int:
        """Return the end for a group that has read up to `offset`.

        Records of open transactions count for those alone that have read some, and so read uncommitted ones.
        """
        return self.last_stable_offset if offset <= self.last_stable_offset else self.high_watermark


Found = tuple[Ends, FirstRecord]


class LocalEnds:
    """The partitions that this broker leads. The loop's thread only."""

    def __init__(self, partitions: PartitionTable, workers: Workers) -> None:
        self._partitions = partitions
        self._workers = workers

    async def open(self, partitions: Iterable[TopicPartition]) -> None:
        """Open the logs that nobody has used since the start: their ends are not known before."""
        for topic, index in partitions:
            partition = self._partitions.peek(topic, index)
            if partition is not None and not partition.opened:
                try:
                    await self._partitions.opened(topic, index)
                except StorageError:
                    continue  # It is offline, which is said elsewhere.

    def ends(self, topic: str, index: int) -> Ends | None:
        """Return the ends; None where another broker leads, or nobody knows the end yet."""
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
            return None  # An earlier leader may have shown more (KIP-207).
        return partition

    def holds_markers(self, topic: str, index: int) -> bool:
        """Return whether a partition may end with what no consumer is given, even while it is written to."""
        partition = self._partitions.peek(topic, index)
        log = None if partition is None else partition.serving_log
        if partition is None or log is None:
            return False
        if log.aborted_transactions or "compact" in partition.config.cleanup_policy:
            return True
        producers = islice(log.producers.items(), PRODUCERS_LOOKED_AT)
        return any(state.coordinator_epoch >= 0 for _, state in producers)

    async def first_records(self, positions: Sequence[Position]) -> list[FirstRecord | None]:
        """Return the first record from each position on, None where another broker leads. Reads the disk."""
        work: list[Work | None] = []
        for topic, index, offset in positions:
            ends, partition = self.ends(topic, index), self._led(topic, index)
            work.append(
                None if ends is None or partition is None else (partition.log, offset, ends.before(offset))
            )
        return await self._workers.in_thread(first_records, work)

    async def found(self, positions: Sequence[Position]) -> list[Found | None]:
        """Return all that can be told of each position."""
        ends = [self.ends(topic, index) for topic, index, _ in positions]
        firsts = await self.first_records(positions)
        return [
            None if each is None or first is None else (each, first)
            for each, first in zip(ends, firsts, strict=True)
        ]


class EndsElsewhere(Protocol):
    """The partitions that other brokers lead, as these told them last."""

    def leader(self, topic: str, index: int, /) -> int | None:
        """Return which other broker leads; None where this one leads, or nobody."""
        ...

    def is_silent(self, leader: int, /) -> bool:
        """Return whether this broker did not answer just now."""
        ...

    def ends(self, topic: str, index: int, /) -> Ends | None:
        """Return what was told last, unless that was too long ago."""
        ...

    def age_ms(self, topic: str, index: int, /) -> int | None:
        """Return how long ago the leader has told the ends, None where it has not."""
        ...

    def keep_only(self, partitions: Iterable[TopicPartition], /) -> None:
        """Forget what was told of all other partitions."""
        ...

    async def ask_all(
        self, asked: Mapping[int, Sequence[Position]], /
    ) -> Mapping[int, Sequence[FirstRecord | None]]:
        """Return what each leader tells of these positions; those who do not answer in time are left out."""
        ...


class NoneElsewhere:
    """What a broker alone has in place of `RemoteEnds`: no other broker leads anything."""

    def leader(self, _topic: str, _index: int) -> None:
        """Return None: this broker leads everything."""

    def is_silent(self, _leader: int) -> bool:
        """Return False: there is nobody to ask."""
        return False

    def ends(self, _topic: str, _index: int) -> None:
        """Return None: nobody told anything."""

    def age_ms(self, _topic: str, _index: int) -> None:
        """Return None: nobody told anything."""

    def keep_only(self, _partitions: Iterable[TopicPartition]) -> None:
        """Forget nothing."""

    async def ask_all(self, _asked: Mapping[int, Sequence[Position]]) -> Mapping[int, Sequence[FirstRecord]]:
        """Return nothing: there is nobody to ask."""
        return {}
