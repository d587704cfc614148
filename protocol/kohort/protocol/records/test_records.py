"""Batches built and read again, in every codec, and what damage does to them."""

import gzip
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol.errors import ApiError, ErrorCode, WireError
from kohort.protocol.records import (
    Compression,
    ControlType,
    Record,
    RecordFields,
    RecordWriter,
    batch_crc,
    build_batch,
    build_transaction_marker,
    compress,
    decompress,
    encode_records,
    iterate_batches,
    iterate_records,
    max_record_bytes,
    read_control_type,
    read_coordinator_epoch,
    read_header,
    seal_batch,
    validate_produced,
    verify_crc,
)
from kohort.protocol.records.codecs import zstd
from kohort.protocol.records.compressed_framing import MAX_MEMBERS, DecompressedSizeExceeded

CODECS = tuple(Compression)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3).map(tuple)
fields = st.tuples(
    st.integers(0, 2**45),
    st.none() | st.binary(max_size=200),
    st.none() | st.binary(max_size=20_000),
    headers,
)


def record_of(value: bytes, count: int = 1, **numbers: int) -> bytes:
    return build_batch([(1000 + place, b"key", value, ()) for place in range(count)], **numbers)  # type: ignore[arg-type]


def sealed(batch: bytes, position: int, *patch: int) -> bytes:
    """Return the batch with some bytes replaced and the CRC made right again."""
    changed = bytearray(batch)
    changed[position : position + len(patch)] = patch
    changed[17:21] = batch_crc(changed).to_bytes(4, "big")
    return bytes(changed)


@given(st.lists(fields, min_size=1, max_size=20), st.sampled_from(CODECS), st.integers(0, 2**62))
@settings(max_examples=150)
def test_a_built_batch_is_read_back(
    records: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    compression: Compression,
    base_offset: int,
) -> None:
    batch = build_batch(records, base_offset=base_offset, compression=compression)
    expected = [Record(base_offset + place, *each) for place, each in enumerate(records)]
    assert list(iterate_records(batch)) == expected
    header = read_header(batch)
    assert header.size_bytes == len(batch)
    assert header.compression is compression
    assert header.record_count == header.last_offset_delta + 1 == len(records)
    assert header.max_timestamp == max(each[0] for each in records)
    assert header.next_offset == base_offset + len(records)
    verify_crc(batch)


@given(
    st.sampled_from(CODECS),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(0, 500),
    st.booleans(),
)
@settings(max_examples=600)
def test_damaged_bytes_raise_only_wire_errors(
    compression: Compression, changes: list[tuple[int, int]], cut: int, cuts: bool
) -> None:
    whole = [(5, b"k" * (place % 7), b"value" * place, (("h", None),)) for place in range(12)]
    batch = bytearray(build_batch(whole, compression=compression))
    for place, byte in changes:
        batch[place % len(batch)] = byte
    data = bytes(batch[: cut % len(batch)] if cuts else batch)
    with suppress(WireError):
        for each in iterate_batches(data):
            list(iterate_records(each, max_decompressed_bytes=1_000_000))
    with suppress(WireError):
        list(iterate_records(data, max_decompressed_bytes=1_000_000))
    with suppress(ApiError):
        validate_produced(data)


@given(st.binary(max_size=300), st.sampled_from(CODECS[1:]))
def test_codecs_raise_only_wire_errors(data: bytes, compression: Compression) -> None:
    with suppress(WireError):
        decompress(compression, data, 10_000)
    assert decompress(compression, compress(compression, data), 300) == data


@pytest.mark.parametrize("compression", CODECS[1:])
def test_decompression_stops_at_the_cap(compression: Compression) -> None:
    bomb = compress(compression, bytes(4_000_000))
    with pytest.raises(WireError, match="more than the cap"):
        decompress(compression, bomb, 1_000_000)


@pytest.mark.parametrize("compression", CODECS[1:])
def test_compressed_data_that_ends_early_is_an_error(compression: Compression) -> None:
    batch = build_batch([(0, None, bytes(range(256)) * 40, ())] * 3, compression=compression)
    cut = bytearray(batch[:-20])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    with pytest.raises(WireError):
        list(iterate_records(cut))


def test_raw_snappy_and_zstd_without_content_size_are_read() -> None:
    import cramjam

    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"plain" * 9))) == b"plain" * 9
    data = streamed_zstd(b"plain" * 9)
    assert zstd.get_frame_info(data).decompressed_size is None
    assert decompress(Compression.ZSTD, data) == b"plain" * 9


def streamed_zstd(plain: bytes) -> bytes:
    codec = zstd.ZstdCompressor()
    return codec.compress(plain) + codec.flush()


