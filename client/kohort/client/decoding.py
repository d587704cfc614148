"""A partition's batches as lists of what its consumer gets."""

from functools import partial

from kohort.client.values import ConsumerRecord, Headers, TimestampType, TopicPartition
from kohort.protocol.records import BatchHeader
from kohort.protocol.records.decoding import RecordLists


class PartitionRecords:
    """Reads a partition's batches, one after the other, into lists."""

    __slots__ = ("_lists", "_partition")

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._lists = RecordLists[ConsumerRecord](partial(ConsumerRecord, *partition))

    def read(self, header: BatchHeader, data: bytes, records: list[ConsumerRecord]) -> None:
        """Add the records of a batch, of which `data` is the plain payload.

        Raises: WireError; the records added until then must not be used.
        """
        lists = self._lists if not header.has_log_append_time else self._appended_at(header.max_timestamp)
        lists.read(header, data, records)

    def _appended_at(self, append_timestamp_ms: int) -> RecordLists[ConsumerRecord]:
        """Return what reads a batch whose broker's time is that of all its records."""
        topic, number = self._partition

        def make(
            offset: int, _: int, key: bytes | None, value: bytes | None, headers: Headers, leader_epoch: int
        ) -> ConsumerRecord:
            append_time = TimestampType.LOG_APPEND_TIME
            return ConsumerRecord(
                topic, number, offset, append_timestamp_ms, key, value, headers, leader_epoch, append_time
            )

        return RecordLists(make)
