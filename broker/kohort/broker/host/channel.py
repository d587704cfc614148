"""The messages between a supervisor and a worker: JSON objects, each after its length in four bytes."""

import socket
from collections import deque
from collections.abc import AsyncIterator

import msgspec
import trio

from kohort.broker.etcd.messages import Json

LENGTH_BYTES = 4
WAITING_BYTES_MAX = 64 * 1024 * 1024
CHUNK_BYTES = 65_536


class Channel:
    """One end. Its `write` and `messages` each run in one task."""

    def __init__(self, sock: socket.socket) -> None:
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._more = trio.Event()

    def send(self, message: object) -> None:
        """Send it soon, after earlier messages; an end that reads nothing for long is given up."""
        content = msgspec.json.encode(message)
        self._waiting.append(len(content).to_bytes(LENGTH_BYTES, "big") + content)
        self._waiting_bytes += len(content)
        if self._waiting_bytes > WAITING_BYTES_MAX:
            self.close()
        self._more.set()

    async def write(self) -> None:
        """Write queued messages, until cancelled or the other end is gone."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._waiting:
                content = b"".join(self._waiting)
                self._waiting.clear()
                self._waiting_bytes = 0
                try:
                    await self._stream.send_all(content)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return

    async def messages(self) -> AsyncIterator[Json]:
        """Yield the messages of the other end, until it is gone."""
        content = bytearray()
        while True:
            while len(content) >= LENGTH_BYTES:
                end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "big")
                if len(content) < end:
                    break
                message = msgspec.json.decode(content[LENGTH_BYTES:end])
                del content[:end]
                yield message
            try:
                chunk = await self._stream.receive_some(CHUNK_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if not chunk:
                return
            content += chunk

    def close(self) -> None:
        """Close this end, which the other one notices."""
        self._stream.socket.close()
