"""The connections of the HTTP side: how many there may be.

Descriptors are what the Kafka side lives on, so there is a number of connections. Beyond it one more costs
that its place which has asked nothing for longest; it is refused itself where all others are being answered.
"""

import socket
import ssl
from operator import itemgetter
from typing import TYPE_CHECKING

import structlog
import trio
from starlette.types import ASGIApp

from kohort.broker.http.conversation import Conversation
from kohort.broker.http.encrypted import Encrypted

if TYPE_CHECKING:
    from kohort.broker.http.security import HttpSecurity

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

    def __init__(self, app: ASGIApp, security: "HttpSecurity | None" = None) -> None:
        """Have `app` answer; `security` says how connections are encrypted, if they are."""
        self._app = app
        self._security = security
        self._open: set[Conversation] = set()
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
        if len(self._open) >= CONNECTIONS_MAX and not self._make_room():
            self._warn("too many connections", connections_max=CONNECTIONS_MAX)
            refuse(accepted, is_plain=self._context is None)
            return
        try:
            stream = trio.SocketStream(accepted)
        except OSError:
            accepted.close()
            return
        conversation = Conversation(self._app, self._encrypted(stream))
        self._open.add(conversation)
        nursery.start_soon(self._converse, conversation, stream)

    @property
    def _context(self) -> ssl.SSLContext | None:
        return None if self._security is None else self._security.context

    def _encrypted(self, stream: trio.SocketStream) -> "trio.SocketStream | Encrypted":
        context = self._context
        return stream if context is None else Encrypted(stream, context)

    def _make_room(self) -> bool:
        """End the connection that has asked nothing for longest; return whether there is such a one."""
        waiting = [(each.waits_since, each) for each in self._open if each.waits_since is not None]
        if not waiting:
            return False
        _, longest = min(waiting, key=itemgetter(0))
        self._open.discard(longest)
        longest.make_way()
        return True

    async def _converse(self, conversation: Conversation, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. A bug in it costs nobody else."""
        try:
            await conversation.run()
        except Exception:  # The supervisor of one connection.
            log.exception("an HTTP connection failed")
        finally:
            self._open.discard(conversation)
            stream.socket.close()

    def _warn(self, event: str, **facts: object) -> None:
        """Log it, but not again and again: each client that comes would add a line."""
        now = trio.current_time()
        if now - self._warned_at >= REFUSAL_SECONDS_BETWEEN_WARNINGS:
            self._warned_at = now
            log.warning(event, **facts)


def refuse(accepted: trio.socket.SocketType, *, is_plain: bool = True) -> None:
    """Say that there is no room, as far as that can be said without waiting, and close."""
    plain = socket.socket(fileno=accepted.detach())
    with plain:
        if not is_plain:
            return
        plain.setblocking(False)
        try:
            plain.send(REFUSAL)
            plain.shutdown(socket.SHUT_WR)
        except OSError:
            return  # It is gone, or takes nothing.
