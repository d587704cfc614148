"""What a batch may cost whoever looks into it: small bytes that mean much work are given up early."""

import gzip
import tracemalloc

import cramjam
import pytest

from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    Compression,
    build_batch,
    compress,
    decompress,
    iterate_records,
    plain_payload,
    read_header,
    recompress,
    seal_batch,
    verify_crc,
)
from kohort.protocol.records.checking import MAX_REPORTED, TimestampBounds, check_records
from kohort.protocol.records.compressed_framing import MAX_MEMBERS, DecompressedSizeExceeded
from kohort.protocol.records.varint import encode_varint
from kohort.protocol.records.work_budget import (
    MAX_DECOMPRESSED_BATCH_BYTES,
    MAX_HEADERS_PER_RECORD,
    MAX_STEPS,
    QUICK_STEPS,
    SLICE_STEPS,
    WorkBudget,
    WorkBudgetExceeded,
)

NOW_MS = 1_700_000_000_000
CODECS = [each for each in Compression if each]


def alternating(count: int, compression: Compression = Compression.LZ4) -> bytes:
    """Return a batch in which no record has the shape of the one before it."""
    rows = [(NOW_MS, None, b"x" if index % 2 else b"", ()) for index in range(count)]
    return build_batch(rows, compression=compression)


def with_headers(count: int, compression: Compression = Compression.ZSTD) -> bytes:
    """Return a batch of one record with so many headers of nothing."""
    body = b"\0\0\0\1\1" + encode_varint(count) + b"\0\1" * count
    return seal_batch(
        compress(compression, encode_varint(len(body)) + body),
        record_count=1,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        compression=compression,
    )


def test_a_record_with_millions_of_empty_headers_is_refused_before_they_are_read() -> None:
    batch = with_headers(30_000_000)
    assert len(batch) < 10_000
    budget = WorkBudget.full()
    with pytest.raises(WireError, match="record 0 has 30000000 headers"):
        check_records(batch, read_header(batch), budget=budget)
    assert budget.steps > MAX_STEPS - 2 * SLICE_STEPS


def test_a_record_can_have_ten_thousand_headers() -> None:
    most = with_headers(MAX_HEADERS_PER_RECORD)
    assert check_records(most, read_header(most)).max_timestamp == NOW_MS
    with pytest.raises(WireError, match="10001 headers"):
        check_records(with_headers(10_001), read_header(with_headers(10_001)))


@pytest.mark.parametrize("compression", CODECS)
def test_a_decompression_bomb_is_refused_before_it_uses_memory(compression: Compression) -> None:
    plain = bytes(8 * 1024 * 1024)
    batch = seal_batch(
        compress(compression, plain),
        record_count=1,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        compression=compression,
    )
    header = read_header(batch)
    tracemalloc.start()
    try:
        with pytest.raises(WorkBudgetExceeded):
            check_records(batch, header, budget=WorkBudget(QUICK_STEPS, 1024 * 1024, 0))
        assert tracemalloc.get_traced_memory()[1] < 3 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_no_batch_can_exceed_64_mebibytes_when_decompressed() -> None:
    assert MAX_DECOMPRESSED_BATCH_BYTES == 64 * 1024 * 1024
    batch = seal_batch(
        compress(Compression.ZSTD, bytes(MAX_DECOMPRESSED_BATCH_BYTES + 1)),
        record_count=1,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        compression=Compression.ZSTD,
    )
    with pytest.raises(WorkBudgetExceeded, match="more than the cap"):
        check_records(batch, read_header(batch))


def test_empty_gzip_members_are_counted() -> None:
    empty, text = gzip.compress(b""), gzip.compress(b"text")
    assert decompress(Compression.GZIP, empty * (MAX_MEMBERS - 1) + text) == b"text"
    with pytest.raises(DecompressedSizeExceeded, match="too many members"):
        decompress(Compression.GZIP, empty * 50_000)


def test_empty_snappy_blocks_are_counted() -> None:
    start = compress(Compression.SNAPPY, b"")
    empty = b"\0\0\0\1\0"
    text = bytes(cramjam.snappy.compress_raw(b"text"))
    block = len(text).to_bytes(4, "big") + text
    assert decompress(Compression.SNAPPY, start + empty * 1000 + block) == b"text"
    with pytest.raises(DecompressedSizeExceeded, match="too many blocks"):
        decompress(Compression.SNAPPY, start + empty * 200_000)


def test_a_batch_that_is_many_steps_ends_the_effort() -> None:
    batch = alternating(50_000)
    header = read_header(batch)
    quick = WorkBudget.quick()
    with pytest.raises(WorkBudgetExceeded):
        check_records(batch, header, budget=quick)
    assert quick.steps <= 0
    assert check_records(batch, header, budget=WorkBudget.full()).max_timestamp == NOW_MS


