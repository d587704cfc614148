"""A connection to another broker: one request at a time, and its answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from kohort.broker.cluster.dialing import Dial, Dialled, dial_plain
from kohort.broker.runtime.turns import NO_TURNS, Turns
from kohort.protocol.errors import WireError
from kohort.protocol.headers import RequestHeader
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

Answer = TypeVar("Answer", bound=Message)

RECEIVE_BYTES = 256 * 1024
FRAME_BYTES_MAX = 512 * 1024 * 1024
LENGTH_BYTES = 4


class PeerClosed(OSError):
    """The other broker has closed the connection, or its answer matches no request."""


class PeerConnection:
    """One connection. After anything but an answer it is unusable."""

    def __init__(self, dialled: Dialled, client_id: str, turns: Turns = NO_TURNS) -> None:
        """`turns` is the loop in whose thread answers are waited for."""
        self._stream = dialled.stream
        self._client_id = client_id
        self._turns = turns
        self._descriptor = dialled.socket.fileno()
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
            self._turns.watch_descriptor(self._descriptor)
            try:
                more: Any = await self._stream.receive_some(RECEIVE_BYTES)
            finally:
                self._turns.unwatch_descriptor(self._descriptor)
            if not more:
                raise PeerClosed("the other broker has closed the connection")
            self._received += more


@asynccontextmanager
async def connected(
    place: tuple[str, int],
    client_id: str,
    timeout_seconds: float,
    turns: Turns = NO_TURNS,
    dial: Dial = dial_plain,
) -> AsyncIterator[PeerConnection]:
    """Give a connection. Raises: OSError, trio.TooSlowError if there is none in that time."""
    with trio.fail_after(timeout_seconds):
        dialled = await dial(*place)
    try:
        yield PeerConnection(dialled, client_id, turns)
    finally:
        dialled.socket.close()
