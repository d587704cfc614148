"""Dead letters: the archived records of a share group, with the reason in Kafka's headers (KIP-1191).

Source: Kafka's ShareGroupDLQRecordHelper. Nothing here touches a partition: it is done in any thread.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kohort.broker.group.share.record import DeadRecords
from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    Record,
    RecordFields,
    build_batch,
    iterate_batches,
    iterate_records,
    read_header,
)

TOPIC_HEADER = "__dlq.errors.topic"
PARTITION_HEADER = "__dlq.errors.partition"
OFFSET_HEADER = "__dlq.errors.offset"
GROUP_HEADER = "__dlq.errors.group"
DELIVERY_COUNT_HEADER = "__dlq.errors.delivery.count"
MESSAGE_HEADER = "__dlq.errors.message"
BATCH_BYTES = 61
RECORD_BYTES_MAX = 40
"""The maximum size of a record besides its key, its value and its headers."""
HEADER_BYTES_MAX = 10
"""The maximum size of a header besides its name and its value."""


class Origin(msgspec.Struct, frozen=True):
    """Where dead letters come from."""

    group_id: str
    topic: str
    partition: int


class Letters(NamedTuple):
    """One batch of dead letters, and the first offset that is not in it."""

    batch: bytes
    next_offset: int


def read_records(data: bytes, dead: DeadRecords, plain_bytes_max: int) -> tuple[dict[int, Record], int]:
    """Return those of the records that are in these batches, and the end of the batches, exclusive.

    A batch that can't be read, or is larger than allowed when it is decompressed, counts as read.
    """
    found: dict[int, Record] = {}
    end = dead.first_offset
    for batch in iterate_batches(data):
        header = read_header(batch)
        if header.base_offset > dead.last_offset:
            break
        end = max(end, header.last_offset + 1)
        if header.is_control or header.last_offset < dead.first_offset:
            continue
        try:
            for record in iterate_records(batch, max_decompressed_bytes=plain_bytes_max):
                if dead.first_offset <= record.offset <= dead.last_offset:
                    found[record.offset] = record
        except WireError:
            continue  # Its letters have its location; a consumer can read it there.
    return found, end


def build_letters(
    origin: Origin,
    dead: DeadRecords,
    offsets: range,
    records: Mapping[int, Record],
    *,
    batch_bytes_max: int,
    now_ms: int,
) -> Letters:
    """Return letters for these offsets, as many as the batch has room for, but one at least."""
    rows: list[RecordFields] = []
    size_bytes = BATCH_BYTES
    for offset in offsets:
        record = records.get(offset)
        key = None if record is None else record.key
        value = None if record is None else record.value
        row: RecordFields = (now_ms, key, value, _headers(origin, dead, offset))
        size_bytes += _size_bytes(row)
        if rows and size_bytes > batch_bytes_max:
            break
        rows.append(row)
    return Letters(build_batch(rows), offsets.start + len(rows))


def _headers(origin: Origin, dead: DeadRecords, offset: int) -> tuple[tuple[str, bytes | None], ...]:
    texts = [
        (TOPIC_HEADER, origin.topic),
        (PARTITION_HEADER, str(origin.partition)),
        (OFFSET_HEADER, str(offset)),
        (GROUP_HEADER, origin.group_id),
        (DELIVERY_COUNT_HEADER, str(dead.delivery_count)),
    ]
    if dead.cause is not None:
        texts.append((MESSAGE_HEADER, dead.cause.value))
    return tuple((name, text.encode()) for name, text in texts)


def _size_bytes(row: RecordFields) -> int:
    """Return how many bytes a record takes at the most."""
    _, key, value, headers = row
    return (
        RECORD_BYTES_MAX
        + len(key or b"")
        + len(value or b"")
        + sum(HEADER_BYTES_MAX + len(name) + len(text or b"") for name, text in headers)
    )
