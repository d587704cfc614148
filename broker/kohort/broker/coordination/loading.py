"""Loading a shard: its log is read, and the newest record of each key is replayed. Kafka: CoordinatorLoader.

A record replaces all earlier records of its key, and a log may be compacted at any time. So only the newest
record of each key is decoded and replayed, in the order of the log. In a log that is never compacted records
are updates of their key, and every one is replayed.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import structlog

from kohort.broker.coordination.machine import CoreT, Machine
from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    BatchHeader,
    ControlType,
    plain_payload,
    read_control_type,
    read_header,
    verify_crc,
)
from kohort.protocol.records.pairs import Pair, read_pairs

Throttle = Callable[[int], None]

UNREPLAYABLE_RECORDS_MAX = 16
"""So many records that the core fails to replay are left out; with more of them the load fails."""

log = structlog.get_logger("kohort.group")


def _never(_size_bytes: int) -> None:
    """Do not throttle."""


def loaded_core(
    machine: Machine[CoreT], batches: Iterable[memoryview], shard: int, throttle: Throttle = _never
) -> CoreT:
    """Return a core that has replayed the batches of a shard's log.

    Damaged records are left out and logged, and so are records that the core fails to replay: a single record
    must not prevent the load of all groups of the shard. `throttle` is called with bytes read: a thread
    beside the loop has to yield. Raises: StorageError, and the core's error if too many records fail.
    """
    newest, pending = _newest(batches, shard, throttle, is_compacted=machine.is_compacted)
    for _ in range(UNREPLAYABLE_RECORDS_MAX):
        core = machine.new_core()
        try:
            _replay_all(machine, core, newest, shard, throttle)
        except _Unreplayable as stopped:
            log.error("a record of groups can't be replayed and is left out", shard=shard, exc_info=stopped)
            del newest[stopped.place]
        else:
            return _with_pending(machine, core, pending, shard)
    core = machine.new_core()
    _replay_all(machine, core, newest, shard, throttle)
    return _with_pending(machine, core, pending, shard)


def _with_pending(machine: Machine[CoreT], core: CoreT, pending: "Pending", shard: int) -> CoreT:
    """Return the core with the records of open transactions replayed as well, in the order of the log."""
    written = [
        (each.number, producer_id, key, each.value)
        for producer_id, held in pending.items()
        for key, each in held.items()
    ]
    for _, producer_id, key, value in sorted(written):
        try:
            record = machine.decode(key, value)
        except WireError as error:
            log.error("a record of groups is lost", shard=shard, error=str(error))
            continue
        if record is not None:
            core.replay_pending(producer_id, record)  # type: ignore[attr-defined]  # such logs have such cores
    return core


class _Unreplayable(Exception):
    """The core failed in the record of this key. It may be half changed, and is not used any more."""

    def __init__(self, place: "RecordKey") -> None:
        super().__init__("the core failed")
        self.place = place


def _replay_all(
    machine: Machine[CoreT],
    core: CoreT,
    newest: "Mapping[RecordKey, bytes | None]",
    shard: int,
    throttle: Throttle,
) -> None:
    replay, decode = core.replay, machine.decode
    for place, value in newest.items():
        key = place if isinstance(place, bytes) else place[1]
        throttle(len(key))
        try:
            record = decode(key, value)
        except WireError as error:
            log.error("a record of groups is lost", shard=shard, error=str(error))
            continue
        if record is not None:
            try:
                replay(record)
            except Exception as error:  # A supervisor: a bug in a core skips only one record.
                raise _Unreplayable(place) from error


class Written(NamedTuple):
    """The write of a transaction for a key, and its offset."""

    number: int
    value: bytes


RecordKey = bytes | tuple[int, bytes]
"""A record's key; in a log that is never compacted, with the number of the record before it."""
Pending = dict[int, dict[bytes, Written]]
LAST = sys.maxsize


def _newest(
    batches: Iterable[memoryview], shard: int, throttle: Throttle, *, is_compacted: bool
) -> tuple[dict[RecordKey, bytes | None], Pending]:
    """Return the newest value of each key, in the order of the log, and the records of open transactions.

    After a clean stop no CRC has been checked yet. Damaged batches are left out. The records of a committed
    transaction count from its marker on, unless a newer record came before that.
    """
    newest: dict[RecordKey, bytes | None] = {}
    pending: Pending = {}
    for batch in batches:
        throttle(len(batch))
        try:
            verify_crc(batch)
            header = read_header(batch)
            pairs = read_pairs(plain_payload(batch, header), header)
            if header.is_transactional:
                pairs = _settled(pending, header, pairs)
            elif pending:
                for key, _ in pairs:
                    _supersede(pending, key, LAST)
        except WireError as error:
            log.error("a batch of groups is lost", shard=shard, error=str(error))
            continue
        if not is_compacted:
            for key, value in pairs:
                if key is not None:
                    newest[len(newest), key] = value
            continue
        for key, value in pairs:
            if key is not None:
                newest.pop(key, None)  # So that it goes to the end.
                newest[key] = value
    return newest, pending


def _settled(pending: Pending, header: BatchHeader, pairs: list[Pair]) -> list[Pair]:
    """Return the records of the transaction that this batch commits, if it does. Raises: WireError."""
    if not header.is_control:
        held = pending.setdefault(header.producer_id, {})
        for number, (key, value) in enumerate(pairs, header.base_offset):
            if key is not None and value is not None:
                held[key] = Written(number, value)
        return []
    is_committed = any(read_control_type(key) is ControlType.COMMIT for key, _ in pairs)
    ended = pending.pop(header.producer_id, {})
    if not is_committed:
        return []
    for key, written in ended.items():
        _supersede(pending, key, written.number)
    return [(key, written.value) for key, written in ended.items()]


def _supersede(pending: Pending, key: bytes | None, before: int) -> None:
    """Drop the writes of open transactions for a key before that offset."""
    for held in pending.values():
        if key in held and held[key].number < before:
            del held[key]
