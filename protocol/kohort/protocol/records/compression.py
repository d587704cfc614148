"""Compresses and decompresses the records of a batch with Kafka's four codecs.

Decompression has a limit: a few bytes on the wire must not become gigabytes in memory. The codecs are
imported with the first compressed batch, because their import takes a tenth of a client's start.
"""

from kohort.protocol.records.compressed_framing import DecompressedSizeExceeded
from kohort.protocol.records.header import Buffer, Compression

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024


def compress(compression: Compression, data: bytes, level: int | None = None) -> bytes:
    """Return `data` compressed at this level, or at the codec's default. Snappy has no levels."""
    if compression is Compression.NONE:
        return data
    from kohort.protocol.records import codecs  # noqa: PLC0415

    return codecs.compress(compression, data, level)


def decompress(compression: Compression, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the decompressed data.

    Raises: DecompressedSizeExceeded if it is larger than `max_bytes`, WireError if it is damaged.
    """
    if compression is not Compression.NONE:
        from kohort.protocol.records import codecs  # noqa: PLC0415

        return codecs.decompress(compression, data, max_bytes)
    if len(data) > max_bytes:
        raise DecompressedSizeExceeded("data is more than the cap")
    return bytes(data)
