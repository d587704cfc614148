"""Bare connections to a broker: one request under way on each, answers taken as soon as they are there."""

from __future__ import annotations

import socket

import trio

from kohort.protocol.framing import FrameReader
from kohort.protocol.headers import CORRELATION_ID_BYTES, frame_request, response_body
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

MAX_FRAME_BYTES = 100 << 20
READ_BYTES = 1 << 16
ANSWER_TIMEOUT_S = 20.0
RETRY_S = 0.05


class Connection:
    """A socket that nobody waits for: `take` returns the answer if it has come."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._frames = FrameReader(MAX_FRAME_BYTES)
        self._sent = 0
        self._asked: tuple[str, int] | None = None
        self._answer: Message | None = None

    def send(self, name: str, version: int, message: Message, client_id: str) -> None:
        """Send one request of the API of that name; the answer to the one before has been taken."""
        assert self._asked is None, self._asked
        self._sent += 1
        data = b"".join(frame_request(message, version, self._sent, client_id))
        sent = self._socket.send(data)
        assert sent == len(data), "a request that does not fit into the socket's buffer"
        self._asked = name, version

    def take(self) -> Message | None:
        """Return the answer if it has come, without waiting. Raises: ConnectionError."""
        while self._asked is not None and self._answer is None:
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                return None
            if not data:
                raise ConnectionError(f"closed instead of answering {self._asked}")
            for frame in self._frames.receive(data):
                self._answer = self._decoded(bytes(frame))
        answer, self._answer, self._asked = self._answer, None, None
        return answer

    async def answer(self) -> Message:
        """Return the answer once it has come. Raises: ConnectionError, trio.TooSlowError."""
        with trio.fail_after(ANSWER_TIMEOUT_S):
            while True:
                found = self.take()
                if found is not None:
                    return found
                await trio.lowlevel.wait_readable(self._socket)

    async def ask(self, name: str, version: int, message: Message, client_id: str = "control") -> Message:
        """Return the answer to this request."""
        self.send(name, version, message, client_id)
        return await self.answer()

    def close(self) -> None:
        """Close the socket, whatever is under way."""
        self._socket.close()

    def _decoded(self, frame: bytes) -> Message:
        assert self._asked is not None
        name, version = self._asked
        api = BY_NAME[name]
        assert int.from_bytes(frame[:CORRELATION_ID_BYTES], "big") == self._sent, frame
        return api.response.decode(response_body(frame, api.response_header_version(version)), version)


async def produce(
    connection: Connection, topic: str, batch: bytes, transactional_id: str | None = None
) -> None:
    """Append a batch to partition 0, asked for again until it is there."""
    partition = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=(TopicProduceData(name=topic, partition_data=(partition,)),),
    )
    while True:
        answer = await connection.ask("Produce", 9, request)
        assert isinstance(answer, ProduceResponse)
        if not answer.responses[0].partition_responses[0].error_code:
            return
        await trio.sleep(RETRY_S)
