"""A bare connection to a broker: requests by kohort's own encoders, or any bytes at all; blocking sockets."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from kohort.protocol.framing import FrameReader
from kohort.protocol.headers import CORRELATION_ID_BYTES, frame_request, response_body
from kohort.protocol.registry import APIS, BY_NAME, Api
from kohort.protocol.schema import Message

M = TypeVar("M", bound=Message)

ANSWER_TIMEOUT_S = 30.0
MAX_FRAME_BYTES = 256 << 20
READ_BYTES = 1 << 16
DRAINED_WITHIN_S = 0.01
CLOSE_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: a reset instead of a goodbye, so that no port waits.


class Lost(ConnectionError):
    """The broker closed the connection instead of answering."""


def api_of(message: Message) -> Api:
    """Return the API that this request belongs to."""
    return APIS[type(message).declaration().api_key]


def frame(message: Message, version: int, correlation_id: int = 0, client_id: str = "attacker") -> bytes:
    """Return the request as it goes on the wire. Raises: ValueError where the encoder refuses."""
    return b"".join(frame_request(message, version, correlation_id, client_id))


def raw_frame(
    api_key: int, version: int, body: bytes, *, client_id: bytes | None = b"attacker", correlation_id: int = 0
) -> bytes:
    """Return a frame with any body whatever, and a client id that need not be text."""
    head = struct.pack(">hhih", api_key, version, correlation_id, -1 if client_id is None else len(client_id))
    head += client_id or b""
    if APIS[api_key].request_header_version(version) == 2:
        head += b"\0"
    return struct.pack(">i", len(head) + len(body)) + head + body


class Line:
    """One connection; every answer's correlation id is checked, and that nothing stands behind it."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        receive_buffer_bytes: int = 0,
        timeout_s: float = ANSWER_TIMEOUT_S,
        client_id: str = "attacker",
    ) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._frames = FrameReader(MAX_FRAME_BYTES)
        self._arrived: deque[bytes] = deque()
        self._asked: deque[tuple[int, Api, int]] = deque()
        self._correlation_id = 0

    @property
    def peer(self) -> str:
        """How the broker's log names this connection."""
        host, port = self.socket.getsockname()[:2]
        return f"{host}:{port}"

    def send(self, message: Message, version: int | None = None, client_id: str | None = None) -> None:
        """Send the request, in its newest version if none is said. Raises: OSError, ValueError."""
        api = api_of(message)
        chosen = api.versions.highest if version is None else version
        self._correlation_id += 1
        self._asked.append((self._correlation_id, api, chosen))
        name = self._client_id if client_id is None else client_id
        self.socket.sendall(frame(message, chosen, self._correlation_id, name))

    def answer(self, kind: type[M]) -> M:
        """Return the answer to the oldest request that has none. Raises: Lost, TimeoutError, ValueError."""
        correlation_id, api, version = self._asked[0]
        answered = self.take()
        self._asked.popleft()
        found = int.from_bytes(answered[:CORRELATION_ID_BYTES], "big")
        if found != correlation_id:
            raise ValueError(f"an answer to request {found} instead of {correlation_id}")
        body = response_body(answered, api.response_header_version(version))
        decoded = api.response.decode(body, version)
        assert isinstance(decoded, kind)
        return decoded

    def ask(
        self, message: Message, kind: type[M], version: int | None = None, client_id: str | None = None
    ) -> M:
        """Return the answer to this request. Raises: Lost, TimeoutError."""
        try:
            self.send(message, version, client_id)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Lost(str(error)) from None
        return self.answer(kind)

    def ask_or_lose(
        self, message: Message, kind: type[M], version: int | None = None, client_id: str | None = None
    ) -> M | None:
        """Return the answer, or None where the broker closed the connection instead."""
        try:
            return self.ask(message, kind, version, client_id)
        except Lost:
            return None

    def take(self) -> bytes:
        """Return the next frame, whatever it answers. Raises: Lost, TimeoutError."""
        while not self._arrived:
            self._arrived += self.arrived()
        return self._arrived.popleft()

    def arrived(self, count: int = READ_BYTES) -> list[bytes]:
        """Return the frames that one look at the socket completes. Raises: Lost, TimeoutError, WireError."""
        try:
            data = self.socket.recv(count)
        except ConnectionResetError as error:
            raise Lost(str(error)) from None
        if not data:
            raise Lost("closed by the broker")
        return [bytes(each) for each in self._frames.receive(data)]

    def drain(self) -> None:
        """Throw away what is there."""
        self.socket.settimeout(DRAINED_WITHIN_S)
        try:
            while self.socket.recv(READ_BYTES):
                pass
        except (TimeoutError, ConnectionError):
            return

    def is_closed(self, within_s: float) -> bool:
        """Return whether the broker closes it within that time; what still arrives is thrown away."""
        self.socket.settimeout(within_s)
        try:
            while True:
                self.take()
        except Lost:
            return True
        except TimeoutError:
            return False

    def push(self, data: bytes, within_s: float) -> int:
        """Send what the broker takes in that time, reading nothing; return how many bytes it took."""
        self.socket.settimeout(within_s)
        sent = 0
        view = memoryview(data)
        try:
            while sent < len(data):
                sent += self.socket.send(view[sent:])
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            pass
        return sent

    def close(self) -> None:
        """Go without a word; once more does nothing."""
        if self.socket.fileno() < 0:
            return
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSE_AT_ONCE)
        self.socket.close()


def close_all(lines: Iterable[Line]) -> None:
    """Close every one."""
    for each in lines:
        each.close()


def newest(name: str) -> int:
    """Return the newest version of the API of that name."""
    return BY_NAME[name].versions.highest
