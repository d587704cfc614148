"""HTTP/1.1 to one address, over connections that are used again: h11, under trio and asyncio.

A request goes out whole, then its answer is read to the end. No redirects are followed, no proxy is asked. An
answer that is longer than ANSWER_BYTES_MAX, or has something behind its end, costs its connection.
"""

import select
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import SplitResult, quote

import anyio
import anyio.abc
import h11

from kohort.client.retry import monotonic_ms

ANSWER_BYTES_MAX = 65_536
HEAD_BYTES_MAX = 100 * 1024
RECEIVE_BYTES = 65_536
IDLE_MS_MAX = 5_000.0
_PORTS = {"http": 80, "https": 443}
_IN_A_PATH = "/%:@!$&'()*+,;=~"

Headers = Iterable[tuple[str, str]]


class NotReachedError(Exception):
    """Nobody took the connection, or whoever did is not who it should be."""


class BrokenAnswerError(Exception):
    """Somebody was there, and there is no whole answer."""


class Answer(NamedTuple):
    """A status, and headers whose names are in small letters."""

    status: int
    headers: dict[str, str]


class Connections:
    """Those to the address of one URL. They are as many as requests are under way at once."""

    def __init__(self, url: SplitResult, tls: ssl.SSLContext | None) -> None:
        self._host = url.hostname or ""
        self._port = url.port or _PORTS[url.scheme]
        self._tls = tls
        self._target = target_of(url)
        self._host_header = host_header_of(url)
        self._idle: deque[_Connection] = deque()  # Who was used last is used next.

    async def post(self, connection: "_Connection", headers: Headers, body: bytes) -> Answer:
        """Return the answer; the connection is ours again, or closed.

        Raises: BrokenAnswerError.
        """
        head = [
            ("host", self._host_header),
            ("content-length", str(len(body))),
            ("user-agent", "kohort"),
            *headers,
        ]
        try:
            answer = await connection.exchange(
                h11.Request(method="POST", target=self._target, headers=head), body
            )
        except (h11.ProtocolError, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise BrokenAnswerError(f"{type(error).__name__}: {error}".rstrip(": ")) from error
        finally:
            await self._take_back(connection)
        return answer

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


class _Connection:
    """A stream, and what h11 knows of it."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._socket: socket.socket = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        self._idle_since_ms = 0.0

    async def exchange(self, request: h11.Request, body: bytes) -> Answer:
        """Return what is answered, read to its end. Raises: BrokenAnswerError, and what streams raise."""
        send = self._http.send
        await self._send(
            (send(request) or b"") + (send(h11.Data(body)) or b"") + (send(h11.EndOfMessage()) or b"")
        )
        answer: Answer | None = None
        size_bytes = 0
        while True:
            match await self._next_event():
                case h11.Response() as head:
                    names = ((name.decode("ascii"), text.decode("latin-1")) for name, text in head.headers)
                    answer = Answer(head.status_code, dict(names))
                case h11.Data(data=data):
                    size_bytes += len(data)
                    if size_bytes > ANSWER_BYTES_MAX and answer is not None:
                        return answer  # The rest is of no interest, and costs the connection.
                case h11.EndOfMessage() if answer is not None:
                    return answer

    async def _send(self, data: bytes) -> None:
        try:
            await self._stream.send(data)
        except anyio.BrokenResourceError:
            return  # It may have been answered before it was read.

    async def _next_event(self) -> h11.Event:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Event):
                return event
            assert event is h11.NEED_DATA, "nothing is asked for behind an answer's end"
            try:
                data = await self._stream.receive(RECEIVE_BYTES)
            except anyio.EndOfStream:
                if self._http.their_state is h11.SEND_RESPONSE:
                    raise BrokenAnswerError("the connection was closed before an answer") from None
                data = b""
            self._http.receive_data(data)

    def begin_again(self) -> bool:
        """Return whether it may be used for another request."""
        http = self._http
        is_done = http.our_state is h11.DONE and http.their_state is h11.DONE
        if not is_done or http.trailing_data != (b"", False):
            return False
        http.start_next_cycle()
        self._idle_since_ms = monotonic_ms()
        return True

    @property
    def is_old(self) -> bool:
        """Whether it was used too long ago."""
        return monotonic_ms() - self._idle_since_ms > IDLE_MS_MAX

    @property
    def is_usable(self) -> bool:
        """Whether it is young, and nothing was said by the other side, such as that it is closed."""
        return not self.is_old and not is_readable(self._socket)

    async def close(self) -> None:
        """Close it at once: whoever has an answer already does not wait for that."""
        with anyio.CancelScope(shield=True) as scope:
            scope.cancel()
            await self._stream.aclose()


def is_readable(some: socket.socket) -> bool:
    """Return whether there is something to be read, or the end."""
    if hasattr(select, "poll"):
        asked = select.poll()
        asked.register(some.fileno(), select.POLLIN)
        return bool(asked.poll(0))
    return bool(select.select([some], [], [], 0)[0])


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