@pytest.mark.parametrize("compress_frame", [streamed_zstd, zstd.compress])
def test_consecutive_zstd_frames_are_one_text(compress_frame: Callable[[bytes], bytes]) -> None:
    texts = [b"one " * 100_000, b"", b"two"]
    data = b"".join(map(compress_frame, texts))
    plain = b"".join(texts)
    assert decompress(Compression.ZSTD, data) == decompress(Compression.ZSTD, memoryview(data)) == plain
    assert decompress(Compression.ZSTD, data, len(plain)) == plain
    with pytest.raises(DecompressedSizeExceeded, match="more than the cap"):
        decompress(Compression.ZSTD, data, len(plain) - 1)
    with pytest.raises(DecompressedSizeExceeded, match="more than the cap"):
        decompress(Compression.ZSTD, data, len(texts[0]) - 1)
    for cut in (1, 5, len(data) // 2, len(data)):
        with pytest.raises(WireError, match="damaged ZSTD"):
            decompress(Compression.ZSTD, data[:-cut])


def test_zstd_frames_of_nothing_are_counted() -> None:
    nothing = zstd.compress(b"")
    assert decompress(Compression.ZSTD, nothing * MAX_MEMBERS) == b""
    with pytest.raises(DecompressedSizeExceeded, match="too many frames"):
        decompress(Compression.ZSTD, nothing * (MAX_MEMBERS + 1))


def test_consecutive_gzip_members_are_one_text() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_lz4_frames_have_independent_blocks_as_java_demands() -> None:
    flags = compress(Compression.LZ4, b"x" * 200_000)[4]
    assert flags == 0b0110_0000  # Version 1, independent blocks, no checksums, no content size.


def test_snappy_is_framed_as_the_java_client_does() -> None:
    framed = compress(Compression.SNAPPY, b"y" * 40_000)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Compression.SNAPPY, framed) == b"y" * 40_000


def test_a_fetched_buffer_can_end_within_a_batch() -> None:
    one, two = record_of(b"one"), record_of(b"two", base_offset=1)
    assert [bytes(each) for each in iterate_batches(one + two[:-1])] == [one]
    assert [bytes(each) for each in iterate_batches(one + two[:30])] == [one]
    assert [bytes(each) for each in iterate_batches(memoryview(one + two), check_crcs=True)] == [one, two]


def test_a_flipped_bit_shows_in_the_crc() -> None:
    batch = bytearray(record_of(b"value"))
    batch[-3] ^= 1
    with pytest.raises(WireError, match="CRC"):
        list(iterate_batches(batch, check_crcs=True))
    with pytest.raises(ApiError) as caught:
        validate_produced(batch)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_base_offset_and_leader_epoch_lie_outside_the_crc() -> None:
    batch = bytearray(record_of(b"value"))
    batch[0:8] = (77).to_bytes(8, "big")
    batch[12:16] = (3).to_bytes(4, "big")
    verify_crc(batch)
    assert next(iterate_records(batch)).offset == 77


def test_log_append_time_is_every_records_timestamp() -> None:
    batch = sealed(record_of(b"value", 2), 22, 0x08)
    assert [each.timestamp for each in iterate_records(batch)] == [1001, 1001]


def test_a_valid_batch_is_accepted() -> None:
    batch = record_of(b"value", 3, producer_id=9, producer_epoch=0, base_sequence=4)
    header = validate_produced(memoryview(batch))
    assert (header.record_count, header.producer_id, header.last_sequence) == (3, 9, 6)


@pytest.mark.parametrize("rest", [bytes(5), record_of(b"cut short")[:40]])
def test_a_truncated_rest_behind_the_batch_is_ignored(rest: bytes) -> None:
    header = validate_produced(record_of(b"value", 3) + rest)
    assert header.size_bytes == len(record_of(b"value", 3))


