"""Accepts new connections, up to the limits of the settings and of file descriptors.

Logs may use half of the descriptors, so connections get the rest (`connections_that_fit`). At the limit
`Admission` chooses a connection to close. If descriptors run out anyway, the acceptor closes a reserved
descriptor for a moment, accepts each waiting connection with it, and closes that. So its client sees the end
at once, and the listener does not stay readable. Then it accepts nothing for a while.
"""

import errno
import os
import socket
from collections.abc import Callable
from functools import partial

from kohort.broker.config.current import CurrentConfig
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.timers import Timers
from kohort.broker.transport.admission import Admission, Share, reserved
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.pending_connections import PendingConnections
from kohort.broker.transport.poller import READ, Poller
from kohort.broker.transport.request import ANONYMOUS
from kohort.protocol.addresses import canonical_address, network_of

ACCEPTED_PER_ROUND = 64
TURNED_AWAY_MAX = 256  # Connections that wait for their delayed close. More are closed at once.
PAUSE_MS = 100  # The pause after descriptors have run out.

_OUT_OF_THEM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Opened = Callable[[socket.socket, tuple[str, int], int], Connection]
"""Takes a non-blocking socket, its client's address, and the number of its listener."""
Evict = Callable[[Share], Connection | None]
"""Returns a connection of the share that can be closed, or None."""


