"""Takes new connections, as many as may be: by the settings, and by the descriptors that there are.

Logs have half of the descriptors, so connections get no more than the rest (`connections_that_fit`). Where
all places are taken `Admission` says who makes way. Where descriptors run out all the same, one that was kept
in reserve is given up for a moment to take each waiting connection and close it: its client hears at once,
and the listener does not stay ready for ever. Then nobody is accepted for a while.
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
TURNED_AWAY_MAX = 256  # So many connections are kept waiting until they are closed; more are closed at once.
PAUSE_MS = 100  # Without descriptors: how long until the next look.

_OUT_OF_THEM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Opened = Callable[[socket.socket, tuple[str, int], int], Connection]
"""Takes a socket that does not block, its client's address, and the number of its listener."""
MakeWay = Callable[[Share], Connection | None]
"""Finds the connection of such that is to be closed."""


class Acceptor:
    """The listeners, and how many connections each address has. The loop's thread only."""

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
        make_way: MakeWay,
    ) -> None:
        """Hand connections to `opened`, at most `connections_max` whatever the settings say."""
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
        self._make_way = make_way
        self._reserved = reserved(connections_max)
        self._numbers: dict[socket.socket, int] = {}
        self._knows: set[int] = set()  # Listeners whose clients do not say who they are.
        self._hosts: dict[str, int] = {}
        self._open = 0
        self._reserve: int | None = _spare_descriptor()
        self._turned_away: set[socket.socket] = set()
        self.wait_ms: Callable[[str], int] | None = None
        """Says of an address for how long a connection waits that is not let in; None lets everybody in."""

    def listen(self, sock: socket.socket, number: int = 0, *, is_open: bool = True) -> None:
        """Accept connections on `sock`, which is bound and not blocking; the first listener has number 0.

        Clients of one that `is_open` do not say who they are; of others `entered` is to be called.
        """
        if is_open:
            self._knows.add(number)
        self._numbers[sock] = number
        sock.listen(self._current.config.socket_listen_backlog_size)
        self._listeners[sock.fileno()] = sock
        self._poller.register(sock.fileno(), READ)

    @property
    def pending(self) -> PendingConnections[Connection]:
        """Those who have not said yet who they are."""
        return self._admission.pending

    def accept(self, descriptor: int) -> None:
        """Take who waits at the listener with that descriptor, if there is one."""
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
                continue  # The client was gone already.
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
        except OSError as error:  # The client was gone already: some systems say so here.
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
        """Close the connection of who comes too often, but not at once: it would be there again."""
        self._counters.connections_refused += 1
        self._log.warning("an address connects too often, a connection is refused", peer=host)
        if len(self._turned_away) >= TURNED_AWAY_MAX:
            sock.close()
            return
        self._turned_away.add(sock)
        self._timers.set(("turned away", sock), self._clock.now_ms() + wait_ms, partial(self._gone, sock))

    def _gone(self, sock: socket.socket) -> None:
        self._turned_away.discard(sock)
        sock.close()

    def _is_full_for(self, host: str) -> bool:
        """Whether `max.connections.per.ip` is reached."""
        return self._hosts.get(host, 0) >= self._current.config.max_connections_per_ip

    # -- where all places are taken -----------------------------------------------------------------------

    @property
    def _places(self) -> int:
        """How many known clients there may be: by `max.connections`, and by the share of descriptors."""
        return min(self._current.config.max_connections, self._connections_max - self._reserved)

    def _has_room(self, host: str, listener: int) -> bool:
        """Return whether one more may come from `host`, once somebody has made way if need be."""
        if listener in self._knows:
            share = Share(ANONYMOUS, network_of(host))
            return self._admission.known < self._places or self._somebody_goes(share)
        if self._open < self._places + self._reserved:
            return True
        stranger = self._admission.pending.choose()
        if stranger is not None:
            self._give_up(stranger, "too many others have not said who they are")
        return stranger is not None

    def entered(self, connection: Connection) -> None:
        """Take a connection whose client has said who it is; it is closed where there is no room for it."""
        share = Share(connection.principal, network_of(connection.host))
        is_full = self._admission.known >= self._places
        if is_full and not self._somebody_goes(share) and not self._fits_besides(connection):
            self._refused(connection.host)
            connection.close()
            return
        self._admission.entered(connection)

    def _fits_besides(self, connection: Connection) -> bool:
        """Return whether a super user may keep the place that it has had until now: nobody can make way."""
        return self._admission.is_privileged(connection.principal)

    def _somebody_goes(self, share: Share) -> bool:
        """Return whether somebody has made way for one more of `share`."""
        who = self._admission.who_makes_way(share)
        connection = None if who is None else self._make_way(who)
        if connection is None:
            return False
        self._give_up(connection, "there are too many connections, and most of them are of its user")
        return True

    def _give_up(self, connection: Connection, reason: str) -> None:
        self._counters.connections_refused += 1
        self._log.warning("a connection is given up", peer=connection.name, reason=reason)
        connection.close()

    def _refused(self, host: str) -> None:
        self._counters.connections_refused += 1
        self._log.warning("too many connections, a new one is refused", peer=host, open=self._open)

    def left(self, connection: Connection) -> None:
        """Note that a connection has closed."""
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
        """Take and close who waits, by the descriptor in reserve; return how many."""
        for count in range(ACCEPTED_PER_ROUND):
            if self._reserve is None:
                return count
            os.close(self._reserve)
            self._reserve = None
            try:
                sock, _ = listener.accept()
            except OSError:  # Nobody waits any more, or another thread was quicker to use the descriptor.
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
        """Close every listener; nobody is accepted any more."""
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
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _prepare(sock: socket.socket, current: CurrentConfig) -> None:
    """Set what every connection has. Raises: OSError."""
    config = current.config
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if config.socket_send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
    if config.socket_receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
