"""One client's connection: frames in, requests out to their handlers, answers back in their order.

The socket never blocks. What it brings is taken in one `recv`, every frame in it is handled at once,
and all that can be answered is written in one `send`. Three limits keep its memory bounded: a frame's
size, the requests under way, and the bytes that wait to be sent; past the last two it is not read
until its peer has taken something, so a slow reader slows itself alone. A peer that stops in the
middle of a frame, or that keeps asking and takes no answers, is given up after a while.
"""

import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING

from kohort.broker.transport.request import FileRange, Request
from kohort.protocol.errors import WireError
from kohort.protocol.framing import Frame, FrameReader
from kohort.protocol.headers import API_VERSIONS_KEY
from kohort.protocol.limits import max_request_bytes
from kohort.protocol.registry import APIS
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.transport.reactor import Reactor

RECEIVE_BYTES = 65_536
RECEIVES_PER_TURN = 8  # Then the others have their turn: one busy peer starves nobody.
MAX_REQUESTS_UNDER_WAY = 512
MAX_UNSENT_BYTES = 8 * 1024 * 1024  # In memory; what is sent from a file does not count.
STALLED_MS_MAX = 10_000  # Without a byte in the middle of a frame, or with no answer taken when paused.
JOINED_BYTES = 16_384  # Pieces below this are joined into one before they are sent.
MAX_PIECES_PER_SEND = 64

_HEADER = struct.Struct(">hhih")
_ANSWER_0 = struct.Struct(">ii")
_ANSWER_1 = struct.Struct(">iib")


