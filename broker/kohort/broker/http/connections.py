"""The connections of the HTTP side: how many there may be.

Descriptors are what the Kafka side lives on, so there is a number of connections. Beyond it one more costs
another its place: one that has shown a wrong secret, else one that asks nothing, else one of a network that
has more. A few places besides are kept for those who ask whether the broker is well: who starts and stops
brokers hears that whoever else has come.
"""

import socket
import ssl
from collections import Counter
from collections.abc import Collection
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import structlog
import trio
from starlette.types import ASGIApp

from kohort.broker.http.conversation import Conversation
from kohort.broker.http.encrypted import Encrypted
from kohort.protocol.addresses import network_of

if TYPE_CHECKING:
    from kohort.broker.http.security import HttpSecurity

CONNECTIONS_MAX = 32
"""Open at once; they share the descriptors that the broker keeps aside for what is no log and no client."""
HEALTH_MAX = 8
"""Open besides, to be asked for nothing but the broker's health."""
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
        self._open: dict[Conversation, None] = {}
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
            accepted, address = await listener.accept()
        except OSError as error:  # Out of descriptors, or the client is gone already.
            self._warn("cannot accept a connection", error=str(error))
            await trio.sleep(ACCEPT_PAUSE_SECONDS)
            return
        host = str(address[0])
        is_full = not self._make_room(host)
        if is_full and not self._make_room_for_health():
            self._warn("too many connections", connections_max=CONNECTIONS_MAX)
            refuse(accepted, is_plain=self._context is None)
            return
        try:
            stream = trio.SocketStream(accepted)
        except OSError:
            accepted.close()
            return
        encrypted = self._encrypted(stream)
        conversation = Conversation(self._app, encrypted, host, may_ask_health_alone=is_full)
        self._open[conversation] = None
        nursery.start_soon(self._converse, conversation, stream)

    @property
    def _context(self) -> ssl.SSLContext | None:
        return None if self._security is None else self._security.context

    def _encrypted(self, stream: trio.SocketStream) -> "trio.SocketStream | Encrypted":
        context = self._context
        return stream if context is None else Encrypted(stream, context)

    def _make_room(self, host: str) -> bool:
        """Return whether there is a place for one more from `host`, once another has made way if need be."""
        there = [each for each in self._open if not each.may_ask_health_alone]
        return len(there) < CONNECTIONS_MAX or self._evict(share_to_evict(there, network_of(host)))

    def _make_room_for_health(self) -> bool:
        """Return whether there is one of the places for those who ask for the broker's health."""
        there = [each for each in self._open if each.may_ask_health_alone]
        return len(there) < HEALTH_MAX or self._evict(share_to_evict(there))

    def _evict(self, conversation: Conversation | None) -> bool:
        if conversation is None:
            return False
        self._open.pop(conversation, None)
        conversation.evict()
        return True

    async def _converse(self, conversation: Conversation, stream: trio.SocketStream) -> None:
        """Serve one connection to its end. A bug in it costs nobody else."""
        try:
            await conversation.run()
        except Exception:  # The supervisor of one connection.
            log.exception("an HTTP connection failed")
        finally:
            self._open.pop(conversation, None)
            stream.socket.close()

    def _warn(self, event: str, **facts: object) -> None:
        """Log it, but not again and again: each client that comes would add a line."""
        now = trio.current_time()
        if now - self._warned_at >= REFUSAL_SECONDS_BETWEEN_WARNINGS:
            self._warned_at = now
            log.warning(event, **facts)


def share_to_evict(there: Collection[Conversation], network: str | None = None) -> Conversation | None:
    """Return who of these is to end for one more from `network`; None where nobody is."""
    if guessing := [each for each in there if each.is_guessing]:
        return min(guessing, key=attrgetter("began"))
    counts = Counter(network_of(each.host) for each in there)
    if waiting := [each for each in there if each.waits_since is not None]:
        return min(waiting, key=lambda each: (-_beyond(counts[network_of(each.host)]), each.waits_since))
    if network is None or not counts:
        return None
    heaviest, most = max(counts.items(), key=itemgetter(1))
    if most <= counts[network] + 1:
        return None
    return min((each for each in there if network_of(each.host) == heaviest), key=attrgetter("began"))


def _beyond(count: int) -> int:
    """Return by how many connections a network has more than its part."""
    return max(0, count - CONNECTIONS_MAX // 4)


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
