"""Columns beside what the plain decoder reads of the same bytes."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.client.batches import visible_batches
from kohort.client.columns import CREATE_TIME, LOG_APPEND_TIME, RecordColumns, decode_columns
from kohort.protocol.errors import WireError
from kohort.protocol.messages.fetch import AbortedTransaction
from kohort.protocol.records import (
    Compression,
    ControlType,
    Record,
    RecordFields,
    batch_crc,
    build_batch,
    build_transaction_marker,
    iterate_batches,
    iterate_records,
    read_header,
    rewrite_batch,
    scan_records,
)
from kohort.protocol.records.rewriting import plain_payload
from tests.repetitions import repetitions

names = st.text(max_size=8) | st.sampled_from(["h", "ü", "trace-id"])
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=20)), max_size=3).map(tuple)
sizes = st.sampled_from([0, 1, 5, 63, 64, 200, 9000])
contents = st.none() | st.binary(max_size=70) | sizes.map(lambda size: b"x" * size)
fields = st.tuples(st.integers(0, 2**45), contents, contents, st.just(()) | headers)
batches = st.lists(fields, min_size=1, max_size=12)
codecs = st.sampled_from(tuple(Compression))


def plain(record_set: bytes, fetch_offset: int = 0) -> list[Record]:
    """What the plain decoder reads, which knows no transactions."""
    return [
        each
        for batch in iterate_batches(record_set)
        if not read_header(batch).is_control
        for each in iterate_records(batch)
        if each.offset >= fetch_offset
    ]


def rows(columns: RecordColumns) -> list[Record]:
    """The records that columns hold, one by one."""
    names = [(each or b"").decode() for each in columns.header_names.to_list()]
    headers = list(zip(names, columns.header_values.to_list(), strict=True))
    at = columns.header_offsets.tolist()
    columns_of = zip(
        columns.offsets.tolist(),
        columns.timestamps_ms.tolist(),
        columns.keys.to_list(),
        columns.values.to_list(),
        (tuple(headers[a:b]) for a, b in pairwise(at)),
        strict=True,
    )
    return [Record(*each) for each in columns_of]


def decoded(record_set: bytes, **options: object) -> list[Record]:
    chunks = decode_columns(record_set, **options)  # type: ignore[arg-type]
    return [each for chunk in chunks for each in rows(chunk)]


def joined(parts: Sequence[Sequence[RecordFields]], compressions: Sequence[Compression]) -> bytes:
    """Batches one behind the other, each in its codec."""
    out, offset = b"", 0
    for part, compression in zip(parts, compressions, strict=False):
        out += build_batch(part, base_offset=offset, compression=compression)
        offset += len(part)
    return out


@given(
    st.lists(batches, min_size=1, max_size=5),
    st.lists(codecs, min_size=5, max_size=5),
    st.integers(0, 20),
    st.sampled_from([1, 500, 1 << 20]),
)
@settings(max_examples=repetitions(60, by_night=300))
def test_columns_equal_the_plain_decoder(
    parts: list[list[RecordFields]], compressions: list[Compression], fetch_offset: int, chunk_bytes: int
) -> None:
    record_set = joined(parts, compressions)
    found = decoded(record_set, fetch_offset=fetch_offset, max_chunk_bytes=chunk_bytes)
    assert found == plain(record_set, fetch_offset)


@given(
    st.lists(st.tuples(st.integers(1, 700), st.integers(0, 130)), min_size=1, max_size=6),
    codecs,
)
@settings(max_examples=repetitions(20, by_night=60))
def test_runs_of_records_of_one_size_can_start_and_end_anywhere(
    runs: list[tuple[int, int]], compression: Compression
) -> None:
    records = [(5, None, b"v" * size, ()) for count, size in runs for _ in range(count)]
    record_set = build_batch(records, base_offset=2**40, compression=compression)
    assert decoded(record_set) == plain(record_set)


@given(
    st.lists(st.lists(fields, min_size=1, max_size=6), min_size=14, max_size=40),
    st.integers(0, 30),
    codecs,
    st.integers(0, 60),
)
@settings(max_examples=repetitions(20, by_night=60))
def test_many_batches_are_decoded_together(
    parts: list[list[RecordFields]], repeated: int, codec: Compression, fetch_offset: int
) -> None:
    parts[len(parts) // 2] *= 1 + repeated  # Longer than the others, which end before it.
    record_set = joined(parts, [codec] * len(parts))
    assert decoded(record_set, fetch_offset=fetch_offset) == plain(record_set, fetch_offset)


@given(
    st.lists(batches, min_size=16, max_size=20),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 255)), min_size=1, max_size=4),
)
@settings(max_examples=repetitions(40, by_night=200))
def test_damage_in_many_batches_raises_only_wire_errors(
    parts: list[list[RecordFields]], damage: list[tuple[int, int]]
) -> None:
    record_set = bytearray(joined(parts, [Compression.NONE] * len(parts)))
    for place, bits in damage:
        record_set[place % len(record_set)] ^= bits
    with suppress(WireError):
        decoded(bytes(record_set), check_crcs=False)


def test_a_long_batch_of_records_of_all_sizes() -> None:
    records = [(place * 7, b"%d" % place, b"v" * (place * 37 % 211), ()) for place in range(20_000)]
    record_set = build_batch(records)
    assert decoded(record_set) == plain(record_set)


@given(batches, st.data())
@settings(max_examples=repetitions(25, by_night=100))
def test_compaction_leaves_gaps(records: list[RecordFields], data: st.DataObject) -> None:
    batch = build_batch(records, base_offset=10)
    header, payload = read_header(batch), plain_payload(batch, read_header(batch))
    kept = [each for each in scan_records(payload, header) if data.draw(st.booleans())]
    compacted = rewrite_batch(header, payload, kept, None) if kept else b""
    if compacted:
        (columns,) = decode_columns(compacted)
        assert rows(columns) == plain(compacted)
        assert columns.next_offset == 10 + len(records)


@given(
    st.lists(batches, min_size=1, max_size=3),
    st.lists(codecs, min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(0, 2000),
    st.booleans(),
)
@settings(max_examples=repetitions(100, by_night=500))
def test_damaged_bytes_raise_only_wire_errors(
    parts: list[list[RecordFields]],
    compressions: list[Compression],
    changes: list[tuple[int, int]],
    cut: int,
    cuts: bool,
) -> None:
    record_set = bytearray(joined(parts, compressions))
    for place, byte in changes:
        record_set[place % len(record_set)] = byte
    damaged = bytes(record_set[: cut % len(record_set)] if cuts else record_set)
    with suppress(WireError):
        decoded(damaged, check_crcs=False)


@given(st.lists(st.binary(max_size=30), max_size=3), st.integers(-1, 4))
@settings(max_examples=repetitions(60, by_night=300))
def test_records_of_any_bytes_raise_only_wire_errors(pieces: list[bytes], count: int) -> None:
    batch = bytearray(build_batch([(1, b"k", b"v", ())])[:61]) + b"".join(pieces)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with suppress(WireError):
        found = decoded(bytes(batch), check_crcs=False)
        assert [each for each in found if each.offset >= 0] == plain(bytes(batch))


@pytest.mark.parametrize("size", [1, 40, 60, 61, 70])
def test_a_truncated_batch_is_left_for_the_next_fetch(size: int) -> None:
    one, two = build_batch([(1, None, b"a", ())]), build_batch([(1, None, b"b" * 40, ())], base_offset=1)
    (columns,) = decode_columns(one + two[:size])
    assert (columns.values.to_list(), columns.next_offset) == ([b"a"], 1)
    assert list(decode_columns(two[:size])) == []


def test_a_flipped_bit_is_an_error_unless_crcs_are_not_checked() -> None:
    batch = bytearray(build_batch([(1, None, b"value", ())]))
    batch[-3] ^= 1
    with pytest.raises(WireError, match="CRC"):
        decoded(bytes(batch))
    assert [each.value for each in decoded(bytes(batch), check_crcs=False)] == [b"valte"]


def test_a_header_name_that_is_no_utf8_is_mended_as_the_plain_decoder_does() -> None:
    batch = bytearray(build_batch([(1, None, b"v", (("\xe9x", b"1"), ("n", None)))]))
    batch[batch.index("\xe9x".encode())] = 0xFF
    batch[17:21] = batch_crc(batch).to_bytes(4, "big")
    assert decoded(bytes(batch)) == plain(bytes(batch))
    assert "\ufffd" in decoded(bytes(batch))[0].headers[0][0]


def test_log_append_time_is_every_records_time() -> None:
    batch = bytearray(build_batch([(1000 + place, None, b"v", ()) for place in range(3)]))
    batch[22] |= 8
    batch[17:21] = batch_crc(batch).to_bytes(4, "big")
    (columns,) = decode_columns(bytes(batch) + build_batch([(7, None, b"v", ())], base_offset=3))
    assert columns.timestamps_ms.tolist() == [1002, 1002, 1002, 7]
    assert columns.timestamp_types.tolist() == [LOG_APPEND_TIME] * 3 + [CREATE_TIME]


def transactional(first: int, *values: bytes, producer_id: int, compression: int = 0) -> bytes:
    return build_batch(
        [(1, None, each, ()) for each in values],
        base_offset=first,
        compression=Compression(compression),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(offset: int, control_type: ControlType, producer_id: int) -> bytes:
    return build_transaction_marker(
        control_type,
        timestamp_ms=1,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        base_offset=offset,
    )


TRANSACTIONS = b"".join(
    (
        transactional(0, b"a0", b"a1", producer_id=7),
        transactional(2, b"c2", producer_id=8, compression=4),
        build_batch([(1, None, b"plain", ())], base_offset=3),
        transactional(4, b"a4", producer_id=7),
        marker(5, ControlType.ABORT, 7),
        marker(6, ControlType.COMMIT, 8),
        transactional(7, b"c7", producer_id=7),
        marker(8, ControlType.COMMIT, 7),
        transactional(9, b"a9", producer_id=8),
        marker(10, ControlType.ABORT, 8),
    )
)
ABORTED = [
    AbortedTransaction(producer_id=8, first_offset=9),
    AbortedTransaction(producer_id=7, first_offset=0),
]


def test_read_committed_sees_no_aborted_transaction() -> None:
    (columns,) = decode_columns(TRANSACTIONS, aborted=ABORTED)
    assert columns.values.to_list() == [b"c2", b"plain", b"c7"]
    assert columns.next_offset == 11


def test_read_uncommitted_sees_all_but_the_markers() -> None:
    assert [each.value for each in decoded(TRANSACTIONS)] == [
        b"a0",
        b"a1",
        b"c2",
        b"plain",
        b"a4",
        b"c7",
        b"a9",
    ]


def test_a_read_that_starts_inside_an_aborted_transaction_skips_its_records() -> None:
    rest = TRANSACTIONS[TRANSACTIONS.index(transactional(4, b"a4", producer_id=7)) :]
    assert [each.value for each in decoded(rest, fetch_offset=4, aborted=ABORTED)] == [b"c7"]


def test_a_transaction_after_an_abort_marker_is_another_one() -> None:
    seen = [
        header.base_offset
        for header, payload in visible_batches(TRANSACTIONS, check_crcs=True, aborted=ABORTED[1:])
        if payload is not None
    ]
    assert seen == [2, 3, 7, 9]


def test_markers_without_records_move_the_next_offset() -> None:
    (columns,) = decode_columns(marker(8, ControlType.COMMIT, 7), fetch_offset=8)
    assert (len(columns), columns.next_offset, len(columns.keys), len(columns.header_offsets)) == (0, 9, 0, 1)


def test_no_bytes_give_no_chunk() -> None:
    assert list(decode_columns(b"")) == []


def test_records_before_damage_are_returned_first() -> None:
    good, bad = (
        build_batch([(1, None, b"a", ())]),
        bytearray(build_batch([(1, None, b"b", ())], base_offset=1)),
    )
    bad[-3] ^= 1
    for damaged, words in ((bytes(bad), "offset 1 does not have the CRC"), (b"\0" * 80, "magic 0")):
        chunks = decode_columns(good + damaged)
        assert next(chunks).values.to_list() == [b"a"]
        with pytest.raises(WireError, match=words):
            next(chunks)
