"""Single records of a topic, and which of them were written again: read without a group."""

from collections.abc import Iterable, Sequence

from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.queues.kmq.copies import redelivery_of
from kohort.queues.scanning import Reader, scan

GAP_MAX = 500  # A gap of more records is jumped over; a smaller one is read.


async def read_offsets(
    reader: Reader, partition: TopicPartition, offsets: Sequence[int]
) -> dict[int, ConsumerRecord[bytes, bytes]]:
    """Return the records at these offsets, which are sorted, without those that are gone.

    Raises: KohortError.
    """
    end = (await reader.end_offsets(partition))[partition]
    wanted = {each for each in offsets if each < end}
    found = {}
    for first, last in runs(sorted(wanted)):
        async for record in scan(reader, partition, first, last + 1):
            if record.offset in wanted:
                found[record.offset] = record
    reader.assign()
    return found


async def copied(reader: Reader, partition: TopicPartition, offsets: Iterable[int]) -> dict[int, int]:
    """Return which of these records were written again, and to which offset. Raises: KohortError."""
    wanted = set(offsets)
    if not wanted:
        return {}
    end = (await reader.end_offsets(partition))[partition]
    found: dict[int, int] = {}
    async for record in scan(reader, partition, min(wanted) + 1, end):
        of = redelivery_of(record)
        if of is not None and of in wanted:
            found[of] = record.offset
    reader.assign()  # Nothing more is fetched meanwhile.
    return found


def runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return first and last offset of each run of offsets that is read without a jump."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and offset - found[-1][1] <= GAP_MAX:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found
