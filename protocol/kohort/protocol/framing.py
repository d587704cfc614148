"""Splits a stream into frames: four bytes of length, big-endian, then that many bytes. Sans-I/O.

    reader = FrameReader(max_frame_bytes=104_857_600)
    frames = reader.receive(data)        # the bytes of one `recv`
    view = reader.buffer()               # inside a large frame: the buffer for `recv_into`
    frames = reader.filled(count)

A small frame is returned as `bytes`. A frame of several chunks is returned as a writable `memoryview`,
without a copy. Memory grows with the bytes received, not with the length announced. The limit of an API is
checked as soon as the frame's first two bytes, the API key, are received.
"""

import struct
from collections.abc import Callable

from kohort.protocol.errors import WireError

LENGTH_BYTES = 4
API_KEY_BYTES = 2
BUFFER_BYTES_MIN = 4096
FIRST_BUFFER_BYTES_MAX = (1 << 20) + (64 << 10)  # A request with a megabyte of records.
FIRST_BUFFER_FACTOR = 20  # After one `recv` of 64 KiB the buffer holds such a frame.
SMALL_FRAME_BYTES = 64 * 1024  # No API has a lower limit: smaller frames need no check.
TLS_RECORD_BEGINNINGS = (b"\x15\x03", b"\x16\x03")  # An alert and a handshake, of every version of TLS.
Frame = bytes | memoryview

LENGTH = struct.Struct(">i").unpack_from
"""Reads a frame's length."""


class FrameReader:
    """Splits a stream into frames.

    `limit_of` returns the largest frame of requests of an API, from its key and the general limit.
    """

    __slots__ = (
        "_large",
        "_large_size",
        "_limit_of",
        "_max_frame_bytes",
        "_received",
        "buffer_bytes",
        "is_frugal",
        "rest",
        "small_bytes_max",
    )

    def __init__(self, max_frame_bytes: int, limit_of: Callable[[int, int], int] | None = None) -> None:
        self._limit_of = limit_of
        self.rest = b""
        """The first bytes of the next frame's length, fewer than four."""
        self._large: bytearray | None = None  # the frame that is being received
        self._large_size = 0
        self._received = 0
        self.buffer_bytes = 0
        """The size of the unfinished frame's buffer; 0 if there is none."""
        self.is_frugal = False
        """Whether buffers start at twice the bytes received: one more copy, but less memory."""
        self.allow(max_frame_bytes)

    def allow(self, max_frame_bytes: int) -> None:
        """Change the limit of a frame's size."""
        self._max_frame_bytes = max_frame_bytes
        self.small_bytes_max = min(max_frame_bytes, SMALL_FRAME_BYTES)

    @property
    def in_frame(self) -> bool:
        """Whether part of a frame has been received."""
        return self._large is not None or bool(self.rest)

    def receive(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes.

        Raises: WireError for a length below zero or above the limit, before anything is allocated.
        """
        if self._large is not None:
            return self._continue(data)
        if self.rest:
            data = self.rest + data
            self.rest = b""
        size = len(data)
        if LENGTH_BYTES <= size <= self.small_bytes_max and LENGTH(data)[0] == size - LENGTH_BYTES:
            return [data[LENGTH_BYTES:]]  # The usual case: exactly one frame.
        return self._split(data)

    def _split(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        position, size = 0, len(data)
        while size - position >= LENGTH_BYTES:
            start = position + LENGTH_BYTES
            (length,) = LENGTH(data, position)
            if length < 0 or length > self._max_frame_bytes:
                hint = _tls_hint(data[position:start])
                raise WireError(f"a frame of {length} bytes; the limit is {self._max_frame_bytes}{hint}")
            position = start + length
            if length > SMALL_FRAME_BYTES:
                self._check_limit(data[start : start + API_KEY_BYTES], length)
            if position > size:
                self._begin(data[start:], length)
                return frames
            frames.append(data[start:position])
        self.rest = data[position:]
        return frames

    def buffer(self) -> memoryview | None:
        """Return the buffer for the next bytes of the unfinished frame, or None between frames."""
        if self._large is None:
            return None
        if self._received == len(self._large):
            # A new bytearray, because it cannot grow while the caller still holds the last view.
            grown = bytearray(_buffer_size(self._received, self._large_size, is_frugal=self.is_frugal))
            grown[: self._received] = self._large
            self._large = grown
            self.buffer_bytes = len(grown)
        return memoryview(self._large)[self._received :]

    def filled(self, count: int) -> list[Frame]:
        """Return the frame if the `count` bytes written into `buffer()` complete it.

        Raises: WireError if the frame is larger than its API allows.
        """
        assert self._large is not None
        before = self._received
        self._received += count
        if before < API_KEY_BYTES:
            self._check_limit(self._large[: min(self._received, API_KEY_BYTES)], self._large_size)
        if self._received < self._large_size:
            return []
        frame = memoryview(self._large)
        self._large = None
        self.buffer_bytes = 0
        return [frame]

    def _begin(self, data: bytes, length: int) -> None:
        self._large_size = length
        self._received = len(data)
        self._large = bytearray(_buffer_size(len(data), length, is_frugal=self.is_frugal))
        self._large[: len(data)] = data
        self.buffer_bytes = len(self._large)

    def _check_limit(self, api_key_bytes: bytes | bytearray, length: int) -> None:
        """Raise WireError if the API key is received and does not allow a frame of this length."""
        if self._limit_of is None or len(api_key_bytes) < API_KEY_BYTES:
            return
        api_key = int.from_bytes(api_key_bytes, "big", signed=True)
        limit = self._limit_of(api_key, self._max_frame_bytes)
        if length > limit:
            raise WireError(f"a frame of {length} bytes for API {api_key}; the limit is {limit} there")

    def _continue(self, data: bytes) -> list[Frame]:
        view = memoryview(data)
        frames: list[Frame] = []
        while view and self._large is not None:
            with_room = self.buffer()
            assert with_room is not None
            count = min(len(with_room), len(view))
            with_room[:count] = view[:count]
            with_room.release()
            frames += self.filled(count)
            view = view[count:]
        if view:
            frames += self.receive(bytes(view))
        return frames


def _tls_hint(length: bytes) -> str:
    """Return a hint for the error message if an impossible length is the beginning of a TLS record."""
    return "; the other side seems to speak TLS" if length.startswith(TLS_RECORD_BEGINNINGS) else ""


def _buffer_size(received: int, length: int, *, is_frugal: bool) -> int:
    """Return the buffer size for a frame of `length` bytes, of which `received` bytes are received."""
    fast = 0 if is_frugal else min(FIRST_BUFFER_FACTOR * received, FIRST_BUFFER_BYTES_MAX)
    return min(length, max(BUFFER_BYTES_MIN, fast, 2 * received))
