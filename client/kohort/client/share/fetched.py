"""One partition's part of a ShareFetch answer: the acquired records, and the gaps."""

from collections.abc import Sequence
from typing import NamedTuple

from kohort.client.batches import plain_records, visible_batches
from kohort.client.decoding import PartitionRecords
from kohort.client.share.values import AnyShareRecord, shared
from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.protocol.messages.share_fetch import ShareFetchAcquired
from kohort.protocol.records import Buffer


class Fetched(NamedTuple):
    """Acquired records in order, and acquired offsets without a record for the user."""

    records: list[AnyShareRecord]
    gaps: list[int]


def read_acquired(
    partition: TopicPartition, data: Buffer, acquired: Sequence[ShareFetchAcquired], *, check_crcs: bool
) -> Fetched:
    """Return the acquired records; batches may also have records of other members. Raises: WireError."""
    if not acquired:
        return Fetched([], [])
    lists, read = PartitionRecords(partition), list[ConsumerRecord]()
    for header, payload in visible_batches(data, check_crcs=check_crcs, aborted=None):
        if payload is not None:
            lists.read(header, plain_records(header, payload), read)
    by_offset = {each.offset: each for each in read}
    found = Fetched([], [])
    for span in acquired:
        for offset in range(span.first_offset, span.last_offset + 1):
            record = by_offset.get(offset)
            if record is None:
                found.gaps.append(offset)
            else:
                found.records.append(shared(record, span.delivery_count))
    return found
