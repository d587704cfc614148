"""A batch is taken when a reader of records would read it: the walk and the reader agree on every batch."""

import gzip
import zlib
from collections.abc import Callable
from functools import partial
from random import Random

import cramjam
import lz4.frame
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kohort.protocol.errors import WireError
from kohort.protocol.records import Compression, batch_crc, build_batch, iterate_records, read_header
from kohort.protocol.records.checking import check_records, with_max_timestamp
from kohort.protocol.records.codecs import zstd
from kohort.protocol.records.compressed_framing import XERIAL_MAGIC
from kohort.protocol.records.header import HEADER, HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader

NOW_MS = 1_700_000_000_000
texts = st.none() | st.binary(max_size=200)
rows_of_any_shape = st.lists(
    st.tuples(
        st.integers(-100, 300).map(lambda delta: NOW_MS + delta),
        texts,
        texts,
        st.lists(st.tuples(st.text(max_size=3), texts), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=30,
)
# Many records of one shape, with some of another between: what is walked in runs.
rows_in_runs = st.builds(
    lambda key, value, count, others, seed: _in_runs(key, value, count, others, Random(seed)),
    st.integers(0, 200),
    st.integers(0, 200),
    st.integers(1, 400),
    st.integers(0, 4),
    st.integers(0, 1000),
)
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def _in_runs(key: int, value: int, count: int, others: int, dice: Random) -> list[Row]:
    rows: list[Row] = [
        (NOW_MS + index // dice.choice((1, 3, 50)), dice.randbytes(key), dice.randbytes(value), ())
        for index in range(count)
    ]
    for _ in range(others):
        rows.insert(dice.randrange(len(rows)), (NOW_MS - 5, None, b"?", (("h", None),)))
    return rows


def payload_of(batch: bytes) -> bytes:
    return batch[HEADER_BYTES:]


@given(rows_of_any_shape | rows_in_runs, st.sampled_from(Compression))
def test_valid_records_are_accepted_with_their_max_timestamp(
    rows: list[Row], compression: Compression
) -> None:
    batch = build_batch(rows, compression=compression)
    checked = check_records(batch, read_header(batch))
    assert checked.max_timestamp == max(timestamp for timestamp, *_ in rows)
    assert checked.without_key == tuple(index for index, row in enumerate(rows) if row[1] is None)


@given(rows_of_any_shape | rows_in_runs, st.data())
def test_accepted_records_are_readable(rows: list[Row], data: st.DataObject) -> None:
    """Bytes are changed, put in and taken out: the walk refuses, or a reader reads the same."""
    batch = build_batch(rows)
    header = read_header(batch)
    payload = bytearray(payload_of(batch))
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(payload) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                payload[index] = data.draw(st.integers(0, 255))
            case 1:
                payload.insert(index, data.draw(st.integers(0, 255)))
            case _:
                del payload[index]
    changed = HEADER.pack(*_with_length(header, len(payload))) + payload
    try:
        checked = check_records(changed, read_header(changed))
    except WireError:
        return
    records = list(iterate_records(changed))
    assert [record.offset for record in records] == list(range(header.record_count))
    assert checked.without_key == tuple(index for index, each in enumerate(records) if each.key is None)
    assert checked.max_timestamp == max(-1, *(record.timestamp for record in records))


def _with_length(header: BatchHeader, payload_bytes: int) -> tuple[int, ...]:
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + payload_bytes
    values: tuple[int, ...] = msgspec.structs.astuple(msgspec.structs.replace(header, batch_length=length))
    return values


@pytest.mark.parametrize("count", [64, 100, 8_192, 9_000])
@pytest.mark.parametrize("step_ms", [0, 1, 100])
def test_runs_end_where_numbers_grow(count: int, step_ms: int) -> None:
    rows = [(NOW_MS + index * step_ms, b"k", b"v" * 20, ()) for index in range(count)]
    batch = build_batch(rows)
    assert check_records(batch, read_header(batch)).max_timestamp == NOW_MS + (count - 1) * step_ms


@pytest.mark.parametrize("broken", [20, 63, 64, 70, 199])
def test_a_wrong_offset_delta_is_found_within_a_run(broken: int) -> None:
    batch = bytearray(build_batch([(NOW_MS, b"k", b"v" * 20, ()) for _ in range(200)]))
    header = read_header(batch)
    checked = check_records(batch, header)
    assert checked.without_key == ()
    short, long = 28, 29  # A record's bytes with an offset delta of one byte, and of two.
    at = HEADER_BYTES + min(broken, 64) * short + max(0, broken - 64) * long + 3
    batch[at] ^= 2
    with pytest.raises(WireError, match=f"record {broken} has the offset delta"):
        check_records(batch, header)


@pytest.mark.parametrize("said", [0, 1, 4])
def test_a_wrong_record_count_is_refused(said: int) -> None:
    batch = build_batch([(NOW_MS, b"k", b"v", ())] * 3)
    fields = list(HEADER.unpack_from(batch))
    fields[-1] = said
    changed = HEADER.pack(*fields) + payload_of(batch)
    with pytest.raises(WireError):
        check_records(changed, read_header(changed))


@pytest.mark.parametrize("compression", [each for each in Compression if each])
def test_records_that_do_not_decompress_are_refused(compression: Compression) -> None:
    batch = bytearray(build_batch([(NOW_MS, b"k", b"v" * 500, ())] * 5, compression=compression))
    batch[HEADER_BYTES : HEADER_BYTES + 20] = b"\xff" * 20
    with pytest.raises(WireError):
        check_records(batch, read_header(batch))


@given(st.integers(-1, 2**62))
@example(-1)
def test_a_corrected_batch_has_its_crc(timestamp_ms: int) -> None:
    batch = with_max_timestamp(build_batch([(NOW_MS, b"k", b"v", ())]), timestamp_ms)
    header = read_header(batch)
    assert header.max_timestamp == timestamp_ms
    assert header.crc == batch_crc(batch)


def framed(compression: Compression, frame: Callable[[bytes], bytes]) -> bytes:
    """Return a batch whose records were compressed so."""
    plain = build_batch([(NOW_MS, b"k", bytes([number]) * 2_000, ()) for number in range(100)])
    batch = bytearray(plain[:HEADER_BYTES] + frame(payload_of(plain)))
    fields = list(HEADER.unpack_from(batch))
    fields[1], fields[5] = len(batch) - LOG_OVERHEAD_BYTES, compression.value
    HEADER.pack_into(batch, 0, *fields)
    fields[4] = batch_crc(batch)
    HEADER.pack_into(batch, 0, *fields)
    return bytes(batch)


def with_a_large_window(data: bytes) -> bytes:
    """Return a frame that a reader needs 256 MiB for."""
    large = zstd.CompressionParameter.window_log
    codec = zstd.ZstdCompressor(options={large: 28})
    return bytes(codec.compress(data) + codec.flush())


SKIPPABLE = bytes.fromhex("502a4d1804000000") + b"abcd"
LZ4_INDEPENDENT = partial(lz4.frame.compress, block_linked=False, store_size=False)


def with_a_dictionary(data: bytes) -> bytes:
    """Return an LZ4 frame that names a dictionary, of which it makes no use."""
    made = bytes(LZ4_INDEPENDENT(data))
    assert made[4:7] == b"\x60\x40\x82"
    return made[:4] + b"\x61\x40" + bytes(4) + b"\xa0" + made[7:]


@pytest.mark.parametrize(
    "compression, frame",
    [
        (Compression.LZ4, partial(lz4.frame.compress, block_linked=True)),
        (Compression.LZ4, with_a_dictionary),
        (Compression.LZ4, lambda data: SKIPPABLE + LZ4_INDEPENDENT(data)),
        (Compression.LZ4, lambda data: SKIPPABLE),
        (Compression.LZ4, lambda data: b""),
        (Compression.SNAPPY, lambda data: XERIAL_MAGIC),
        (Compression.GZIP, zlib.compress),
        (Compression.ZSTD, with_a_large_window),
    ],
    ids=["linked", "dictionary", "skippable", "nothing", "empty", "header", "zlib", "window"],
)
def test_frames_that_java_refuses_are_refused(
    compression: Compression, frame: Callable[[bytes], bytes]
) -> None:
    """What Apache Kafka 4.3.1's own client does with each was looked at."""
    batch = framed(compression, frame)
    with pytest.raises(WireError):
        check_records(batch, read_header(batch))


@pytest.mark.parametrize(
    "compression, frame",
    [
        (Compression.LZ4, LZ4_INDEPENDENT),
        (Compression.LZ4, partial(lz4.frame.compress, block_linked=False, content_checksum=True)),
        (Compression.LZ4, partial(lz4.frame.compress, block_linked=False, block_checksum=True)),
        (Compression.LZ4, partial(lz4.frame.compress, block_linked=False, block_size=7)),
        (Compression.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
        (Compression.GZIP, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
        (Compression.ZSTD, lambda data: SKIPPABLE + zstd.compress(data[:9]) + zstd.compress(data[9:])),
    ],
    ids=["plain", "checksum", "checksums", "blocks", "raw", "members", "frames"],
)
def test_frames_that_java_reads_are_accepted(
    compression: Compression, frame: Callable[[bytes], bytes]
) -> None:
    batch = framed(compression, frame)
    assert check_records(batch, read_header(batch)).max_timestamp == NOW_MS


def test_linked_blocks_accepted_earlier_are_still_read() -> None:
    batch = framed(Compression.LZ4, partial(lz4.frame.compress, block_linked=True))
    assert len(list(iterate_records(batch))) == 100
