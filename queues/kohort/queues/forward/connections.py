"""HTTP/1.1 to one address, over connections that are used again, under trio and asyncio.

A request goes out whole, then its answer is read to the end. No redirects are followed, no proxy is asked. An
answer that is longer than ANSWER_BYTES_MAX, or has something behind its end, costs its connection.
"""

import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol
from urllib.parse import SplitResult, quote

import anyio
import anyio.abc
import trio
from anyio.streams.tls import TLSAttribute

from kohort.client.retry import monotonic_ms
from kohort.queues.forward.answers import Answer, AnswerReader, BrokenAnswerError

RECEIVE_BYTES = 65_536
JOINED_BYTES_MAX = 65_536  # A body up to so long goes out in one piece with its head.
IDLE_MS_MAX = 5_000.0
_PORTS = {"http": 80, "https": 443}
_IN_A_PATH = "/%:@!$&'()*+,;=~"

Headers = Iterable[tuple[str, str]]


class NotReachedError(Exception):
    """Nobody took the connection, or whoever did is not who it should be."""


class Connections:
    """Those to the address of one URL. They are as many as requests are under way at once."""

    def __init__(self, url: SplitResult, tls: ssl.SSLContext | None) -> None:
        self._host = url.hostname or ""
        self._port = url.port or _PORTS[url.scheme]
        self._tls = tls
        self._head = (
            f"POST {target_of(url)} HTTP/1.1\r\nhost: {host_header_of(url)}\r\nuser-agent: kohort\r\n"
        )
        self._idle: deque[_Connection] = deque()  # Who was used last is used next.

    async def post(self, connection: "_Connection", headers: Headers, body: bytes) -> Answer:
        """Return the answer; the connection is ours again, or closed.

        The headers are text that can stand in a line. Raises: BrokenAnswerError.
        """
        lines = "".join([f"{name}: {text}\r\n" for name, text in headers])
        head = f"{self._head}content-length: {len(body)}\r\n{lines}\r\n".encode("ascii")
        try:
            return await connection.exchange(head, body)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise BrokenAnswerError(f"{type(error).__name__}: {error}".rstrip(": ")) from error
        finally:
            await self._take_back(connection)

    async def connection(self) -> "_Connection":
        """Return one that nobody uses: `post` by it. Raises: NotReachedError."""
        while self._idle and self._idle[0].is_old:
            await self._idle.popleft().close()
        while self._idle:
            found = self._idle.pop()
            if found.is_usable:
                return found
            await found.close()
        return await self._open()

    async def close(self) -> None:
        """Close those that nobody uses."""
        while self._idle:
            await self._idle.pop().close()

    async def _open(self) -> "_Connection":
        try:
            if self._tls is None:
                stream: anyio.abc.ByteStream = await anyio.connect_tcp(self._host, self._port)
            else:
                stream = await anyio.connect_tcp(
                    self._host,
                    self._port,
                    tls=True,
                    ssl_context=self._tls,
                    tls_standard_compatible=False,
                    tls_hostname=self._host,
                )
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise NotReachedError(words_of(error)) from error
        return _Connection(stream)

    async def _take_back(self, connection: "_Connection") -> None:
        if connection.begin_again():
            self._idle.append(connection)
        else:
            await connection.close()


class Wire(Protocol):
    """What bytes go through."""

    async def send(self, data: bytes, /) -> None:
        """Send all of it. Raises: anyio.BrokenResourceError, OSError."""
        ...

    async def receive(self, bytes_max: int, /) -> bytes:
        """Return what has come; raises anyio.EndOfStream at the end."""
        ...


class PlainSocket:
    """A connection without TLS under trio, asked directly: a stream costs a push twice as much CPU time."""

    def __init__(self, stream: anyio.abc.ByteStream, plain: socket.socket) -> None:
        self._stream = stream
        self._socket = plain

    async def send(self, data: bytes) -> None:
        """Send all of it: what is small goes out at once."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            await self._stream.send(data[sent:])

    async def receive(self, bytes_max: int) -> bytes:
        """Return what has come; raises anyio.EndOfStream at the end."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(bytes_max)
            except BlockingIOError:
                continue
            if not data:
                raise anyio.EndOfStream
            return data


class _Connection:
    """A stream, and what was answered there."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._answers = AnswerReader()
        self._socket: socket.socket = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        self._idle_since_ms = 0.0
        self._is_readable = readable_of(self._socket)
        is_plain = isinstance(self._socket, socket.socket) and not _is_encrypted(stream)
        self._wire: Wire = PlainSocket(stream, self._socket) if is_plain else stream

    async def exchange(self, head: bytes, body: bytes) -> Answer:
        """Return what is answered, read to its end. Raises: BrokenAnswerError, and what streams raise."""
        self._answers.expect()
        if len(body) <= JOINED_BYTES_MAX:
            await self._send(head + body)
        else:
            await self._send(head)
            await self._send(body)
        while True:
            try:
                data = await self._wire.receive(RECEIVE_BYTES)
            except anyio.EndOfStream:
                return self._answers.end()
            answer = self._answers.receive(data)
            if answer is not None:
                return answer

    async def _send(self, data: bytes) -> None:
        try:
            await self._wire.send(data)
        except (anyio.BrokenResourceError, BrokenPipeError, ConnectionResetError):
            return  # It may have been answered before it was read.

    def begin_again(self) -> bool:
        """Return whether it may be used for another request."""
        self._idle_since_ms = monotonic_ms()
        return self._answers.is_reusable

    @property
    def is_old(self) -> bool:
        """Whether it was used too long ago."""
        return monotonic_ms() - self._idle_since_ms > IDLE_MS_MAX

    @property
    def is_usable(self) -> bool:
        """Whether it is young, and nothing was said by the other side, such as that it is closed."""
        return not self.is_old and not self._is_readable() and not self._has_unread_tls()

    def _has_unread_tls(self) -> bool:
        """Whether something came behind the last answer that is decrypted, or could be: no answer of ours."""
        tls = self._stream.extra(TLSAttribute.ssl_object, None)
        if tls is None:
            return False
        try:
            tls.read(1)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            pass
        return True

    async def close(self) -> None:
        """Close it at once: whoever has an answer already does not wait for that."""
        with anyio.CancelScope(shield=True) as scope:
            scope.cancel()
            await self._stream.aclose()


def readable_of(some: socket.socket) -> Callable[[], bool]:
    """Return a function that says whether there is something to be read, or the end."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(some.fileno(), select.POLLIN)
        return lambda: bool(poll.poll(0))
    return lambda: bool(select.select([some], [], [], 0)[0])  # Windows has no other way.


def _is_encrypted(stream: anyio.abc.ByteStream) -> bool:
    return stream.extra(TLSAttribute.standard_compatible, None) is not None


def target_of(url: SplitResult) -> str:
    """Return path and query as a request has them: in ASCII, other characters quoted."""
    path = quote(url.path or "/", safe=_IN_A_PATH)
    return f"{path}?{quote(url.query, safe=_IN_A_PATH + '?')}" if url.query else path


def host_header_of(url: SplitResult) -> str:
    """Return the host as a request names it, the port beside it where it is not the scheme's."""
    host = url.hostname or ""
    host = f"[{host}]" if ":" in host else host.encode("idna").decode()
    return host if url.port in {None, _PORTS[url.scheme]} else f"{host}:{url.port}"


def words_of(error: BaseException) -> str:
    """Return the words of an error; where there are several causes, of the first one."""
    found = error
    while found.__cause__ is not None:
        found = found.__cause__
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return str(found) or str(error) or type(error).__name__
