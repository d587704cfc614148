"""The framing of compressed data: which one Kafka's Java client reads, and how many pieces are allowed."""

from kohort.protocol.errors import WireError
from kohort.protocol.records.header import Buffer, Compression

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = len(XERIAL_MAGIC) + 8

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS = 4  # Position of the flags: version, independent blocks, ..., reserved, dictionary id.
_LZ4_FLAGS_MASK = 0b1110_0011
_LZ4_FLAGS_OF_JAVA = 0b0110_0000

MAX_MEMBERS = 64  # gzip members or zstd frames in one batch. Usually there is one.


class DecompressedSizeExceeded(WireError):
    """The decompressed data is larger than the limit, or has too many pieces."""


def check_framing(compression: Compression, data: Buffer) -> None:
    """Check that Kafka's Java client reads such a framing. Raises: WireError.

    `decompress` reads more: logs may have batches from before this check.
    """
    if compression is Compression.LZ4:
        if bytes(data[:4]) != _LZ4_MAGIC:
            raise WireError("LZ4 data without a frame, which Kafka's Java client cannot read")
        if len(data) > _LZ4_FLAGS and data[_LZ4_FLAGS] & _LZ4_FLAGS_MASK != _LZ4_FLAGS_OF_JAVA:
            raise WireError("an LZ4 frame with linked blocks or a dictionary, which Java cannot read")
    elif compression is Compression.SNAPPY:
        is_framed = bytes(data[: len(XERIAL_MAGIC)]) == XERIAL_MAGIC
        if is_framed and len(data) < XERIAL_HEADER_BYTES:
            raise WireError("SNAPPY data is cut short in its header")
