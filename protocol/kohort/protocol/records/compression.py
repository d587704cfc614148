"""What is compressed in a batch, by the four codecs of Kafka.

Decompression stops at a cap: a few bytes on the wire must not become gigabytes in memory. The codecs are
imported when the first compressed batch comes: they take a tenth of a client's start.
"""

from kohort.protocol.records.compressed_framing import PlainSizeExceeded
from kohort.protocol.records.header import Buffer, Compression

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024


def compress(compression: Compression, data: bytes, level: int | None = None) -> bytes:
    """Return `data` in the codec's framing, at this level or the codec's default; snappy has no levels."""
    if compression is Compression.NONE:
        return data
    from kohort.protocol.records import codecs  # noqa: PLC0415

    return codecs.compress(compression, data, level)


def decompress(compression: Compression, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return what was compressed.

    Raises: PlainSizeExceeded when it is larger than `max_bytes`, WireError when it is damaged.
    """
    if compression is not Compression.NONE:
        from kohort.protocol.records import codecs  # noqa: PLC0415

        return codecs.decompress(compression, data, max_bytes)
    if len(data) > max_bytes:
        raise PlainSizeExceeded("data is more than the cap")
    return bytes(data)
