"""A shard's log, read back: the newest record of each key, since compaction would leave no more.

What a record says of its key replaces all that was said of it before, and a log may be compacted at any
time; so whoever loads decodes and replays only what stands in the end, in the order of the log.
"""

from collections.abc import Callable, Iterable

import structlog

from kohort.broker.group import GroupCoordinator, Record
from kohort.protocol.errors import WireError
from kohort.protocol.offsets_topic import UnknownKey, decode_record
from kohort.protocol.records import (
    BatchHeader,
    ControlType,
    plain_payload,
    read_control_type,
    read_header,
    verify_crc,
)
from kohort.protocol.records.pairs import Pair, read_pairs

Rest = Callable[[int], None]

log = structlog.get_logger("kohort.group")


def _never(_size_bytes: int) -> None:
    """Go on."""


def replay_log(
    core: GroupCoordinator, batches: Iterable[memoryview], shard: int, rest: Rest = _never
) -> None:
    """Replay what the batches of a shard's log hold; damaged ones are left out, and said so.

    `rest` is told of bytes, again and again: a thread beside the loop has to give way. Raises: StorageError.
    """
    for key, value in _newest(batches, shard, rest).items():
        rest(len(key))
        try:
            record = understood(key, value)
        except WireError as error:
            log.error("a record of groups is lost", shard=shard, error=str(error))
            continue
        if record is not None:
            core.replay(record)


def _newest(batches: Iterable[memoryview], shard: int, rest: Rest) -> dict[bytes, bytes | None]:
    """Return the newest value of each key, in the order in which these lie in the log.

    After a clean stop no CRC has been looked at yet. What the other batches say is still worth having.
    What a transaction of Apache Kafka's has committed counts from its marker on, which may not come.
    """
    newest: dict[bytes, bytes | None] = {}
    pending: dict[int, list[Pair]] = {}
    for batch in batches:
        rest(len(batch))
        try:
            verify_crc(batch)
            header = read_header(batch)
            pairs = read_pairs(plain_payload(batch, header), header)
            if header.is_transactional:
                pairs = _settled(pending, header, pairs)
        except WireError as error:
            log.error("a batch of groups is lost", shard=shard, error=str(error))
            continue
        for key, value in pairs:
            if key is not None:
                newest.pop(key, None)  # So that it goes behind the others.
                newest[key] = value
    return newest


def _settled(pending: dict[int, list[Pair]], header: BatchHeader, pairs: list[Pair]) -> list[Pair]:
    """Return what counts from this batch of a transaction on. Raises: WireError."""
    if not header.is_control:
        pending.setdefault(header.producer_id, []).extend(pairs)
        return []
    is_committed = any(read_control_type(key) is ControlType.COMMIT for key, _ in pairs)
    ended = pending.pop(header.producer_id, [])
    return ended if is_committed else []


def understood(key: bytes, value: bytes | None) -> Record | None:
    """Return the record that these bytes are, None for one that means nothing to us. Raises: WireError."""
    found = decode_record(key, value)
    if isinstance(found, UnknownKey):
        return None  # A newer Kafka's kind of record: kept in the log, of no meaning to us.
    return Record(found.key, found.value)
