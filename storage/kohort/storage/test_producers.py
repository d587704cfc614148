"""What a log lets an idempotent producer append: once, in order, of the newest epoch."""

import struct
import tracemalloc

import pytest

from kohort.protocol.checksum import crc32c
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import (
    BatchHeader,
    ControlType,
    build_batch,
    build_transaction_marker,
    read_header,
)
from kohort.storage import ProducerStateTable
from kohort.storage.producers import EndedTransaction


def header(
    sequence: int, *, count: int = 2, epoch: int = 0, producer_id: int = 4, transactional: bool = False
) -> BatchHeader:
    return read_header(
        build_batch(
            [(1000 + sequence, None, b"v", ())] * count,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def table_of(*headers: BatchHeader) -> ProducerStateTable:
    table = ProducerStateTable()
    offset = 100
    for each in headers:
        assert table.check(each) is None
        table.append(each, offset, b"")
        offset += each.record_count
    return table


def refusal(table: ProducerStateTable, each: BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        table.check(each)
    return caught.value.code


def test_a_repeated_batch_is_recognised_among_the_last_five() -> None:
    table = table_of(*(header(place * 2) for place in range(6)))
    for place in range(1, 6):
        found = table.check(header(place * 2))
        assert found is not None
        assert (found.base_offset, found.last_offset, found.timestamp) == (
            100 + place * 2,
            101 + place * 2,
            1000 + place * 2,
        )
    assert refusal(table, header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused_and_the_next_batch_is_accepted() -> None:
    table = table_of(header(0))
    assert refusal(table, header(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(table, header(0, count=3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert table.check(header(2)) is None


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_with_sequence_zero() -> None:
    table = table_of(header(0, epoch=3))
    assert refusal(table, header(2, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(table, header(2, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert table.check(header(0, epoch=4)) is None
    table.append(header(0, epoch=4), 200, b"")
    assert refusal(table, header(2, epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_unknown_producer_can_start_anywhere_and_plain_batches_are_not_checked() -> None:
    assert ProducerStateTable().check(header(77)) is None
    assert ProducerStateTable().check(read_header(build_batch([(0, None, None, ())]))) is None


def test_sequences_wrap_to_zero() -> None:
    table = table_of(header(2**31 - 2))
    assert table.check(header(0)) is None
    table.append(header(0), 300, b"")
    found = table.check(header(2**31 - 2))
    assert found is not None
    assert found.base_offset == 100


def test_a_repeated_batch_across_the_largest_sequence_is_recognised() -> None:
    table = table_of(header(2**31 - 1))
    found = table.check(header(2**31 - 1))
    assert found is not None
    assert (found.base_sequence, found.last_sequence) == (2**31 - 1, 0)
    assert table.check(header(1)) is None


def test_a_snapshot_has_the_last_five_batches_of_each_producer() -> None:
    table = table_of(*map(header, range(0, 14, 2)), header(0, producer_id=9, epoch=5))
    content = table.encode_snapshot()
    found = ProducerStateTable.decode_snapshot(content)
    assert found is not None
    assert found.encode_snapshot() == content
    assert [each for _, each in found.items()] == [each for _, each in table.items()]
    assert refusal(found, header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in range(4, 14, 2):
        assert found.check(header(sequence)) == table.check(header(sequence)) is not None
    assert found.check(header(14)) is None
    assert refusal(found, header(2, producer_id=9, epoch=4)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_damaged_snapshot_is_ignored() -> None:
    content = table_of(header(0), header(2), header(0, producer_id=9)).encode_snapshot()
    for place in range(len(content)):
        assert ProducerStateTable.decode_snapshot(content[:place]) is None
        damaged = bytearray(content)
        damaged[place] ^= 1
        assert ProducerStateTable.decode_snapshot(bytes(damaged)) is None
    assert ProducerStateTable.decode_snapshot(None) is None


def test_a_snapshot_has_kafkas_layout() -> None:
    content = table_of(header(6)).encode_snapshot()
    assert struct.unpack_from(">hIiqhiqiqiq", content)[0] == 1
    assert struct.unpack_from(">hIiqhiqiqiq", content)[2:] == (1, 4, 0, 7, 101, 1, 1006, -1, -1)


def test_a_snapshot_of_kafka_has_only_the_last_batch() -> None:
    body = struct.pack(">iqhiqiqiq", 1, 4, 0, 7, 101, 1, 1006, -1, -1)
    found = ProducerStateTable.decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body)
    assert found is not None
    assert found.check(header(6)) is not None
    assert refusal(found, header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert found.check(header(8)) is None


def test_a_transaction_is_open_until_its_marker() -> None:
    table = table_of(header(0, transactional=True), header(2, transactional=True))
    ((_, state),) = table.items()
    assert state.transaction_first_offset == 100
    marker = build_transaction_marker(
        ControlType.COMMIT, timestamp_ms=5000, producer_id=4, producer_epoch=0, coordinator_epoch=1
    )
    ended = table.append(read_header(marker), 104, marker)
    assert ended == EndedTransaction(4, 100, 104, 105, is_aborted=False)
    assert (state.coordinator_epoch, table.first_open_offset) == (1, None)
    assert (state.transaction_first_offset, state.last_sequence) == (-1, 3)


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    table = table_of(header(0, transactional=True))
    assert refusal(table, header(2)) is ErrorCode.INVALID_TXN_STATE
    assert table.check(header(2, transactional=True)) is None


def test_a_snapshot_keeps_open_transactions_in_their_order() -> None:
    table = table_of(
        header(0, producer_id=9, transactional=True),
        header(0, producer_id=4, transactional=True),
        header(2, producer_id=9, transactional=True),
    )
    found = ProducerStateTable.decode_snapshot(table.encode_snapshot())
    assert found is not None
    assert found.first_open_offset == 100
    assert found.is_open(9, 0)
    assert not found.is_open(9, 1)
    marker = build_transaction_marker(
        ControlType.ABORT, timestamp_ms=5000, producer_id=9, producer_epoch=0, coordinator_epoch=1
    )
    ended = found.append(read_header(marker), 106, marker)
    assert ended == EndedTransaction(9, 100, 106, 102, is_aborted=True)


def test_producers_expire_unless_their_transaction_is_open() -> None:
    table = table_of(header(0), header(0, producer_id=5, transactional=True), header(500, producer_id=6))
    table.remove_expired(now_ms=1700, expiration_ms=300)
    assert [producer_id for producer_id, _ in table.items()] == [5, 6]


def test_a_copy_is_independent() -> None:
    table = table_of(header(0))
    copied = table.copy()
    table.append(header(2), 102, b"")
    assert copied.check(header(2)) is None
    assert table.check(header(2)) is not None


def test_an_epoch_that_no_producer_has_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        ProducerStateTable().check(header(0, epoch=-2))
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_negative_id_is_no_producers_as_kafka_has_it() -> None:
    table = table_of(header(0, producer_id=-2), header(7, producer_id=-2))
    assert len(table) == 0


def test_a_producer_that_wrote_once_uses_little_memory() -> None:
    """There may be one for every run of every job of a day, in each partition that it wrote to."""
    headers = [header(0, producer_id=1_000 + number) for number in range(2_000)]
    tracemalloc.start()
    try:
        table = table_of(*headers)
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table) == 2_000
    assert size_bytes / len(table) < 450
