"""A TCP stream of asyncio's that receives large frames right where they are decoded.

anyio's streams return chunks of bytes, from which a large frame is assembled: each byte is copied
once more, into new memory. They are used for everything except plain TCP on asyncio.
"""

import asyncio
from collections.abc import Callable

import anyio
from anyio.abc import AsyncResource

from kohort.protocol.errors import WireError
from kohort.protocol.framing import Frame, FrameReader

FIRST_BYTES = 64 << 10
"""The receive size for small frames, and for the start of a large one."""
NEXT_ADDRESS_AFTER_S = 0.25  # As RFC 8305 has it.

OnFirst = Callable[[bytes], None]
OnFrame = Callable[[Frame], None]


class DirectStream(asyncio.BufferedProtocol, AsyncResource):
    """A connected stream; nothing is received before `receive_frames`."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._reader = FrameReader(max_frame_bytes)
        self._first = memoryview(bytearray(FIRST_BYTES))
        self._is_large = False
        self._transport: asyncio.Transport | None = None
        self._on_first: OnFirst | None = None
        self._on_frame: OnFrame | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = asyncio.Event()
        self._error: Exception = anyio.EndOfStream()

    @property
    def transport(self) -> asyncio.Transport:
        """The connection itself."""
        assert self._transport is not None, "asyncio gives it before anybody has the stream"
        return self._transport

    # Callbacks of the connection

    async def receive_frames(self, on_first: OnFirst, on_frame: OnFrame) -> None:
        """Call `on_first` with the first bytes and `on_frame` with each frame, until the stream ends.

        Raises: anyio.EndOfStream, OSError, WireError, and errors of the two callbacks.
        """
        self._on_first, self._on_frame = on_first, on_frame
        self.transport.resume_reading()
        await self._ended.wait()
        raise self._error

    async def send(self, data: bytes) -> None:
        """Send, and return when the system has taken all of it. Raises: anyio.BrokenResourceError."""
        if not self._ended.is_set():
            self.transport.write(data)
            await self._writable.wait()
        if self._ended.is_set():
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Close it at once."""
        self.transport.close()
        self.transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(0)
        transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes belong."""
        large = self._reader.buffer()
        self._is_large = large is not None
        return self._first if large is None else large

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on the frames that so many bytes complete."""
        assert self._on_frame is not None
        try:
            if self._is_large:
                frames = self._reader.filled(nbytes)
            else:
                data = bytes(self._first[:nbytes])
                if self._on_first is not None:
                    self._on_first(data)
                    self._on_first = None
                frames = self._reader.receive(data)
            for each in frames:
                self._on_frame(each)
        except WireError as error:
            self._end(error)
            self.transport.abort()

    def pause_writing(self) -> None:
        """Pause senders."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Resume senders."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell waiting calls that the connection is lost."""
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        if not self._ended.is_set():
            self._error = error or self._error
            self._ended.set()
            self._writable.set()


async def connect(host: str, port: int, max_frame_bytes: int) -> DirectStream:
    """Return a stream to the first address of a host that answers. Raises: OSError."""
    _, stream = await asyncio.get_running_loop().create_connection(
        lambda: DirectStream(max_frame_bytes), host, port, happy_eyeballs_delay=NEXT_ADDRESS_AFTER_S
    )
    return stream
