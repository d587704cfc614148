"""The headers of many batches at once, beside what is read of each alone."""

import pytest

from kohort.client.batch_table import check_end, read_batches
from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    Compression,
    ControlType,
    build_batch,
    build_transaction_marker,
    iterate_batches,
    read_header,
)

ONE = build_batch([(1_000, None, b"a", ()), (1_005, b"k", b"b", ())], base_offset=2**40)
TWO = build_batch(
    [(2_000 + n, None, b"c" * 90, ()) for n in range(9)],
    base_offset=2**40 + 5,
    compression=Compression.ZSTD,
    producer_id=77,
    producer_epoch=3,
    base_sequence=0,
    is_transactional=True,
)
MARKER = build_transaction_marker(
    ControlType.ABORT,
    timestamp_ms=1,
    producer_id=77,
    producer_epoch=3,
    coordinator_epoch=0,
    base_offset=2**40 + 14,
)


def test_every_column_equals_the_batch_headers() -> None:
    records = ONE + TWO + MARKER
    table = read_batches(memoryview(records))
    headers = [read_header(each) for each in iterate_batches(records)]
    assert table.positions.tolist() == [0, len(ONE), len(ONE + TWO)]
    assert table.stops.tolist() == [len(ONE), len(ONE + TWO), len(records)]
    assert table.size_bytes == len(records)
    assert table.base_offsets.tolist() == [each.base_offset for each in headers]
    assert table.next_offsets.tolist() == [each.next_offset for each in headers]
    assert table.record_counts.tolist() == [2, 9, 1]
    assert table.base_timestamps.tolist() == [each.base_timestamp for each in headers]
    assert table.max_timestamps.tolist() == [each.max_timestamp for each in headers]
    assert table.leader_epochs.tolist() == [each.partition_leader_epoch for each in headers]
    assert table.attributes.tolist() == [each.attributes for each in headers]
    assert table.codecs.tolist() == [0, Compression.ZSTD, 0]
    assert table.are_control.tolist() == [False, False, True]
    assert table.crcs.tolist() == [each.crc for each in headers]


def test_a_truncated_batch_is_left_out_without_an_error() -> None:
    for cut in range(1, len(TWO)):
        table = read_batches(memoryview(ONE + TWO[:-cut]))
        assert table.size_bytes == len(ONE)
        check_end(table)


@pytest.mark.parametrize(
    ("place", "byte", "words"),
    [
        (16, 1, "magic 1"),
        (8, 255, "shorter than its header"),
        (57, 255, "has -16777214 records"),
        (23, 255, "records up to"),
    ],
)
def test_the_table_ends_before_damage_and_reports_it_next(place: int, byte: int, words: str) -> None:
    damaged = bytearray(ONE)
    damaged[place] = byte
    table = read_batches(memoryview(TWO + bytes(damaged) + MARKER))
    assert table.positions.tolist() == [0]
    with pytest.raises(WireError, match=words):
        check_end(table)


def test_batches_are_valid_up_to_the_first_with_a_wrong_crc() -> None:
    damaged = bytearray(TWO)
    damaged[-1] ^= 1
    assert read_batches(memoryview(ONE + TWO + MARKER)).sound_count() == 3
    assert read_batches(memoryview(ONE + bytes(damaged) + MARKER)).sound_count() == 1


def test_no_bytes_give_a_table_without_rows() -> None:
    table = read_batches(memoryview(b""))
    assert (len(table), table.size_bytes, table.sound_count(), table.hidden(None).tolist()) == (0, 0, 0, [])
