"""A connection to another broker: one request at a time, and its answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from kohort.protocol.errors import WireError
from kohort.protocol.headers import RequestHeader
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

Answer = TypeVar("Answer", bound=Message)

RECEIVE_BYTES = 256 * 1024
FRAME_BYTES_MAX = 512 * 1024 * 1024
LENGTH_BYTES = 4


class PeerClosed(OSError):
    """The other broker has closed the connection, or what it says is nothing that was asked."""


class PeerConnection:
    """One connection. After anything but an answer it is of no use any more."""

    def __init__(self, stream: trio.SocketStream, client_id: str) -> None:
        self._stream = stream
        self._client_id = client_id
        self._correlation_id = 0
        self._received = bytearray()

    async def ask(self, request: Message, answer: type[Answer], version: int) -> Answer:
        """Return the answer. Raises: PeerClosed, trio.BrokenResourceError, WireError."""
        api = BY_NAME[type(request).__name__.removesuffix("Request")]
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=api.api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        frame = header.encode(api.request_header_version(version)) + request.encode(version)
        await self._stream.send_all(len(frame).to_bytes(LENGTH_BYTES, "big") + frame)
        received = await self._receive()
        if int.from_bytes(received[:4], "big") != self._correlation_id:
            raise PeerClosed("an answer to something that was not asked")
        header_bytes = 5 if api.response_header_version(version) else 4
        return answer.decode(received[header_bytes:], version)

    async def _receive(self) -> memoryview:
        """Return the next frame."""
        received = self._received
        await self._fill(LENGTH_BYTES)
        size = int.from_bytes(received[:LENGTH_BYTES], "big")
        if size > FRAME_BYTES_MAX:
            raise WireError(f"an answer of {size} bytes")
        await self._fill(LENGTH_BYTES + size)
        self._received = received[LENGTH_BYTES + size :]
        return memoryview(received)[LENGTH_BYTES : LENGTH_BYTES + size]

    async def _fill(self, size: int) -> None:
        """Return once that much has arrived."""
        while len(self._received) < size:
            more: Any = await self._stream.receive_some(RECEIVE_BYTES)
            if not more:
                raise PeerClosed("the other broker has closed the connection")
            self._received += more


@asynccontextmanager
async def connected(
    host: str, port: int, client_id: str, timeout_seconds: float
) -> AsyncIterator[PeerConnection]:
    """Give a connection. Raises: OSError, trio.TooSlowError where there is none in that time."""
    with trio.fail_after(timeout_seconds):
        stream = await trio.open_tcp_stream(host, port)
    async with stream:
        yield PeerConnection(stream, client_id)
