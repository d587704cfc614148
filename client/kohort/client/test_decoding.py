"""Lists of records beside what the batches were built of, and beside what reads them one by one."""

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.client.decoding import PartitionRecords
from kohort.client.values import ConsumerRecord, TimestampType, TopicPartition
from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    HEADER_BYTES,
    RecordFields,
    batch_crc,
    build_batch,
    iterate_records,
    plain_payload,
    read_header,
    rewrite_batch,
    scan_records,
)
from tests.repetitions import repetitions

PARTITION = TopicPartition("t", 3)

names = st.text(max_size=8)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=20)), max_size=3).map(tuple)
sizes = st.sampled_from([0, 1, 5, 63, 64, 200, 9000])
contents = st.none() | st.binary(max_size=70) | sizes.map(lambda size: b"x" * size)
times = st.integers(0, 2**45) | st.integers(1000, 1100)
fields = st.tuples(times, contents, contents, st.just(()) | headers)


def listed(batch: bytes) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    PartitionRecords(PARTITION).read(read_header(batch), batch[HEADER_BYTES:], records)
    return records


def built_of(records: Sequence[RecordFields], base_offset: int = 0) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("t", 3, offset, timestamp, key, value, tuple(headers), 4)
        for offset, (timestamp, key, value, headers) in enumerate(records, base_offset)
    ]


def one_by_one(batch: bytes) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("t", 3, each.offset, each.timestamp, each.key, each.value, each.headers, 4)
        for each in iterate_records(batch)
    ]


@given(st.lists(fields, min_size=1, max_size=30), st.integers(0, 2**62))
@settings(max_examples=repetitions(50, by_night=200))
def test_a_decoded_list_equals_the_built_records(records: list[RecordFields], base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, leader_epoch=4)
    assert listed(batch) == built_of(records, base_offset) == one_by_one(batch)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 300),
            st.none() | st.integers(0, 70),
            st.none() | st.integers(0, 130),
            st.sampled_from([0, 1, 3, 40, 200, 9000]),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0, 500, 9000, 2**40]),
)
@settings(max_examples=repetitions(60, by_night=300))
def test_runs_of_equal_records_can_start_and_end_anywhere(
    runs: list[tuple[int, int | None, int | None, int, bool]], first_ms: int
) -> None:
    records: list[RecordFields] = [(first_ms, None, None, ())]
    for count, key_size, value_size, step_ms, has_headers in runs:
        key = None if key_size is None else b"k" * key_size
        value = None if value_size is None else b"v" * value_size
        headers = (("h", b"1"),) if has_headers else ()
        records += [(first_ms + place * step_ms, key, value, headers) for place in range(count)]
    batch = build_batch(records, base_offset=5, leader_epoch=4)
    assert listed(batch) == built_of(records, 5) == one_by_one(batch)


def test_a_timestamp_before_the_first_one_is_read_within_a_run() -> None:
    batch = build_batch([(1000 - place % 3, b"key", b"value", ()) for place in range(200)])
    assert [each.timestamp_ms for each in listed(batch)] == [1000 - place % 3 for place in range(200)]


def test_a_long_batch_of_records_of_all_sizes() -> None:
    records = [(place * 7, b"%d" % place, b"v" * (place * 37 % 211), ()) for place in range(10_000)]
    batch = build_batch(records, leader_epoch=4)
    assert listed(batch) == built_of(records) == one_by_one(batch)


@given(st.lists(fields, min_size=1, max_size=12), st.data())
@settings(max_examples=repetitions(30, by_night=100))
def test_compaction_leaves_gaps(records: list[RecordFields], data: st.DataObject) -> None:
    batch = build_batch(records, base_offset=10, leader_epoch=4)
    header, payload = read_header(batch), plain_payload(batch, read_header(batch))
    kept = [each for each in scan_records(payload, header) if data.draw(st.booleans())]
    if kept:
        compacted = rewrite_batch(header, payload, kept, None)
        expected = {each.offset: each for each in built_of(records, 10)}
        assert listed(compacted) == [expected[each.offset] for each in kept] == one_by_one(compacted)


def test_log_append_time_is_every_records_time() -> None:
    batch = bytearray(build_batch([(1000 + place, None, b"v", ()) for place in range(50)]))
    batch[22] |= 8
    batch[17:21] = batch_crc(batch).to_bytes(4, "big")
    found = listed(bytes(batch))
    assert {each.timestamp_ms for each in found} == {1049}
    assert {each.timestamp_type for each in found} == {TimestampType.LOG_APPEND_TIME}


@given(
    st.lists(fields, min_size=1, max_size=4) | st.just([(5, b"key", b"value", ())] * 100),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=6),
    st.integers(0, 3000),
    st.booleans(),
)
@settings(max_examples=repetitions(120, by_night=500))
def test_damaged_bytes_raise_only_wire_errors(
    records: list[RecordFields], changes: list[tuple[int, int]], cut: int, cuts: bool
) -> None:
    batch = bytearray(build_batch(records))
    payload = batch[HEADER_BYTES:]
    for place, byte in changes:
        payload[place % len(payload)] = byte
    data = bytes(payload[: cut % len(payload)] if cuts else payload)
    with suppress(WireError):
        found: list[ConsumerRecord] = []
        PartitionRecords(PARTITION).read(read_header(batch), data, found)
        assert len(found) == len(records)


DAMAGE = [(0, 0), (0, 2), (0, 200), (4, 4), (4, 15), (4, 200), (6, 0), (6, 3), (16, 2)]


@pytest.mark.parametrize(("place", "byte"), DAMAGE)
def test_only_records_before_a_damaged_one_are_read(place: int, byte: int) -> None:
    """Its length, its key's, its value's, or the number of its headers is another one."""
    records: list[RecordFields] = [(0, b"k", b"v" * 9, ()) for _ in range(64)]
    batch = bytearray(build_batch(records, leader_epoch=4))
    size = (len(batch) - HEADER_BYTES) // 64
    assert batch[HEADER_BYTES + 10 * size + place] != byte
    batch[HEADER_BYTES + 10 * size + place] = byte
    found = iterate_records(batch)
    assert [next(found).offset for _ in range(10)] == list(range(10))
    with pytest.raises(WireError):
        next(found)


@pytest.mark.parametrize("size", [1, 3, 127])
def test_every_size_below_zero_is_null(size: int) -> None:
    """As in Apache Kafka, which writes -1 alone."""
    batch = bytearray(build_batch([(0, None, None, ())] * 3, leader_epoch=4))
    first = HEADER_BYTES + (len(batch) - HEADER_BYTES) // 3
    batch[first + 4] = batch[first + 5] = size  # Of the second record: what it says of its key and its value.
    assert listed(bytes(batch)) == built_of([(0, None, None, ())] * 3) == one_by_one(bytes(batch))
