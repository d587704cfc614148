"""The connections of the HTTP side: how many there may be, and how long each may take over what it does.

hypercorn serves each of them; what it leaves open is done here. Descriptors are what the Kafka side lives
on, so beyond a number of connections one more is refused at once; and who stands still is let go, be it
before its request, within its headers, or in the middle of an answer that it does not read.
"""

import socket

import h11
import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ConnectionState
from hypercorn.utils import parse_socket_addr
from starlette.types import ASGIApp

CONNECTIONS_MAX = 32
"""Open at once; they share the descriptors that the broker keeps aside for what is no log and no client."""
HEADER_SECONDS = 10.0
"""So long a client may be silent or take over its headers, also between two requests of one connection."""
REQUEST_SECONDS = 60.0
"""So long a request may take, from its headers until its answer has been read."""
HEADER_BYTES_MAX = 16 * 1024
RECEIVE_BYTES = 16 * 1024
REFUSAL_SECONDS_BETWEEN_WARNINGS = 60.0
ACCEPT_PAUSE_SECONDS = 0.1

_REFUSAL_BODY = b'{"error":"too many connections"}'
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"cache-control: no-store\r\nx-content-type-options: nosniff\r\nretry-after: 1\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_REFUSAL_BODY), _REFUSAL_BODY)
)

log = structlog.get_logger("kohort.http")


class Connections:
    """Accepts connections, and serves each with hypercorn in a task of its own."""

    def __init__(self, app: ASGIApp, config: Config) -> None:
        self._app = ASGIWrapper(app)  # type: ignore[arg-type]  # starlette's and hypercorn's scopes differ
        self._config = config
        self._context = WorkerContext(None)
        self._open: set[trio.SocketStream] = set()
        self._warned_at = float("-inf")

    def __len__(self) -> int:
        return len(self._open)

    async def serve(self, sock: socket.socket) -> None:
        """Accept until cancelled; then every connection is closed, also one that does not read."""
        listener = trio.socket.from_stdlib_socket(sock)
        async with trio.open_nursery() as nursery:
            while True:
                await self._accept(listener, nursery)

    async def _accept(self, listener: trio.socket.SocketType, nursery: trio.Nursery) -> None:
        """Begin one connection, or refuse it."""
        try:
            accepted, _ = await listener.accept()
        except OSError as error:  # Out of descriptors, or the client is gone already.
            self._warn("cannot accept a connection", error=str(error))
            await trio.sleep(ACCEPT_PAUSE_SECONDS)
            return
        if len(self._open) >= CONNECTIONS_MAX:
            self._warn("too many connections", connections_max=CONNECTIONS_MAX)
            refuse(accepted)
            return
        try:
            stream = trio.SocketStream(accepted)
        except OSError:
            accepted.close()
            return
        self._open.add(stream)
        nursery.start_soon(self._converse, stream)

    async def _converse(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. A bug in it, ours or hypercorn's, costs nobody else."""
        try:
            await _Conversation(self._app, self._config, self._context, stream).run()
        except Exception:  # The supervisor of one connection.
            log.exception("an HTTP connection failed")
        finally:
            self._open.discard(stream)
            stream.socket.close()

    def _warn(self, event: str, **facts: object) -> None:
        """Log it, but not again and again: each client that comes would add a line."""
        now = trio.current_time()
        if now - self._warned_at >= REFUSAL_SECONDS_BETWEEN_WARNINGS:
            self._warned_at = now
            log.warning(event, **facts)


class _Http1(H11Protocol):
    """HTTP/1.1 and nothing else: with HTTP/2 one connection would be many, without a deadline."""

    async def _check_protocol(self, event: h11.Request) -> None:
        """Leave an upgrade that is asked for unanswered, as a server may."""


class _Conversation:
    """One connection: bytes to hypercorn and back, under a deadline that moves with each request."""

    def __init__(
        self, app: AppWrapper, config: Config, context: WorkerContext, stream: trio.SocketStream
    ) -> None:
        self._app = app
        self._config = config
        self._context = context
        self._stream = stream
        self._sending = trio.Lock()
        self._patience = trio.CancelScope()

    async def run(self) -> None:
        """Return once the client has closed, or has taken too long."""
        sock = self._stream.socket
        async with TaskGroup() as tasks:
            self._protocol = _Http1(
                self._app,
                self._config,
                self._context,
                tasks,
                ConnectionState({}),
                False,
                parse_socket_addr(sock.family, sock.getpeername()),
                parse_socket_addr(sock.family, sock.getsockname()),
                self._send,
            )
            self._patience.deadline = trio.current_time() + HEADER_SECONDS
            with self._patience:
                await self._read()
            sock.close()  # An answer that is under way ends with it.
            await self._protocol.handle(Closed())

    async def _read(self) -> None:
        try:
            while data := await self._stream.receive_some(RECEIVE_BYTES):
                await self._protocol.handle(RawData(bytes(data)))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def _send(self, event: Event) -> None:
        """Do what hypercorn wants: send, close, or note that a request has begun or ended."""
        if isinstance(event, RawData):
            try:
                async with self._sending:
                    await self._stream.send_all(event.data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                await self._protocol.handle(Closed())
        elif isinstance(event, Closed):
            self._stream.socket.close()
            await self._protocol.handle(Closed())
        elif isinstance(event, Updated):
            seconds = HEADER_SECONDS if event.idle else REQUEST_SECONDS
            self._patience.deadline = trio.current_time() + seconds


def refuse(accepted: trio.socket.SocketType) -> None:
    """Say that there is no room, as far as that can be said without waiting, and close."""
    plain = socket.socket(fileno=accepted.detach())
    with plain:
        plain.setblocking(False)
        try:
            plain.send(REFUSAL)
            plain.shutdown(socket.SHUT_WR)
        except OSError:
            return  # It is gone, or takes nothing.


def connection_config() -> Config:
    """Return what hypercorn is told of each connection."""
    config = Config()
    config.h11_max_incomplete_size = HEADER_BYTES_MAX
    config.include_server_header = False
    return config
