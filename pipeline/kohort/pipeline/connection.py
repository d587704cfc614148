"""One blocking connection to a broker: what a Spark task needs, without an event loop or a thread.

Requests may be sent ahead; their answers come in the order of the requests. A large answer is received
into one buffer, which the next answer overwrites: whoever keeps its bytes copies them first.
"""

import socket
from typing import Self, TypeVar

from kohort.client.errors import BrokerError, NetworkError, RequestTimeoutError, UnsupportedVersionError
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.headers import RequestHeader
from kohort.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.schema import Message

CLIENT_ID = "kohort-spark"
SOFTWARE_VERSION = "0.1.0"
API_VERSIONS_KEY = 18
FIRST_API_VERSIONS = 4  # Every broker since Kafka 4.0 speaks it; an older one answers with what it speaks.
MAX_ANSWER_BYTES = 512 << 20
BUFFER_BYTES = 64 << 10

Answer = TypeVar("Answer", bound=Message)


class BrokerConnection:
    """A connection that has agreed on versions with its broker; a context manager."""

    def __init__(self, host: str, port: int, timeout_ms: int) -> None:
        """Connect. Raises: NetworkError, RequestTimeoutError."""
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._timeout_ms = timeout_ms
        self._correlation_id = 0
        self._waiting: list[
            tuple[int, int, bool]
        ] = []  # Correlation id, version, whether its header has tags.
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
        declared = request.declaration()
        lowest_there, highest_there = self._versions.get(declared.api_key, (0, -1))
        version = min(declared.versions.highest, highest_there)
        if highest is not None:
            version = min(version, highest)
        if version < max(declared.versions.lowest, lowest_there):
            name = declared.name.removesuffix("Request")
            raise UnsupportedVersionError(f"{self.address} does not speak {name} in a version known here")
        return version

    def request(self, request: Message, answer: type[Answer], *, highest: int | None = None) -> Answer:
        """Return the answer to `request`. Raises: KohortError."""
        self.send(request, highest=highest)
        return self.receive(answer)

    def send(self, request: Message, *, highest: int | None = None) -> None:
        """Send a request whose answer `receive` returns later. Raises: KohortError."""
        self._send(request, self.version_of(type(request), highest))

    def _send(self, request: Message, version: int) -> None:
        declared = request.declaration()
        flexible = version in declared.flexible
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(
            request_api_key=declared.api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=CLIENT_ID,
        ).encode(2 if flexible else 1)
        body = request.encode(version)
        size = (len(header) + len(body)).to_bytes(4, "big")
        has_tags = flexible and declared.api_key != API_VERSIONS_KEY
        self._waiting.append((self._correlation_id, version, has_tags))
        try:
            self._socket.sendall(b"".join((size, header, body)))
        except OSError as error:
            raise _explained(self.address, error, self._timeout_ms) from error

    def receive(self, answer: type[Answer]) -> Answer:
        """Return the next answer; its bytes are valid until the next one is received. Raises: KohortError."""
        correlation_id, version, has_tags = self._waiting.pop(0)
        frame = self._receive_frame()
        if int.from_bytes(frame[:4], "big") != correlation_id:
            raise NetworkError(f"{self.address} sent the answer to another request than was expected")
        try:
            return answer.decode(frame[_tags_end(frame) :] if has_tags else frame[4:], version)
        except WireError as error:
            raise NetworkError(f"{self.address} sent an answer that can't be read: {error}") from error

    def _receive_frame(self) -> memoryview:
        size = int.from_bytes(self._receive_exactly(4), "big", signed=True)
        if not 4 <= size <= MAX_ANSWER_BYTES:
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
        body = self._receive_frame()[4:]
        version = FIRST_API_VERSIONS
        if int.from_bytes(body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
            self._send(hello, version)
            body = self._receive_frame()[4:]
        self._waiting.clear()
        try:
            told = ApiVersionsResponse.decode(body, version)
        except WireError as error:
            raise NetworkError(f"{self.address} does not speak Kafka's protocol: {error}") from error
        if told.error_code:
            raise BrokerError(told.error_code, f"{self.address} did not tell its versions")
        return {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}


def _tags_end(frame: memoryview) -> int:
    """Return where the tagged fields of a flexible response header end. Raises: WireError."""
    count, position = _uvarint(frame, 4)
    for _ in range(count):
        _, position = _uvarint(frame, position)
        size, position = _uvarint(frame, position)
        position += size
    return position


def _uvarint(frame: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35 and position < len(frame):
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise WireError("a response header that ends in the middle")


def _explained(address: str, error: OSError, timeout_ms: int) -> NetworkError | RequestTimeoutError:
    if isinstance(error, TimeoutError):
        return RequestTimeoutError(f"{address} was silent for {timeout_ms} ms")
    return NetworkError(f"{address}: {error.strerror or error}")