SOUND = record_of(b"value", 3)
REFUSED = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "a cut": (SOUND[:-1], ErrorCode.INVALID_RECORD),
    "two batches": (SOUND + SOUND, ErrorCode.INVALID_RECORD),
    "zeros behind it": (SOUND + bytes(30), ErrorCode.CORRUPT_MESSAGE),
    "a length of 5": (SOUND[:8] + (5).to_bytes(4, "big") + SOUND[12:], ErrorCode.CORRUPT_MESSAGE),
    "magic 9": (SOUND[:16] + b"\x09" + SOUND[17:], ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (SOUND[:16] + b"\x01" + SOUND[17:], ErrorCode.INVALID_RECORD),
    "a base offset": (b"\x00" * 7 + b"\x01" + SOUND[8:], ErrorCode.INVALID_RECORD),
    "a control batch": (
        build_transaction_marker(
            ControlType.COMMIT, timestamp_ms=1, producer_id=1, producer_epoch=0, coordinator_epoch=5
        ),
        ErrorCode.INVALID_RECORD,
    ),
    "counts that differ": (sealed(SOUND, 23, 0, 0, 0, 7), ErrorCode.INVALID_RECORD),
    "no records": (sealed(sealed(SOUND, 57, 0, 0, 0, 0), 23, 255, 255, 255, 255), ErrorCode.INVALID_RECORD),
    "no sequence": (record_of(b"v", producer_id=4), ErrorCode.INVALID_RECORD),
    "codec 6": (sealed(SOUND, 22, 6), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", REFUSED)
def test_batches_that_kafka_refuses_are_refused_with_its_code(name: str) -> None:
    records, code = REFUSED[name]
    with pytest.raises(ApiError) as caught:
        validate_produced(records)
    assert caught.value.code is code


def test_transaction_markers_are_read_again() -> None:
    batch = build_transaction_marker(
        ControlType.ABORT, timestamp_ms=8, producer_id=21, producer_epoch=3, coordinator_epoch=13
    )
    header = read_header(batch)
    (record,) = iterate_records(batch)
    assert (header.is_control, header.is_transactional, header.producer_id) == (True, True, 21)
    assert read_control_type(record.key) is ControlType.ABORT
    assert read_coordinator_epoch(record) == 13
    assert read_control_type(b"\0\0\0\x63") is ControlType.UNKNOWN


def test_no_record_exceeds_its_size_bound() -> None:
    headers = [("h\u00fc", b"x"), ("n", None)]
    for key, value in [(b"a", None), (None, b"b" * 9000), (b"c" * 70, b""), (None, b"d" * 8200)]:
        for names in ([], headers):
            size = len(encode_records([(0, None, b"", ()), (5, key, value, names)])) - len(
                encode_records([(0, None, b"", ())])
            )
            assert size <= max_record_bytes(key, value, names)


def test_records_of_every_kind_can_be_in_one_batch() -> None:
    rows = [
        (1_000, None, b"v", ()),
        (999, None, b"earlier", ()),
        (1_000 + 8_191, None, b"x" * 8_175, ()),
        (1_000 + 8_192, None, b"x" * 8_176, ()),
        (1_000, b"k", None, [("h", b"1")]),
        (1_000, None, None, ()),
        (1_000, b"", b"", ()),
    ]
    read = [
        (each.timestamp, each.key, each.value, list(each.headers))
        for each in iterate_records(build_batch(rows))
    ]
    assert read == [(time, key, value, list(headers)) for time, key, value, headers in rows]


class Interrupted(Exception):
    """What a signal handler raises."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarms on this system")
def test_a_raising_signal_handler_leaves_complete_records() -> None:
    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    rows: list[RecordFields] = [(1_000, None, b"plain", ()), (1_001, b"k", b"with a key", (("h", b"1"),))]
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for microseconds in range(20, 2_000, 20):
            writer = RecordWriter()
            with suppress(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
                while True:
                    writer.add(*rows[writer.count % 2])
            if writer.count:
                batch = seal_batch(
                    writer.payload(),
                    record_count=writer.count,
                    base_timestamp_ms=writer.base_timestamp_ms,
                    max_timestamp_ms=writer.max_timestamp_ms,
                )
                read = [(each.timestamp, each.key, each.value) for each in iterate_records(batch)]
                assert read == [rows[place % 2][:3] for place in range(writer.count)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_no_batch_is_empty() -> None:
    with pytest.raises(ValueError, match="one record at least"):
        encode_records([])


def test_a_batch_is_sealed_again_with_other_numbers() -> None:
    payload = encode_records([(50, None, b"a", ()), (48, None, b"b", ())])
    first, second = (
        seal_batch(
            payload,
            record_count=2,
            base_timestamp_ms=50,
            max_timestamp_ms=50,
            producer_id=5,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        for epoch, sequence in ((0, 10), (1, 0))
    )
    assert (read_header(first).base_sequence, read_header(second).base_sequence) == (10, 0)
    assert list(iterate_records(first)) == list(iterate_records(second))
    verify_crc(second)


@pytest.mark.parametrize(
    "compression, levels",
    [(Compression.GZIP, (1, 9)), (Compression.LZ4, (1, 12)), (Compression.ZSTD, (1, 19))],
)
def test_a_higher_level_compresses_further(compression: Compression, levels: tuple[int, int]) -> None:
    data = b"".join(b"flight %d of carrier %d\n" % (number, number % 7) for number in range(3_000))
    low, high = (compress(compression, data, level) for level in levels)
    assert len(high) < len(low)
    assert decompress(compression, low) == decompress(compression, high) == data


def test_an_empty_batch_is_not_built() -> None:
    with pytest.raises(ValueError, match="one record"):
        build_batch([])


def test_sequences_wrap_to_zero() -> None:
    header = read_header(record_of(b"v", 3, producer_id=1, base_sequence=2**31 - 2))
    assert header.last_sequence == 0
