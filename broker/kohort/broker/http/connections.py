"""The connections of the HTTP side: how many there may be.

Descriptors are what the Kafka side lives on, so beyond a number of connections one more is refused at once.
"""

import socket

import structlog
import trio
from starlette.types import ASGIApp

from kohort.broker.http.conversation import Conversation

CONNECTIONS_MAX = 32
"""Open at once; they share the descriptors that the broker keeps aside for what is no log and no client."""
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
    """Accepts connections, and serves each in a task of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
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
        """Serve one connection to its end. A bug in it costs nobody else."""
        try:
            await Conversation(self._app, stream).run()
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
