"""A record as the user gives it, made into bytes."""

import time
from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, NamedTuple, cast

from kohort.client.batch import Headers
from kohort.client.config import ProducerConfig, Serializer
from kohort.client.errors import PartitionerError, SerializationError
from kohort.client.partitioner import Partitioner

TIMESTAMP_MAX_MS = 2**63 - 1
Raw = bytes | bytearray | memoryview
"""Keys and values as they are sent where no serializer makes bytes of them."""
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K_contra = TypeVar("K_contra", contravariant=True, default=Raw)
    V_contra = TypeVar("V_contra", contravariant=True, default=Raw)
else:
    from typing import TypeVar

    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)
HeadersInput = Headers | Mapping[str, bytes | None] | None
"""Headers as a user may give them: pairs, or a mapping."""


class Record(NamedTuple):
    """What goes to the accumulator, in the order of its arguments."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp_ms: int
    headers: Headers
    is_chosen: bool = False  # The partition from the user's partitioner: it may choose another later.


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
        headers: HeadersInput,
    ) -> Record:
        """Return the record as it will be sent.

        Raises: TypeError for a key or value that is not bytes, SerializationError from a serializer; what
        `checked_timestamp` and `checked_headers` raise.
        """
        timestamp_ms = (
            time.time_ns() // 1_000_000 if timestamp_ms is None else checked_timestamp(timestamp_ms)
        )
        headers = checked_headers(headers) if headers else ()
        key_bytes = _to_bytes("key", key, self._key, topic)
        value_bytes = _to_bytes("value", value, self._value, topic)
        return Record(topic, value_bytes, key_bytes, partition, timestamp_ms, headers)

    def partition(self, record: Record, partition_count: int) -> Record:
        """Return the record with the partition that the user's own partitioner chooses.

        Raises: PartitionerError for a partition that does not exist.
        """
        if self.partitioner is None or record.partition is not None:
            return record
        chosen = self.partitioner(record.topic, record.key, record.value, partition_count)
        if not 0 <= chosen < partition_count:
            raise PartitionerError(
                f"the partitioner chose {chosen!r} for {record.topic!r}, which has partitions 0 to"
                f" {partition_count - 1}"
            )
        return record._replace(partition=chosen, is_chosen=True)


def checked_timestamp(timestamp_ms: int) -> int:
    """Return the time if a record can have it. Raises: TypeError, ValueError."""
    try:
        checked = index(timestamp_ms)
    except TypeError:
        kind = type(timestamp_ms).__name__
        raise TypeError(f"timestamp_ms is a whole number of milliseconds, not {kind}") from None
    if not 0 <= checked <= TIMESTAMP_MAX_MS:
        raise ValueError(f"timestamp_ms is {checked}: give milliseconds since 1970")
    return checked


def checked_headers(headers: HeadersInput) -> Headers:
    """Return a copy of the headers as they will be sent.

    Raises: TypeError for headers that are not pairs of a name and bytes, ValueError for a name that is not
    text.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return tuple([_checked_header(each) for each in pairs])


def _checked_header(pair: object) -> tuple[str, bytes | None]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"a header is a pair of a name and bytes, not {pair!r}")
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"a header's name is text, not {type(name).__name__}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a header's name {name!r} can't be written as UTF-8: {error.reason}") from None
    if value is None or isinstance(value, bytes):
        return name, value
    if isinstance(value, bytearray | memoryview):
        return name, bytes(value)
    hint = "; encode it" if isinstance(value, str) else ""
    raise TypeError(f"the value of header {name!r} is bytes or None, not {type(value).__name__}{hint}")


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
    hint = f"; give the producer a {what}_serializer"
    if isinstance(given, str):
        hint = f"; encode it: {what}=text.encode(), or give the producer a {what}_serializer"
    elif isinstance(given, dict | list):
        hint += f", such as lambda {what}: json.dumps({what}).encode()"
    raise TypeError(f"a record's {what} is bytes or None, not {type(given).__name__}{hint}")