class Connection:
    """The state of one connection; it is driven by the reactor and lives in the loop's thread."""

    __slots__ = (
        "_pieces",
        "_reactor",
        "_reader",
        "_under_way",
        "_unsent_bytes",
        "bytes_in",
        "bytes_out",
        "client_host",
        "client_software",
        "closed",
        "file_descriptor",
        "host",
        "last_active_ms",
        "on_close",
        "paused",
        "peer",
        "sock",
        "touched",
        "wants_write",
    )

    def __init__(
        self, reactor: "Reactor", sock: socket.socket, peer: tuple[str, int], max_frame_bytes: int
    ) -> None:
        self._reactor = reactor
        self._reader = FrameReader(max_frame_bytes, max_request_bytes)
        self._pieces: deque[bytes | memoryview | FileRange] = deque()
        self._unsent_bytes = 0
        self._under_way: deque[Request] = deque()
        self.sock = sock
        self.file_descriptor = sock.fileno()
        self.peer = f"{peer[0]}:{peer[1]}"
        self.host = peer[0]
        self.client_host = f"/{peer[0]}"
        self.client_software = ""
        self.closed = False
        self.touched = False  # Whether the reactor will send for it at the end of its round.
        self.paused = False
        self.wants_write = False
        self.last_active_ms = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.on_close: list[Callable[[], None]] = []

    def on_readable(self) -> None:
        """Take what has arrived and handle every request in it."""
        try:
            for _ in range(RECEIVES_PER_TURN):
                if not self._receive():
                    break
        except BlockingIOError:
            return
        except WireError as error:
            self._reactor.log_malformed(self, error)
            self.close()
        except OSError as error:
            self._reactor.log_lost(self, error)
            self.close()

    def _receive(self) -> bool:
        """Handle one `recv`; return whether there may be more. Raises: WireError, OSError."""
        view = self._reader.buffer()
        if view is None:
            data = self.sock.recv(RECEIVE_BYTES)
            count = len(data)
            frames = self._reader.receive(data) if count else []
            more = count == RECEIVE_BYTES
        else:
            count = self.sock.recv_into(view)
            more = count == len(view) or count >= RECEIVE_BYTES
            view.release()
            frames = self._reader.filled(count) if count else []
        if not count:
            self.close()
            return False
        self.bytes_in += count
        self.last_active_ms = self._reactor.now_ms
        for frame in frames:
            self._handle(frame)
            if self.closed:
                return False
        if len(self._under_way) >= MAX_REQUESTS_UNDER_WAY or self._unsent_bytes >= MAX_UNSENT_BYTES:
            self._pause()
            return False
        return more

    def _handle(self, frame: Frame) -> None:
        """Decode one request and hand it over. Raises: WireError."""
        try:
            api_key, version, correlation_id, length = _HEADER.unpack_from(frame)
            end = 10 + max(length, 0)
            client_id = None if length < 0 else str(frame[10:end], "utf-8")
        except (struct.error, UnicodeDecodeError) as error:
            raise WireError(f"a request header: {error}") from None
        if end > len(frame) or length < -1:
            raise WireError("a request header that is cut off")
        api = APIS.get(api_key)
        if api is None:
            raise WireError(f"api key {api_key}, which is unknown")
        request = Request(self, api, version, correlation_id, client_id)
        if version not in api.versions:
            self._refuse_version(request)
            return
        if api.is_flexible(version):
            end = _skip_tagged_fields(frame, end)
        # Kafka reads on past what a message needs, and librdkafka counts on it: Metadata 13 for all topics.
        message = api.request.decode(frame[end:], version, exact=False)
        self._reactor.count_request(request)
        self._under_way.append(request)
        answer = self._reactor.dispatch.handler_of(api_key)(message, request)
        if answer is None:
            return
        if isawaitable(answer):
            self._reactor.spawn(request, answer)
        else:
            self.complete(request, answer)

    def _refuse_version(self, request: Request) -> None:
        """Answer an ApiVersions newer than ours in version 0, as clients expect; else give up.

        Raises: WireError.
        """
        if request.api.api_key != API_VERSIONS_KEY:
            raise WireError(f"{request.api.name} version {request.version}, not in {request.api.versions}")
        self._under_way.append(request)
        request.version = 0
        self.complete(request, self._reactor.dispatch.unsupported())

    def complete(self, request: Request, message: Message) -> None:
        """Answer `request` with `message`; it is sent once all before it have been answered."""
        if self.closed:
            return
        assert request.answer is None, f"{request.api.name} answered twice"
        body = message.encode_parts(request.version)
        size = sum(map(len, body))
        if request.api.response_header_version(request.version):
            head = _ANSWER_1.pack(size + 5, request.correlation_id, 0)
        else:
            head = _ANSWER_0.pack(size + 4, request.correlation_id)
        request.answer = [head, *body]  # type: ignore[list-item]  # a records piece is one that we made
        self._touch()

    def abandon(self, request: Request) -> None:
        """Take `request` as answered with nothing."""
        if self.closed:
            return
        assert request.answer is None, f"{request.api.name} answered twice"
        request.answer = []
        self._touch()

    def _touch(self) -> None:
        if not self.touched:
            self.touched = True
            self._reactor.touch(self)

    def send_answers(self) -> None:
        """Send all answers that stand at the head of the order, as far as the socket takes them."""
        self.touched = False
        if self.closed:
            return
        waiting = self._under_way
        small: list[bytes] = []
        while waiting and (answer := waiting[0].answer) is not None:
            waiting.popleft()
            for piece in answer:
                if type(piece) is bytes and len(piece) <= JOINED_BYTES:
                    small.append(piece)
                else:
                    self._queue(small)
                    small = []
                    self._pieces.append(piece)
                    if type(piece) is not FileRange:
                        self._unsent_bytes += len(piece)
        if small and not self._pieces:
            self._send_at_once(b"".join(small))
        else:
            self._queue(small)
        if self._pieces and not self.wants_write:
            self.on_writable()

    def _queue(self, small: list[bytes]) -> None:
        if small:
            piece = b"".join(small)
            self._pieces.append(piece)
            self._unsent_bytes += len(piece)

    def _send_at_once(self, data: bytes) -> None:
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._reactor.log_lost(self, error)
            self.close()
            return
        self.bytes_out += sent
        if sent < len(data):
            self._pieces.append(memoryview(data)[sent:])
            self._unsent_bytes += len(data) - sent
            self._reactor.watch(self)

    def on_writable(self) -> None:
        """Send what waits until it is gone or the socket is full."""
        try:
            while self._pieces:
                self.bytes_out += self._send_some()
                self.last_active_ms = self._reactor.now_ms
        except BlockingIOError:
            pass
        except OSError as error:
            self._reactor.log_lost(self, error)
            self.close()
            return
        if bool(self._pieces) != self.wants_write:
            self._reactor.watch(self)
        if self.paused and self._may_read():
            self.paused = False
            self._reactor.watch(self)

    def _send_some(self) -> int:
        """Send from the first piece or pieces; return the number of bytes. Raises: OSError."""
        piece = self._pieces[0]
        if isinstance(piece, FileRange):
            sent = os.sendfile(self.file_descriptor, piece.file_descriptor, piece.position, piece.size_bytes)
            if not sent:
                raise OSError(errno.EIO, "a file range ended before its size")
            piece.position += sent
            piece.size_bytes -= sent
            if not piece.size_bytes:
                self._pieces.popleft()
            return sent
        sent = self.sock.send(piece)
        self._unsent_bytes -= sent
        if sent == len(piece):
            self._pieces.popleft()
        else:
            self._pieces[0] = memoryview(piece)[sent:]
        return sent

    def _may_read(self) -> bool:
        return len(self._under_way) < MAX_REQUESTS_UNDER_WAY and self._unsent_bytes < MAX_UNSENT_BYTES

    def _pause(self) -> None:
        if not self.paused:
            self.paused = True
            self._reactor.watch(self)

    def resume_if_possible(self) -> None:
        """Read again when answers have made room."""
        if self.paused and not self.closed and self._may_read():
            self.paused = False
            self._reactor.watch(self)

    @property
    def unsent(self) -> bool:
        """Whether something waits for the socket to take it."""
        return bool(self._pieces)

    @property
    def requests_under_way(self) -> int:
        """How many requests have not been answered yet."""
        return len(self._under_way)

    def stalled(self, now_ms: int) -> str | None:
        """Return why the peer is to be given up, or None while it behaves."""
        if now_ms - self.last_active_ms < STALLED_MS_MAX:
            return None
        if self._reader.in_frame and not self.paused:
            return "half a frame, then silence"
        if self.paused and self._pieces:
            return "it asks and asks, and takes no answers"
        return None

    def close(self) -> None:
        """Close at once; answers that are still owed are dropped."""
        if self.closed:
            return
        self.closed = True
        self._reactor.forget(self)
        self._pieces.clear()
        self._under_way.clear()
        self.sock.close()
        for action in self.on_close:
            action()


def _skip_tagged_fields(frame: Frame, position: int) -> int:
    """Return where the body begins behind the tagged fields of a flexible header. Raises: WireError."""
    try:
        count = frame[position]
        position += 1
        if not count:
            return position
        return _skip_each(frame, position, count)
    except IndexError:
        raise WireError("a request header that is cut off") from None


def _skip_each(frame: Frame, position: int, count: int) -> int:
    from kohort.protocol.varint import read_uvarint, read_uvarint_rest  # noqa: PLC0415  # No client sends any.

    if count > 127:
        count, position = read_uvarint_rest(frame, position, count)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
    return position
