"""Frames out of a stream: four bytes of length, big-endian, then that many bytes. Sans-I/O.

    reader = FrameReader(max_frame_bytes=104_857_600)
    frames = reader.receive(data)        # what one `recv` brought
    view = reader.buffer()               # inside a large frame: where to `recv_into`
    frames = reader.filled(count)

A small frame comes as `bytes`; one that spans several chunks as a writable `memoryview`, which was
never copied. Memory grows with what has arrived, not with what a length promises. A frame of requests
is held to its API's own limit as soon as its first two bytes, the API key, are there.
"""

import struct
from collections.abc import Callable

from kohort.protocol.errors import WireError

LENGTH_BYTES = 4
API_KEY_BYTES = 2
LEAST_ALLOCATION_BYTES = 4096
FIRST_STEPS_END_BYTES = (1 << 20) + (64 << 10)  # A megabyte of records, and what stands around them.
FIRST_STEPS_FACTOR = 20  # One `recv` of 64 KiB, and such a frame is written where it will stay.
SMALL_FRAME_BYTES = 64 * 1024  # No API's limit is below: what comes whole in one `recv` is not looked at.
TLS_RECORD_BEGINNINGS = (b"\x15\x03", b"\x16\x03")  # An alert and a handshake, of every version of TLS.
Frame = bytes | memoryview

LENGTH = struct.Struct(">i").unpack_from
"""Reads the length before a frame."""


class FrameReader:
    """Splits a stream into frames, whatever pieces it comes in.

    `limit_of` says, of an API key and the limit for all, how large a frame of such requests may be.
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
        """What has arrived of a frame's length: fewer bytes than it has."""
        self._large: bytearray | None = None  # the frame under way
        self._large_size = 0
        self._received = 0
        self.buffer_bytes = 0
        """How much memory the buffer of the frame under way has been given; 0 where there is none."""
        self.is_frugal = False
        """Whether buffers begin no larger than twice what has arrived: a copy more, and memory less."""
        self.allow(max_frame_bytes)

    def allow(self, max_frame_bytes: int) -> None:
        """Take frames of up to so many bytes from now on."""
        self._max_frame_bytes = max_frame_bytes
        self.small_bytes_max = min(max_frame_bytes, SMALL_FRAME_BYTES)

    @property
    def in_frame(self) -> bool:
        """Whether part of a frame has arrived."""
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
            return [data[LENGTH_BYTES:]]  # What comes nearly always: one frame, whole.
        return self._split(data)

    def _split(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        position, size = 0, len(data)
        while size - position >= LENGTH_BYTES:
            start = position + LENGTH_BYTES
            (length,) = LENGTH(data, position)
            if length < 0 or length > self._max_frame_bytes:
                seems = _seems(data[position:start])
                raise WireError(f"a frame of {length} bytes; the limit is {self._max_frame_bytes}{seems}")
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
        """Return where the next bytes of the frame under way belong, or None between frames."""
        if self._large is None:
            return None
        if self._received == len(self._large):
            # A new one, because a bytearray cannot grow while the caller still holds the last view.
            grown = bytearray(_room(self._received, self._large_size, is_frugal=self.is_frugal))
            grown[: self._received] = self._large
            self._large = grown
            self.buffer_bytes = len(grown)
        return memoryview(self._large)[self._received :]

    def filled(self, count: int) -> list[Frame]:
        """Return the frame that `count` bytes written into `buffer()` complete, if they do.

        Raises: WireError where they show that the frame is larger than its API's requests may be.
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
        self._large = bytearray(_room(len(data), length, is_frugal=self.is_frugal))
        self._large[: len(data)] = data
        self.buffer_bytes = len(self._large)

    def _check_limit(self, api_key_bytes: bytes | bytearray, length: int) -> None:
        """Raise WireError where the API key is known, and does not allow a frame of this length."""
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


def _seems(length: bytes) -> str:
    """Return what to add where an impossible length is how TLS begins: the sides are set up differently."""
    return "; the other side seems to speak TLS" if length.startswith(TLS_RECORD_BEGINNINGS) else ""


def _room(received: int, length: int, *, is_frugal: bool) -> int:
    """Return how large the buffer of a frame is to be of which so many bytes have arrived."""
    fast = 0 if is_frugal else min(FIRST_STEPS_FACTOR * received, FIRST_STEPS_END_BYTES)
    return min(length, max(LEAST_ALLOCATION_BYTES, fast, 2 * received))