class Acceptor:
    """The listeners, and the number of connections of each address. The loop's thread only."""

    def __init__(
        self,
        poller: Poller,
        opened: Opened,
        current: CurrentConfig,
        *,
        connections_max: int,
        timers: Timers,
        clock: Clock,
        counters: TransportCounters,
        log: ThrottledLog,
        admission: Admission,
        evict: Evict,
    ) -> None:
        """Pass connections to `opened`, at most `connections_max` regardless of the settings."""
        self._poller = poller
        self._opened = opened
        self._current = current
        self._connections_max = connections_max
        self._timers = timers
        self._clock = clock
        self._counters = counters
        self._log = log
        self._listeners: dict[int, socket.socket] = {}
        self._admission = admission
        self._evict = evict
        self._reserved = reserved(connections_max)
        self._numbers: dict[socket.socket, int] = {}
        self._knows: set[int] = set()  # listeners without authentication
        self._hosts: dict[str, int] = {}
        self._open = 0
        self._reserve: int | None = _spare_descriptor()
        self._turned_away: dict[socket.socket, None] = {}
        self.wait_ms: Callable[[str], int] | None = None
        """Returns the delay before a connection of an address is refused; 0 accepts it. None accepts all."""

    def listen(self, sock: socket.socket, number: int = 0, *, is_open: bool = True) -> None:
        """Accept connections on `sock`, which is bound and non-blocking. The first listener has number 0.

        Clients of an `is_open` listener do not authenticate. For others the caller calls `entered`.
        """
        if is_open:
            self._knows.add(number)
        self._numbers[sock] = number
        sock.listen(self._current.config.socket_listen_backlog_size)
        self._listeners[sock.fileno()] = sock
        self._poller.register(sock.fileno(), READ)

    @property
    def pending(self) -> PendingConnections[Connection]:
        """The connections that are not authenticated yet."""
        return self._admission.pending

    def accept(self, descriptor: int) -> None:
        """Accept the waiting connections of the listener with this descriptor, if there is one."""
        listener = self._listeners.get(descriptor)
        if listener is None:
            return
        for _ in range(ACCEPTED_PER_ROUND):
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_THEM:
                    self._out_of_descriptors(listener, error)
                    return
                self._log.warning("a connection was not accepted", error=str(error))
                continue  # The client is gone.
            self._take(sock, address, self._numbers[listener])

    def _take(self, sock: socket.socket, address: tuple[str, int], listener: int) -> None:
        host = canonical_address(address[0])
        if self._is_full_for(host) or not self._has_room(host, listener):
            sock.close()
            self._refused(host)
            return
        if self.wait_ms is not None and (wait_ms := self.wait_ms(host)):
            self._turn_away(sock, host, wait_ms)
            return
        try:
            _prepare(sock, self._current)
            connection = self._opened(sock, (host, address[1]), listener)
        except OSError as error:  # The client is gone: some systems report it here.
            sock.close()
            self._log.warning("a connection was not accepted", error=str(error))
            return
        self._open += 1
        self._hosts[host] = self._hosts.get(host, 0) + 1
        self._counters.connections_accepted += 1
        if listener in self._knows:
            self._admission.entered(connection)
        else:
            self._admission.came(connection, self._clock.now_ms())

    def _turn_away(self, sock: socket.socket, host: str, wait_ms: int) -> None:
        """Refuse the connection of an address that connects too often, with a delay against quick retries."""
        self._counters.connections_refused += 1
        self._log.warning("an address exceeds its connection rate, a connection is refused", peer=host)
        if len(self._turned_away) >= TURNED_AWAY_MAX:
            sock.close()
            return
        self._turned_away[sock] = None
        self._timers.set(("turned away", sock), self._clock.now_ms() + wait_ms, partial(self._gone, sock))

    def _gone(self, sock: socket.socket) -> None:
        self._turned_away.pop(sock, None)
        sock.close()

    def _is_full_for(self, host: str) -> bool:
        """Whether `max.connections.per.ip` is reached."""
        return self._hosts.get(host, 0) >= self._current.config.max_connections_per_ip

    # -- at the limit of connections ----------------------------------------------------------------------

    @property
    def _places(self) -> int:
        """The limit of authenticated connections: `max.connections`, and the share of descriptors."""
        return min(self._current.config.max_connections, self._connections_max - self._reserved)

    def _has_room(self, host: str, listener: int) -> bool:
        """Return whether one more connection from `host` fits. Close another one for it if necessary."""
        if listener in self._knows:
            share = Share(ANONYMOUS, network_of(host))
            return self._admission.known < self._places or self._evict_for(share)
        if self._open < self._places + self._reserved:
            return True
        connection = self._admission.pending.choose()
        if connection is not None:
            self._give_up(connection, "there are too many connections without authentication")
        return connection is not None

    def entered(self, connection: Connection) -> None:
        """Admit an authenticated connection, or close it if there is no room."""
        share = Share(connection.principal, network_of(connection.host))
        is_full = self._admission.known >= self._places
        if is_full and not self._evict_for(share) and not self._fits_besides(connection):
            self._refused(connection.host)
            connection.close()
            return
        self._admission.entered(connection)

    def _fits_besides(self, connection: Connection) -> bool:
        """Return whether a super user may stay over the limit, because no other connection can be closed."""
        return self._admission.is_privileged(connection.principal)

    def _evict_for(self, share: Share) -> bool:
        """Close a connection to make room for one more of `share`. Return whether there was one."""
        who = self._admission.share_to_evict(share)
        connection = None if who is None else self._evict(who)
        if connection is None:
            return False
        self._give_up(connection, "there are too many connections, and most of them are of its user")
        return True

    def _give_up(self, connection: Connection, reason: str) -> None:
        self._counters.connections_refused += 1
        self._log.warning("a connection is closed", peer=connection.name, reason=reason)
        connection.close()

    def _refused(self, host: str) -> None:
        self._counters.connections_refused += 1
        self._log.warning("too many connections, a new one is refused", peer=host, open=self._open)

    def left(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._admission.left(connection)
        host = connection.host
        self._open -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]

    # -- without descriptors ------------------------------------------------------------------------------

    def _out_of_descriptors(self, listener: socket.socket, error: OSError) -> None:
        refused = self._refuse_waiting(listener)
        self._counters.connections_refused += refused
        self._log.warning(
            "connections are refused: out of descriptors", error=str(error), refused=refused, open=self._open
        )
        for descriptor in self._listeners:
            self._poller.modify(descriptor, 0)
        self._timers.set("accept again", self._clock.now_ms() + PAUSE_MS, self._accept_again)

    def _refuse_waiting(self, listener: socket.socket) -> int:
        """Accept and close waiting connections with the reserved descriptor. Return their number."""
        for count in range(ACCEPTED_PER_ROUND):
            if self._reserve is None:
                return count
            os.close(self._reserve)
            self._reserve = None
            try:
                sock, _ = listener.accept()
            except OSError:  # None waits any more, or another thread took the descriptor.
                return count
            else:
                sock.close()
            finally:
                self._reserve = _spare_descriptor()
        return ACCEPTED_PER_ROUND

    def _accept_again(self) -> None:
        if self._reserve is None:
            self._reserve = _spare_descriptor()
        for descriptor in self._listeners:
            self._poller.modify(descriptor, READ)

    def close(self) -> None:
        """Close every listener."""
        self._timers.cancel("accept again")
        for sock in self._turned_away:
            self._timers.cancel(("turned away", sock))
            sock.close()
        self._turned_away.clear()
        for descriptor, listener in self._listeners.items():
            self._poller.unregister(descriptor)
            listener.close()
        self._listeners.clear()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None


def _spare_descriptor() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return None


def _prepare(sock: socket.socket, current: CurrentConfig) -> None:
    """Set the socket options. Raises: OSError."""
    config = current.config
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if config.socket_send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
    if config.socket_receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
