"""How compressed data are framed: what Kafka's Java client reads, and how many pieces there may be."""

from kohort.protocol.errors import WireError
from kohort.protocol.records.header import Buffer, Compression

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = len(XERIAL_MAGIC) + 8

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS = 4  # Where they stand: version, independent blocks, ..., a reserved bit, a dictionary's id.
_LZ4_FLAGS_MASK = 0b1110_0011
_LZ4_FLAGS_OF_JAVA = 0b0110_0000

MAX_MEMBERS = 64  # gzip members or zstd frames in one batch; whoever writes one batch writes one.


class PlainSizeExceeded(WireError):
    """What was compressed is more than the cap, or in more pieces than there is reason for."""


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
