"""One blocking connection to a broker: what a Spark task needs, without an event loop or a thread.

Requests may be sent ahead; their answers come in the order of the requests. A large answer is received
into one buffer, which the next answer overwrites: whoever keeps its bytes copies them first.
"""

import socket
from typing import Self, TypeVar

from kohort.client.errors import BrokerError, NetworkError, RequestTimeoutError
from kohort.client.versions import FIRST_API_VERSIONS, MAX_ANSWER_BYTES, SOFTWARE_VERSION, agreed_version
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.framing import LENGTH_BYTES
from kohort.protocol.headers import (
    CORRELATION_ID_BYTES,
    frame_request,
    response_body,
    response_header_version,
)
from kohort.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.schema import Message

CLIENT_ID = "kohort-spark"
BUFFER_BYTES = 64 << 10

Answer = TypeVar("Answer", bound=Message)


class BrokerConnection:
    """A connection that has agreed on versions with its broker; a context manager."""

    def __init__(self, host: str, port: int, timeout_ms: int) -> None:
        """Connect. Raises: NetworkError, RequestTimeoutError."""
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._timeout_ms = timeout_ms
        self._correlation_id = 0
        self._waiting: list[tuple[int, int, int]] = []  # Correlation id, version, its header's version.
        self._buffer = bytearray(BUFFER_BYTES)
        try:
            self._socket = socket.create_connection((host, port), timeout_ms / 1000)
        except OSError as error:
            raise _explained(self.address, error, timeout_ms) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._versions = self._negotiate()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; answers that are awaited are lost."""
        self._socket.close()

    def version_of(self, request: type[Message], highest: int | None = None) -> int:
        """Return the newest version that both sides speak. Raises: UnsupportedVersionError."""
        return agreed_version(request, self._versions, highest, self.address)

    def request(self, request: Message, answer: type[Answer], *, highest: int | None = None) -> Answer:
        """Return the answer to `request`. Raises: KohortError."""
        self.send(request, highest=highest)
        return self.receive(answer)

    def send(self, request: Message, *, highest: int | None = None) -> None:
        """Send a request whose answer `receive` returns later. Raises: KohortError."""
        self._send(request, self.version_of(type(request), highest))

    def _send(self, request: Message, version: int) -> None:
        declared = request.declaration()
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        framed = frame_request(request, version, self._correlation_id, CLIENT_ID)
        header_version = response_header_version(declared.api_key, is_flexible=version in declared.flexible)
        self._waiting.append((self._correlation_id, version, header_version))
        try:
            self._socket.sendall(b"".join(framed))
        except OSError as error:
            raise _explained(self.address, error, self._timeout_ms) from error

    def receive(self, answer: type[Answer]) -> Answer:
        """Return the next answer; its bytes are valid until the next one is received. Raises: KohortError."""
        correlation_id, version, header_version = self._waiting.pop(0)
        frame = self._receive_frame()
        if int.from_bytes(frame[:CORRELATION_ID_BYTES], "big") != correlation_id:
            raise NetworkError(f"{self.address} sent the answer to another request than was expected")
        try:
            return answer.decode(response_body(frame, header_version), version)
        except WireError as error:
            raise NetworkError(f"{self.address} sent an answer that can't be read: {error}") from error

    def _receive_frame(self) -> memoryview:
        size = int.from_bytes(self._receive_exactly(LENGTH_BYTES), "big", signed=True)
        if not CORRELATION_ID_BYTES <= size <= MAX_ANSWER_BYTES:
            raise NetworkError(f"{self.address} sent a frame of {size} bytes: is it a Kafka broker?")
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size + (size >> 3))  # A new one: views of the old one may be held still.
        view = memoryview(self._buffer)[:size]
        received = 0
        try:
            while received < size:
                count = self._socket.recv_into(view[received:], size - received, socket.MSG_WAITALL)
                if not count:
                    raise NetworkError(f"{self.address} closed the connection")
                received += count
        except OSError as error:
            raise _explained(self.address, error, self._timeout_ms) from error
        return view

    def _negotiate(self) -> dict[int, tuple[int, int]]:
        hello = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=SOFTWARE_VERSION)
        self._send(hello, FIRST_API_VERSIONS)
        body = self._receive_frame()[CORRELATION_ID_BYTES:]
        version = FIRST_API_VERSIONS
        if int.from_bytes(body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
            self._send(hello, version)
            body = self._receive_frame()[CORRELATION_ID_BYTES:]
        self._waiting.clear()
        try:
            told = ApiVersionsResponse.decode(body, version)
        except WireError as error:
            raise NetworkError(f"{self.address} does not speak Kafka's protocol: {error}") from error
        if told.error_code:
            raise BrokerError(told.error_code, f"{self.address} did not tell its versions")
        return {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}


def _explained(address: str, error: OSError, timeout_ms: int) -> NetworkError | RequestTimeoutError:
    if isinstance(error, TimeoutError):
        return RequestTimeoutError(f"{address} was silent for {timeout_ms} ms")
    return NetworkError(f"{address}: {error.strerror or error}")
