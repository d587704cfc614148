"""Frames out of a stream: four bytes of length, big-endian, then that many bytes. Sans-I/O.

    reader = FrameReader(max_frame_bytes=104_857_600)
    frames = reader.receive(data)        # what one `recv` brought
    view = reader.buffer()               # inside a large frame: where to `recv_into`
    frames = reader.filled(count)

A small frame comes as `bytes`; one that spans several chunks as a writable `memoryview`, which was
never copied. Memory grows with what has arrived, not with what a length promises.
"""

from kohort.protocol.errors import WireError

LENGTH_BYTES = 4
FIRST_ALLOCATION_BYTES = (1 << 20) + (64 << 10)  # A megabyte of records, and what stands around them.
Frame = bytes | memoryview


class FrameReader:
    """Splits a stream into frames, whatever pieces it comes in."""

    __slots__ = ("_large", "_large_size", "_max_frame_bytes", "_received", "_rest")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._rest = b""  # fewer bytes than a length
        self._large: bytearray | None = None  # the frame under way
        self._large_size = 0
        self._received = 0

    @property
    def in_frame(self) -> bool:
        """Whether part of a frame has arrived."""
        return self._large is not None or bool(self._rest)

    def receive(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes.

        Raises: WireError for a length below zero or above the limit, before anything is allocated.
        """
        if self._large is not None:
            return self._continue(data)
        if self._rest:
            data = self._rest + data
            self._rest = b""
        frames: list[Frame] = []
        position, size = 0, len(data)
        while size - position >= LENGTH_BYTES:
            start = position + LENGTH_BYTES
            length = int.from_bytes(data[position:start], "big", signed=True)
            if length < 0 or length > self._max_frame_bytes:
                raise WireError(f"a frame of {length} bytes; the limit is {self._max_frame_bytes}")
            position = start + length
            if position > size:
                self._begin(data[start:], length)
                return frames
            frames.append(data[start:position])
        self._rest = data[position:]
        return frames

    def buffer(self) -> memoryview | None:
        """Return where the next bytes of the frame under way belong, or None between frames."""
        if self._large is None:
            return None
        if self._received == len(self._large):
            # A new one, because a bytearray cannot grow while the caller still holds the last view.
            grown = bytearray(min(self._large_size, 2 * len(self._large)))
            grown[: self._received] = self._large
            self._large = grown
        return memoryview(self._large)[self._received :]

    def filled(self, count: int) -> list[Frame]:
        """Return the frame that `count` bytes written into `buffer()` complete, if they do."""
        self._received += count
        if self._received < self._large_size:
            return []
        assert self._large is not None
        frame = memoryview(self._large)
        self._large = None
        return [frame]

    def _begin(self, data: bytes, length: int) -> None:
        self._large = bytearray(min(length, max(len(data), FIRST_ALLOCATION_BYTES)))
        self._large[: len(data)] = data
        self._large_size = length
        self._received = len(data)

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