def test_no_batch_can_exceed_a_million_steps() -> None:
    batch = alternating(1_100)
    with pytest.raises(WorkBudgetExceeded, match="more than 1000000 records and headers"):
        check_records(batch, read_header(batch), budget=WorkBudget(1_000, MAX_DECOMPRESSED_BATCH_BYTES, 0))
    assert WorkBudget.full().steps == MAX_STEPS == 1_000_000


def test_hundreds_of_thousands_of_equal_records_are_few_steps() -> None:
    batch = build_batch([(NOW_MS, None, b"", ())] * 200_000, compression=Compression.ZSTD)
    budget = WorkBudget.quick()
    checked = check_records(batch, read_header(batch), budget=budget)
    assert checked.max_timestamp == NOW_MS
    assert len(checked.without_key) == MAX_REPORTED
    assert budget.steps > QUICK_STEPS // 2


def test_the_next_batch_uses_the_rest_of_the_budget() -> None:
    budget = WorkBudget(100, 10_000, 0)
    batch = alternating(10)
    for _ in range(10):
        check_records(batch, read_header(batch), budget=budget)
    with pytest.raises(WorkBudgetExceeded):
        check_records(batch, read_header(batch), budget=budget)


def test_a_check_pauses_every_few_hundred_steps() -> None:
    rests: list[int] = []
    batch = alternating(5_000)
    check_records(batch, read_header(batch), budget=WorkBudget.full(lambda: rests.append(1)))
    assert len(rests) >= 5_000 // SLICE_STEPS


@pytest.mark.parametrize("count", [8_192, 8_300, 30_000])
@pytest.mark.parametrize("key", [None, b"key"])
def test_runs_go_on_beyond_eight_thousand_records(count: int, key: bytes | None) -> None:
    batch = build_batch([(NOW_MS + index // 1000, key, b"v" * 9, ()) for index in range(count)])
    budget = WorkBudget.full()
    checked = check_records(batch, read_header(batch), budget=budget)
    assert checked.max_timestamp == NOW_MS + (count - 1) // 1000
    assert checked.without_key == (tuple(range(MAX_REPORTED)) if key is None else ())
    assert MAX_STEPS - budget.steps < count // 8


@pytest.mark.parametrize("broken", [8_192, 8_200, 16_383, 16_384, 20_001])
@pytest.mark.parametrize("byte", [3, 4, 5])
def test_a_wrong_offset_delta_of_three_bytes_is_found(broken: int, byte: int) -> None:
    rows = [(NOW_MS, b"k", b"v", ())] * 20_100
    batch = bytearray(build_batch(rows))
    header = read_header(batch)
    one, two, three = 9, 10, 11  # A record's bytes, by those of its offset delta.
    at = 61 + 64 * one + 8_128 * two + (broken - 8_192) * three + byte
    batch[at] ^= 2
    with pytest.raises(WireError, match=f"record {broken} has the offset delta"):
        check_records(batch, header)


def test_records_outside_the_times_are_named_the_first_thousand_at_most() -> None:
    rows = [(NOW_MS + index, b"k", b"v", ()) for index in range(50)]
    batch = build_batch(rows)
    checked = check_records(batch, read_header(batch), TimestampBounds(NOW_MS + 3, NOW_MS + 46))
    assert [index for index, _ in checked.out_of_bounds] == [0, 1, 2, 47, 48, 49]
    assert checked.out_of_bounds[-1] == (49, NOW_MS + 49)
    many = build_batch([(NOW_MS, b"k", b"v", ())] * 5_000)
    assert (
        len(check_records(many, read_header(many), TimestampBounds(NOW_MS + 1)).out_of_bounds) == MAX_REPORTED
    )


def test_records_without_a_timestamp_are_never_untimely() -> None:
    batch = build_batch([(-1, b"k", b"v", ())] * 100)
    assert check_records(batch, read_header(batch), TimestampBounds(NOW_MS, NOW_MS)).out_of_bounds == ()


@pytest.mark.parametrize("before", list(Compression))
@pytest.mark.parametrize("after", list(Compression))
def test_a_batch_in_another_compression_has_the_same_records(before: Compression, after: Compression) -> None:
    rows = [(NOW_MS + each, b"k", b"v" * each, (("h", None),)) for each in range(50)]
    batch = build_batch(rows, compression=before, producer_id=7, producer_epoch=1, base_sequence=3)
    header = read_header(batch)
    made = recompress(header, plain_payload(batch, header), after)
    verify_crc(made)
    found = read_header(made)
    assert (found.compression, found.producer_id, found.base_sequence) == (after, 7, 3)
    assert list(iterate_records(made)) == list(iterate_records(batch))
