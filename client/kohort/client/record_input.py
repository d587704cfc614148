"""A record as the user gives it, made into bytes."""

import time
from typing import NamedTuple, cast

from kohort.client.batch import Headers
from kohort.client.config import ProducerConfig, Serializer
from kohort.client.errors import PartitionerError, SerializationError
from kohort.client.partitioner import Partitioner


class Record(NamedTuple):
    """What goes to the accumulator, in the order of its arguments."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int
    headers: Headers


class RecordInput:
    """Serializers and partitioner of one producer."""

    def __init__(self, config: ProducerConfig) -> None:
        self._key = cast("Serializer | None", config.key_serializer)  # The settings were checked.
        self._value = cast("Serializer | None", config.value_serializer)
        self.partitioner = cast("Partitioner | None", config.partitioner)
        self.is_plain = self._key is None and self._value is None and self.partitioner is None

    def record(  # noqa: PLR0917  # As `send` has them.
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Record:
        """Return the record as it will be sent.

        Raises: TypeError for a key or value that is not bytes, SerializationError from a serializer.
        """
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        key_bytes = _to_bytes("key", key, self._key, topic)
        value_bytes = _to_bytes("value", value, self._value, topic)
        return Record(topic, value_bytes, key_bytes, partition, timestamp_ms, headers)

    def partition(self, record: Record, partition_count: int) -> Record:
        """Return the record with the partition that the user's own partitioner chooses.

        Raises: PartitionerError for one that does not exist.
        """
        if self.partitioner is None or record.partition is not None:
            return record
        chosen = self.partitioner(record.topic, record.key, record.value, partition_count)
        if not 0 <= chosen < partition_count:
            raise PartitionerError(
                f"the partitioner chose {chosen!r} for {record.topic!r}, which has partitions 0 to"
                f" {partition_count - 1}"
            )
        return record._replace(partition=chosen)


def _to_bytes(what: str, given: object, serializer: Serializer | None, topic: str) -> bytes | None:
    if given is None:
        return None
    if serializer is not None:
        try:
            given = serializer(given)
        except Exception as error:
            words = f"{what}_serializer failed for a record of {topic!r}: {error!r}"
            raise SerializationError(words) from error
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    hint = ""
    if isinstance(given, str):
        hint = f"; encode it: {what}=text.encode(), or give the producer a {what}_serializer"
    raise TypeError(f"a record's {what} is bytes or None, not {type(given).__name__}{hint}")
