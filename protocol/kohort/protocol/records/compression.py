"""What is compressed in a batch, by the four codecs of Kafka.

Decompression stops at a cap: a few bytes on the wire must not become gigabytes in memory. The codecs are
imported when the first compressed batch comes: they take a tenth of a client's start.
"""

from kohort.protocol.errors import WireError
from kohort.protocol.records.header import Buffer, Compression

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = len(XERIAL_MAGIC) + 8

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS = 4  # Where they stand: version, independent blocks, ..., a reserved bit, a dictionary's id.
_LZ4_FLAGS_MASK = 0b1110_0011
_LZ4_FLAGS_OF_JAVA = 0b0110_0000

MAX_MEMBERS = 64  # gzip members or zstd frames in one batch; whoever writes one batch writes one.


class PlainSizeExceeded(WireError):
    """What was compressed is more than the cap, or in more pieces than there is reason for."""


def compress(compression: Compression, data: bytes, level: int | None = None) -> bytes:
    """Return `data` in the codec's framing, at this level or the codec's default; snappy has no levels."""
    if compression is Compression.NONE:
        return data
    from kohort.protocol.records import codecs  # noqa: PLC0415

    return codecs.compress(compression, data, level)


def check_framing(compression: Compression, data: Buffer) -> None:
    """Return if Kafka's Java client reads such a framing, whatever is in it. Raises: WireError.

    What `decompress` reads beyond that was taken from producers before this was looked at.
    """
    if compression is Compression.LZ4:
        if bytes(data[:4]) != _LZ4_MAGIC:
            raise WireError("LZ4 data that begins with no frame, which Java does not read")
        if len(data) > _LZ4_FLAGS and data[_LZ4_FLAGS] & _LZ4_FLAGS_MASK != _LZ4_FLAGS_OF_JAVA:
            raise WireError("an LZ4 frame with dependent blocks or a dictionary, which Java does not read")
    elif compression is Compression.SNAPPY:
        is_framed = bytes(data[: len(XERIAL_MAGIC)]) == XERIAL_MAGIC
        if is_framed and len(data) < XERIAL_HEADER_BYTES:
            raise WireError("SNAPPY data that ends within its header")


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
