"""The event loop's hot part: one trio task over its own epoll set.

trio wakes a task per ready socket and arms its poller again for each wait, about 45 us for a request
and its answer. Here trio waits for one descriptor, the epoll set of all connections; one round takes
what every ready connection brought, lets the flusher write what was staged, and sends the answers.
Measured on loopback, see docs/decisions/0005-reactor.md.
"""

import select
import socket
from collections.abc import Awaitable, Callable

import structlog
import trio

from kohort.broker.config.current import CurrentConfig
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Mailbox
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Dispatch
from kohort.broker.transport.request import Request
from kohort.protocol.errors import WireError
from kohort.protocol.schema import Message

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
ROUNDS_PER_TURN = 16  # Then trio's other tasks have their turn.
LINGER_SECONDS = 0.001  # How long a round waits for the next itself: a way through trio costs 50 us.
EVENTS_PER_ROUND = 512
SWEEP_INTERVAL_MS = 2_000
REFUSAL_LOG_INTERVAL_MS = 1_000

log = structlog.get_logger("kohort.connection")


class Reactor:
    """Reads, dispatches and answers for every connection."""

    def __init__(
        self,
        dispatch: Dispatch,
        current: CurrentConfig,
        *,
        mailbox: Mailbox,
        timers: Timers,
        clock: Clock,
        workers: Workers,
        counters: TransportCounters,
        end_round: Callable[[], None],
    ) -> None:
        """`end_round` is called in each round, once all that had arrived was handled: it flushes."""
        self.dispatch = dispatch
        self._current = current
        self._mailbox = mailbox
        self._timers = timers
        self._clock = clock
        self._workers = workers
        self._counters = counters
        self._end_round = end_round
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._listeners: dict[int, socket.socket] = {}
        self._hosts: dict[str, int] = {}  # How many connections each address has.
        self._refusal_logged_ms = 0
        self._touched: list[Connection] = []
        self._epoll.register(mailbox.fileno(), READ)
        self._spawned = False  # Whether a task wants to run, so that the rounds must end.
        self._stopping = False
        self.now_ms = clock.now_ms()  # As of the round under way.

    # -- connections ----------------------------------------------------------------------------------

    def listen(self, sock: socket.socket) -> None:
        """Accept connections on `sock`, which is bound and not blocking."""
        sock.listen(self._current.config.socket_listen_backlog_size)
        self._listeners[sock.fileno()] = sock
        self._epoll.register(sock.fileno(), READ)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(64):
            try:
                sock, peer = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # Out of descriptors, or the peer was gone already: others live on.
                log.warning("a connection was not accepted", error=str(error))
                return
            if self._is_full_for(peer[0]):
                self._refuse(sock, peer[0])
            else:
                self._add(sock, peer)

    def _is_full_for(self, host: str) -> bool:
        """Whether `max.connections` or `max.connections.per.ip` is reached."""
        config = self._current.config
        if len(self._connections) >= config.max_connections:
            return True
        return self._hosts.get(host, 0) >= config.max_connections_per_ip

    def _refuse(self, sock: socket.socket, host: str) -> None:
        sock.close()
        self._counters.connections_refused += 1
        if self.now_ms - self._refusal_logged_ms >= REFUSAL_LOG_INTERVAL_MS:
            self._refusal_logged_ms = self.now_ms
            log.warning("too many connections, a new one is refused", peer=host, open=len(self._connections))

    def _add(self, sock: socket.socket, peer: tuple[str, int]) -> None:
        config = self._current.config
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if config.socket_send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
        if config.socket_receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        connection = Connection(self, sock, peer[:2], config.socket_request_max_bytes)
        connection.last_active_ms = self.now_ms
        self._connections[connection.file_descriptor] = connection
        self._hosts[peer[0]] = self._hosts.get(peer[0], 0) + 1
        self._epoll.register(connection.file_descriptor, READ)
        self._counters.connections_accepted += 1

    def watch(self, connection: Connection) -> None:
        """Wait for what `connection` wants next: reading unless paused, writing where bytes wait."""
        connection.wants_write = connection.unsent
        wanted = (0 if connection.paused else READ) | (WRITE if connection.wants_write else 0)
        self._epoll.modify(connection.file_descriptor, wanted)

    def forget(self, connection: Connection) -> None:
        """Stop watching a connection that closes."""
        del self._connections[connection.file_descriptor]
        self._forget_host(connection.host)
        self._epoll.unregister(connection.file_descriptor)
        self._count_bytes(connection)
        self._counters.connections_closed += 1

    def _forget_host(self, host: str) -> None:
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]

    def touch(self, connection: Connection) -> None:
        """Send the connection's answers at the end of this round, or in one of their own."""
        self._touched.append(connection)
        self._mailbox.wake()

    # -- what connections ask of the broker -----------------------------------------------------------

    def count_request(self, request: Request) -> None:
        """Note that a request has arrived."""
        counts = self._counters.requests
        counts[request.api.api_key] = counts.get(request.api.api_key, 0) + 1

    def log_malformed(self, connection: Connection, error: WireError) -> None:
        """Log one line about bytes that were no request; the connection is closed."""
        self._counters.malformed_requests += 1
        log.warning("malformed request", peer=connection.peer, error=str(error))

    def log_lost(self, connection: Connection, error: OSError) -> None:
        """Log that a peer went away in the middle of something."""
        log.debug("connection lost", peer=connection.peer, error=str(error))

    def spawn(self, request: Request, answer: Awaitable[Message]) -> None:
        """Let a slow handler run as a task of its own."""
        self._workers.spawn(self._answer_later, request, answer)
        self._spawned = True

    async def _answer_later(self, request: Request, answer: Awaitable[Message]) -> None:
        try:
            message = await answer
        except Exception:  # The supervisor of handlers: one bug costs one connection, not the broker.
            log.exception("a handler failed", api=request.api.name, peer=request.connection.peer)
            request.connection.close()
        else:
            request.respond(message)

    # -- the loop -------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End `run` after the round under way."""
        self._stopping = True
        self._mailbox.wake()

    async def run(self) -> None:
        """Serve until `stop`."""
        self._sweep()
        descriptor = self._epoll.fileno()
        poll = self._epoll.poll
        while not self._stopping:
            events = poll(0, EVENTS_PER_ROUND)
            if not events:
                await self._wait(descriptor)
                events = poll(0, EVENTS_PER_ROUND)
            for _ in range(ROUNDS_PER_TURN):
                self._round(events)
                if self._spawned:
                    break
                events = poll(LINGER_SECONDS, EVENTS_PER_ROUND)
                if not events:
                    break
            else:
                self._round(events)
            self._spawned = False
            await trio.lowlevel.checkpoint()

    async def _wait(self, descriptor: int) -> None:
        deadline_ms = self._timers.next_deadline_ms()
        if deadline_ms is None:
            await trio.lowlevel.wait_readable(descriptor)
            return
        with trio.move_on_after(max(0.0, (deadline_ms - self._clock.now_ms()) / 1000)):
            await trio.lowlevel.wait_readable(descriptor)

    def _round(self, events: list[tuple[int, int]]) -> None:
        self._mailbox.is_in_round = True
        self.now_ms = self._clock.now_ms()
        connections, signals = self._connections, self._mailbox.fileno()
        for descriptor, event in events:
            connection = connections.get(descriptor)
            if connection is not None:
                self._serve(connection, event)
            elif descriptor == signals:
                self._mailbox.drain()
            elif descriptor in self._listeners:
                self._accept(self._listeners[descriptor])
        while (action := self._mailbox.next()) is not None:
            supervise("posted", action)
        supervise("timers", self._run_timers)
        supervise("flusher", self._end_round)
        self._send_touched()
        self._mailbox.is_in_round = False

    def _serve(self, connection: Connection, event: int) -> None:
        try:
            if event & ~WRITE:
                connection.on_readable()
            if event & WRITE and not connection.closed:
                connection.on_writable()
        except Exception:  # The supervisor of handlers: one bug costs one connection, not the broker.
            log.exception("a handler failed", peer=connection.peer)
            connection.close()

    def _run_timers(self) -> None:
        self._timers.run_due(self.now_ms)

    def _send_touched(self) -> None:
        while self._touched:
            touched, self._touched = self._touched, []
            for connection in touched:
                connection.send_answers()
                connection.resume_if_possible()

    def _count_bytes(self, connection: Connection) -> None:
        """Move what a connection has counted to the broker's counters."""
        self._counters.bytes_in += connection.bytes_in
        self._counters.bytes_out += connection.bytes_out
        connection.bytes_in = connection.bytes_out = 0

    def _sweep(self) -> None:
        """Close connections that have stalled or idled too long, and look again later."""
        idle_ms_max = self._current.config.connections_max_idle_ms
        for connection in list(self._connections.values()):
            self._count_bytes(connection)
            reason = connection.stalled(self.now_ms)
            if reason is not None:
                self._counters.stalled_connections += 1
                log.warning("a connection is given up", peer=connection.peer, reason=reason)
                connection.close()
            elif (
                idle_ms_max >= 0
                and self.now_ms - connection.last_active_ms > idle_ms_max
                and (connection.unsent or not connection.requests_under_way)
            ):
                log.debug("a connection was idle", peer=connection.peer)
                connection.close()
        self._timers.set("sweep connections", self._clock.now_ms() + SWEEP_INTERVAL_MS, self._sweep)

    def close(self) -> None:
        """Close every connection and listener. Its `run` has ended."""
        for connection in list(self._connections.values()):
            connection.close()
        for listener in self._listeners.values():
            listener.close()
        self._epoll.close()


def supervise(part: str, action: Callable[[], object]) -> None:
    """Do `action`; log what it raises, and go on."""
    try:
        action()
    except Exception:  # A supervisor: one bug in one part shall not end the broker.
        log.exception("a part failed", part=part)
