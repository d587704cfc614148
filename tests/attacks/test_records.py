"""Batches that are small on the wire and large to look at."""

from __future__ import annotations

import struct
import zlib

import lz4.frame
import pytest

from kohort.protocol.records import Compression, compress, encode_records
from kohort.protocol.records.varint import encode_varint
from tests.attacks.producing import PRODUCE_VERSION, batch_of, create, produce, producing
from tests.attacks.trial import StartTrial

TOPIC = "attacked"
BATCH_BYTES_MAX = 1_000_000  # Below max.message.bytes, so that the size alone refuses nothing.
TINY_RECORDS = 700_000
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def record_with_headers(count: int) -> bytes:
    """Return one record with so many headers, each an empty name and an empty value."""
    body = b"\0\0\0" + encode_varint(-1) + encode_varint(-1) + encode_varint(count) + bytes(2 * count)
    return encode_varint(len(body)) + body


def tiny_records(count: int) -> bytes:
    """Return so many records without a key or a value."""
    return encode_records([(0, None, b"", ())] * count)


@pytest.mark.parametrize("compression_type", ["producer", "gzip"])
def test_a_record_with_millions_of_headers(trial: StartTrial, compression_type: str) -> None:
    """3.8 kB on the wire; a topic with a codec of its own has it compressed anew."""
    batches = {
        count: batch_of(record_with_headers(count), 1, Compression.ZSTD)
        for count in (2_000_000, 10_000_000, 60_000_000)
    }
    with trial() as attacked:
        create(attacked.connect(), TOPIC, configs={"compression.type": compression_type})
        for count, batch in batches.items():
            attacked.note(f"{count} headers, {len(batch)} bytes")
            produce(attacked.connect(), TOPIC, batch)


@pytest.mark.parametrize("compression_type", ["producer", "gzip"])
def test_one_large_value_of_zeros(trial: StartTrial, compression_type: str) -> None:
    value = bytes(120_000_000)
    batch = batch_of(encode_records([(0, None, value, ())]), 1, Compression.ZSTD)
    with trial() as attacked:
        line = attacked.connect()
        create(line, TOPIC, configs={"compression.type": compression_type})
        for _ in range(3):
            produce(line, TOPIC, batch)


@pytest.mark.parametrize("compression_type", ["producer", "gzip"])
def test_hundreds_of_thousands_of_tiny_records(trial: StartTrial, compression_type: str) -> None:
    batch = batch_of(tiny_records(TINY_RECORDS), TINY_RECORDS, Compression.ZSTD)
    assert len(batch) < BATCH_BYTES_MAX
    with trial() as attacked:
        line = attacked.connect()
        create(line, TOPIC, configs={"compression.type": compression_type})
        for _ in range(3):
            produce(line, TOPIC, batch)


def empty_gzip() -> bytes:
    """Return a gzip member of nothing."""
    codec = zlib.compressobj(wbits=31)
    return codec.compress(b"") + codec.flush()


NOTHINGS = {
    Compression.GZIP: (b"", empty_gzip()),
    Compression.ZSTD: (b"", compress(Compression.ZSTD, b"")),
    Compression.LZ4: (b"", lz4.frame.compress(b"")),
    Compression.SNAPPY: (XERIAL_HEADER, struct.pack(">i", 1) + b"\0"),
}


def test_batches_of_empty_frames(trial: StartTrial) -> None:
    """50,000 members and more, each of which sets a decoder up for nothing; five batches in a row."""
    with trial() as attacked:
        create(attacked.connect(), TOPIC)
        for codec, (head, nothing) in NOTHINGS.items():
            payload = head + nothing * ((BATCH_BYTES_MAX - len(head)) // len(nothing))
            batch = batch_of(payload, 1, codec, plain=False)
            attacked.note(f"nothing in {codec.name}")
            for _ in range(5):
                assert produce(attacked.connect(), TOPIC, batch) != 0


def test_many_producers_of_large_batches_at_once(trial: StartTrial) -> None:
    """Each within every limit of a batch; together they are what the broker has to bound."""
    batch = batch_of(encode_records([(0, None, bytes(100_000_000), ())]), 1, Compression.ZSTD)
    with trial() as attacked:
        lines = attacked.connections(20)
        create(lines[0], TOPIC)
        for line in lines:
            line.send(producing(TOPIC, batch), PRODUCE_VERSION)
        for line in lines:
            try:
                line.take()
            except ConnectionError:
                continue
