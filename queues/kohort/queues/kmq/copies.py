"""What a record becomes when it is delivered again, or is a dead letter: its headers.

The count is what the original writes: one byte where it fits into a signed one, four otherwise. Headers of
the record's own stay, which the original drops. Three are added beside the count, which others ignore:

kmq-redelivery-of     int64, the offset of the record that this one repeats
kmq-first-offset      int64, that of the first one of all, which had no count
kmq-dead-letter-of    int32 partition and int64 offset of the record that this dead letter was
kmq-dead-letter-why   words
"""

import struct

from kohort.client.values import AnyRecord, Headers
from kohort.queues.copying import WHY_LENGTH_MAX
from kohort.queues.kmq.markers import MarkerKey
from kohort.queues.kmq.queue import Queue

REDELIVERY_OF = "kmq-redelivery-of"
FIRST_OFFSET = "kmq-first-offset"
DEAD_LETTER_OF = "kmq-dead-letter-of"
DEAD_LETTER_WHY = "kmq-dead-letter-why"
_OFFSET = struct.Struct(">q")


def encode_count(count: int) -> bytes:
    """Return a redelivery count as the original writes it."""
    return struct.pack(">b" if count <= 127 else ">i", count)


def decode_count(data: bytes | None) -> int:
    """Return a redelivery count; 0 where there is none, or what stands there is none."""
    if data is None or len(data) not in {1, 4}:
        return 0
    return int.from_bytes(data, "big", signed=True)


def redelivery_count(record: AnyRecord, queue: Queue) -> int:
    """Return how often this record was delivered again so far."""
    return decode_count(record.header(queue.redelivery_count_header))


def may_be_redelivered(record: AnyRecord, queue: Queue) -> bool:
    """Return whether it may be delivered again; otherwise it is a dead letter."""
    return redelivery_count(record, queue) < queue.max_redelivery_count


def headers_of_copy(record: AnyRecord, queue: Queue) -> Headers:
    """Return the headers with which a record is written again."""
    ours = {queue.redelivery_count_header, REDELIVERY_OF, FIRST_OFFSET}
    kept = tuple(each for each in record.headers if each[0] not in ours)
    return (
        *kept,
        (queue.redelivery_count_header, encode_count(redelivery_count(record, queue) + 1)),
        (REDELIVERY_OF, _OFFSET.pack(record.offset)),
        (FIRST_OFFSET, _OFFSET.pack(first_offset(record))),
    )


def headers_of_dead_letter(record: AnyRecord, why: str) -> Headers:
    """Return the headers with which a record is written to the dead letters."""
    kept = tuple(each for each in record.headers if each[0] not in {DEAD_LETTER_OF, DEAD_LETTER_WHY})
    place = MarkerKey(record.partition, record.offset).encode()
    words = why[:WHY_LENGTH_MAX].encode(errors="replace")
    return (*kept, (DEAD_LETTER_OF, place), (DEAD_LETTER_WHY, words))


def redelivery_of(record: AnyRecord) -> int | None:
    """Return the offset of the record that this one repeats; None for one that repeats none."""
    return _offset(record.header(REDELIVERY_OF))


def first_offset(record: AnyRecord) -> int:
    """Return the offset that the record had at its first delivery."""
    found = _offset(record.header(FIRST_OFFSET))
    return record.offset if found is None else found


def _offset(data: bytes | None) -> int | None:
    found: int | None = None
    if data is not None and len(data) == _OFFSET.size:
        (found,) = _OFFSET.unpack(data)
    return found
