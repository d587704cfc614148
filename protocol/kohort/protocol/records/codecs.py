"""gzip, snappy, lz4 and zstd, in the framings that Kafka's Java client writes and reads.

The number of pieces, such as gzip members, is limited: an empty piece costs time, but does not count against
the limit of bytes.
"""

import sys
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame

from kohort.protocol.errors import WireError
from kohort.protocol.records.compressed_framing import (
    MAX_MEMBERS,
    XERIAL_HEADER_BYTES,
    XERIAL_MAGIC,
    DecompressedSizeExceeded,
)
from kohort.protocol.records.header import Buffer, Compression

if sys.version_info >= (3, 14):  # PEP 784; older versions use its backport.
    from compression import zstd as zstd  # noqa: PLC0414  # Tests import it from here.
else:
    from backports import zstd as zstd  # noqa: PLC0414

_GZIP_WINDOW_BITS = 31
_ZSTD_PIECE_BYTES = 128 * 1024
_ZSTD_LEVEL = 3
_XERIAL_HEADER = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2  # Version 1, readable by 1.
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_LEAST_BLOCK_BYTES = 1024  # The smallest block of Java's SnappyOutputStream ...
_XERIAL_SHORT_BLOCKS_MAX = 1024  # ... except for flushed blocks.


def compress(compression: Compression, data: bytes, level: int | None) -> bytes:
    """Return `data` compressed at this level, or at the codec's default. Snappy has no levels."""
    return _COMPRESSORS[compression](data, level)


def decompress(compression: Compression, data: Buffer, max_bytes: int) -> bytes:
    """Return the decompressed data.

    Raises: DecompressedSizeExceeded if it is larger than `max_bytes`, WireError if it is damaged.
    """
    try:
        plain = _DECOMPRESSORS[compression](data, max_bytes)
    except (zlib.error, RuntimeError, zstd.ZstdError, cramjam.DecompressionError, EOFError) as error:
        raise WireError(f"damaged {compression.name} data: {error}") from error
    if len(plain) > max_bytes:
        raise _too_large(compression)
    return plain


def _too_large(compression: Compression) -> DecompressedSizeExceeded:
    return DecompressedSizeExceeded(f"{compression.name} data decompresses to more than the cap")


def _too_many_pieces(compression: Compression, what: str) -> DecompressedSizeExceeded:
    return DecompressedSizeExceeded(f"{compression.name} data is cut into too many {what}")


def _gzip(data: bytes, level: int | None) -> bytes:
    codec = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=_GZIP_WINDOW_BITS)
    return codec.compress(data) + codec.flush()


def _read_gzip(data: Buffer, max_bytes: int) -> bytes:
    members: list[bytes] = []
    room = max_bytes + 1
    rest = bytes(data)
    while len(members) < MAX_MEMBERS:  # Java's GZIPInputStream also reads several members.
        codec = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        members.append(codec.decompress(rest, room))
        room -= len(members[-1])
        if not room:
            raise _too_large(Compression.GZIP)
        if not codec.eof:
            raise EOFError("it ends early")
        rest = codec.unused_data
        if not rest:
            return members[0] if len(members) == 1 else b"".join(members)
    raise _too_many_pieces(Compression.GZIP, "members")


def _snappy(data: bytes, _level: int | None) -> bytes:
    out = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        out += (len(block).to_bytes(4, "big"), block)
    return b"".join(out)


def _read_snappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _read_raw_snappy(view, max_bytes)  # librdkafka may write it.
    out: list[bytes] = []
    position, total = XERIAL_HEADER_BYTES, 0
    blocks_max = _XERIAL_SHORT_BLOCKS_MAX + max_bytes // _XERIAL_LEAST_BLOCK_BYTES
    while position < len(view):
        if len(out) == blocks_max:
            raise _too_many_pieces(Compression.SNAPPY, "blocks")
        stop = position + 4 + int.from_bytes(view[position : position + 4], "big")
        if stop > len(view):
            raise EOFError("a block ends early")
        block = _read_raw_snappy(view[position + 4 : stop], max_bytes - total)
        out.append(block)
        total += len(block)
        position = stop
    return b"".join(out)


def _read_raw_snappy(block: memoryview, max_bytes: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)  # Read from the block's first bytes.
    if size > max_bytes:
        raise _too_large(Compression.SNAPPY)
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: bytes, level: int | None) -> bytes:
    # Kafka's Java client refuses linked blocks. Like it, kohort writes no content size and no checksum.
    return bytes(
        lz4.frame.compress(
            data,
            compression_level=lz4.frame.COMPRESSIONLEVEL_MIN if level is None else level,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            content_checksum=False,
            store_size=False,
        )
    )


def _read_lz4(data: Buffer, max_bytes: int) -> bytes:
    codec = lz4.frame.LZ4FrameDecompressor()
    plain = bytes(codec.decompress(bytes(data), max_length=max_bytes + 1))
    if not codec.eof and len(plain) <= max_bytes:
        raise EOFError("it ends early")
    return plain


def _zstd(data: bytes, level: int | None) -> bytes:
    return zstd.compress(data, _ZSTD_LEVEL if level is None else level)


def _read_zstd(data: Buffer, max_bytes: int) -> bytes:
    # Streamed frames have no content size. Pieces of a fixed size take half the time of one growing buffer.
    pieces: list[bytes] = []
    room = max_bytes + 1
    for _ in range(MAX_MEMBERS):  # Java's ZstdInputStream also reads several frames.
        codec = zstd.ZstdDecompressor()
        rest = data
        while True:
            piece = codec.decompress(rest, min(_ZSTD_PIECE_BYTES, room))
            pieces.append(piece)
            room -= len(piece)
            if not room:
                raise _too_large(Compression.ZSTD)
            if codec.eof:
                break
            if codec.needs_input:
                raise EOFError("it ends early")
            rest = b""
        data = codec.unused_data
        if not data:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    raise _too_many_pieces(Compression.ZSTD, "frames")


_COMPRESSORS: dict[Compression, Callable[[bytes, int | None], bytes]] = {
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESSORS: dict[Compression, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _read_gzip,
    Compression.SNAPPY: _read_snappy,
    Compression.LZ4: _read_lz4,
    Compression.ZSTD: _read_zstd,
}
