"""The hot part of the event loop: one trio task with its own poller.

trio wakes a task for each ready socket and registers it again for each wait: about 45 us for a request and
its answer. Here trio waits only for the descriptor of the poller. One round reads from every ready
connection, flushes the appended records, and sends the answers. The measurements are in
docs/decisions/0005-reactor.md.
"""

import socket
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

import structlog
import trio

from kohort.broker.config.current import CurrentConfig
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Mailbox
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.acceptor import Acceptor
from kohort.broker.transport.admission import Admission, Share
from kohort.broker.transport.connection import Connection, Driver
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Dispatch, Handlers
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.in_flight import InFlight
from kohort.broker.transport.permissions import Permissions
from kohort.broker.transport.plain import PlainTransport
from kohort.broker.transport.poller import BROKEN, READ, WRITE, Events, Poller
from kohort.broker.transport.request import Request
from kohort.broker.transport.sweep import SWEEP_INTERVAL_MS, Sweep
from kohort.protocol.addresses import network_of
from kohort.protocol.errors import WireError
from kohort.protocol.schema import Message

ROUNDS_PER_TURN = 32  # Then trio's other tasks run.
TURN_MS_MAX = 4  # They also run after this time: a shard that loads needs several turns.
LINGER_SECONDS = 0.001  # How long a turn waits for more events itself, because a switch in trio costs 50 us.
EVENTS_PER_ROUND = 512
EVENTS_WITH_OTHERS = (
    4  # With so many events, more are likely to come before the flush. Few clients wait for their answers.
)
ROUND_MS_MAX = 20  # After it, connections with more requests wait for the next round.
LOOK_INTERVAL_MS_FULL = 100  # The interval of sweeps while the limit of memory is exceeded.
ANSWERS_SECONDS_MAX = 5.0  # How long a stop waits for requests to be answered.
TAKING_SECONDS_MAX = 1.0  # How long a stop waits for clients to read their answers.
COLD_READERS = 4  # Threads that read file ranges which are not in memory.

log = structlog.get_logger("kohort.connection")


Open = Callable[[Driver, socket.socket, tuple[str, int], int, int], Connection]
"""Creates the connection of a socket, with its address, frame limit and listener. Raises: OSError."""


class Reactor:
    """The event loop of all connections: it reads requests, dispatches them, and sends answers."""

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
        connections_max: int,
        permissions: Permissions,
        is_to_sync: Callable[[], bool] = lambda: False,
        beat: Callable[[], None] = lambda: None,
        is_privileged: Callable[[str], bool] = lambda _: False,
        poller: Poller,
    ) -> None:
        """Begin without a listener.

        `end_round` is called at the end of each round, and flushes. If `is_to_sync`, the flush syncs: then
        the round polls once more before it, so that more requests share the sync. `permissions` are those of
        requests without an authorizer. `beat` is called every two seconds as a sign of life. `is_privileged`
        returns whether a principal is always admitted.
        """
        self.dispatch = dispatch
        self.permissions = permissions
        self.handlers = Handlers(dispatch)
        self.in_flight = InFlight(current.config.queued_max_request_bytes)
        self.log = ThrottledLog(log, clock)
        self.note_turn: Callable[[Connection, float], None] | None = None
        """Takes a connection and the seconds of its turn, if quotas measure clients."""
        self._mailbox = mailbox
        self._timers = timers
        self._clock = clock
        self._workers = workers
        self._counters = counters
        self.requests = counters.requests
        self._end_round = end_round
        self._is_to_sync = is_to_sync
        self._found_more = False  # whether the last additional poll found events
        self._beat = beat
        self._poller = poller
        self._signals = mailbox.fileno()
        self._poller.register(self._signals, READ)
        self._opens: dict[int, Open] = {}
        self._connections: dict[int, Connection] = {}
        self._watched_descriptors: set[int] = set()  # descriptors for which tasks wait
        self._touched: list[Connection] = []
        self._must_go_on = False
        self._unfinished: dict[Connection, None] = {}  # connections with more requests
        self._sweep = Sweep(current, counters, self.log)
        self._acceptor = Acceptor(
            self._poller,
            self._opened,
            current,
            connections_max=connections_max,
            timers=timers,
            clock=clock,
            counters=counters,
            log=self.log,
            admission=Admission(is_privileged),
            evict=self._longest_idle,
        )
        self._current = current
        self._cold_readers = workers.limiter(COLD_READERS)
        self._spawned = False  # whether a task must run, so that the turn must end
        self._stopping = False
        self._turn: trio.Event | None = None  # set at the end of this turn
        self._next_look_ms = 0
        self.now_ms = clock.now_ms()

    # -- connections ----------------------------------------------------------------------------------

    def admit_by(self, wait_ms: Callable[[str], int]) -> None:
        """Set the function that returns the delay before an address is refused; 0 accepts it."""
        self._acceptor.wait_ms = wait_ms

    def listen(self, sock: socket.socket, number: int = 0, opens: Open | None = None) -> None:
        """Accept connections on `sock`, which is bound and non-blocking. The first listener has number 0.

        `opens` creates its connections, by default without TLS and SASL. A listener may have several sockets.
        """
        self._opens[number] = opens or open_plain
        self._acceptor.listen(sock, number, is_open=opens is None)

    def entered(self, connection: Connection) -> None:
        """Admit an authenticated connection, or close it if there is no room."""
        self._acceptor.entered(connection)

    def _longest_idle(self, share: Share) -> Connection | None:
        """Return the connection of the share that has been idle for the longest time."""
        return min(
            (
                each
                for each in self._connections.values()
                if each.principal == share.principal
                and network_of(each.host) == share.network
                and each not in self._acceptor.pending
            ),
            key=_last_active_ms,
            default=None,
        )

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def _opened(self, sock: socket.socket, address: tuple[str, int], listener: int) -> Connection:
        frame_bytes_max = self._current.config.socket_request_max_bytes
        connection = self._opens[listener](self, sock, address, frame_bytes_max, listener)
        self._poller.register(connection.file_descriptor, READ)
        self._connections[connection.file_descriptor] = connection
        return connection

    def watch(self, connection: Connection) -> None:
        """Poll the connection for reading unless it is paused, and for writing if bytes are unsent."""
        connection.wants_write = connection.unsent
        wanted = (0 if connection.paused else READ) | (WRITE if connection.wants_write else 0)
        self._poller.modify(connection.file_descriptor, wanted)

    def forget(self, connection: Connection) -> None:
        """Stop watching a connection that closes."""
        del self._connections[connection.file_descriptor]
        self._unfinished.pop(connection, None)
        self._poller.unregister(connection.file_descriptor)
        self._acceptor.left(connection)
        self.in_flight.forget(connection)
        if self.in_flight.waiting:
            self._mailbox.wake()
        self._sweep.count_bytes(connection)
        self._counters.connections_closed += 1

    def touch(self, connection: Connection) -> None:
        """Send the connection's answers at the end of this round, or start a round for them."""
        self._touched.append(connection)
        if not self._mailbox.is_in_round:
            self._mailbox.wake()

    def go_on_later(self, connection: Connection) -> None:
        """Continue with the connection in the next round, even if nothing new has arrived."""
        self._unfinished[connection] = None
        self._mailbox.wake()

    def elapsed_ms(self) -> int:
        """Return the elapsed time now, within a round."""
        return self._clock.now_ms()

    def is_round_long(self) -> bool:
        """Return whether this round has taken so long that other work should wait."""
        if self._must_go_on:  # One request is handled anyway.
            self._must_go_on = False
            return False
        return self._clock.now_ms() - self.now_ms >= ROUND_MS_MAX

    # -- for connections ------------------------------------------------------------------------------

    def malformed(self, connection: Connection, error: WireError) -> None:
        """Log and count bytes that are no request. The connection is closed."""
        self._counters.malformed_requests += 1
        self.log.warning("malformed request", peer=connection.name, error=str(error))

    def lost(self, connection: Connection, error: OSError) -> None:
        """Log that a client has disconnected unexpectedly."""
        log.debug("connection lost", peer=connection.name, error=str(error))

    def spawn(self, request: Request, answer: Awaitable[Message | None]) -> None:
        """Run a slow handler as a task."""
        self._workers.spawn(self._answer_later, request, answer)
        self._spawned = True

    async def _answer_later(self, request: Request, answer: Awaitable[Message | None]) -> None:
        try:
            found = await answer
            if found is not None:  # Otherwise the handler calls `request.respond`.
                request.respond(found)
        except Exception:  # The supervisor of handlers: one bug costs one connection, not the broker.
            self.log.exception("a handler failed", api=request.api.name, host=request.client_host)
            request.connection.close()

    def warm(self, connection: Connection, piece: FileRange) -> None:
        """Read the range's next part in a worker thread, then continue to send."""
        self._workers.spawn(self._warm_later, connection, piece)
        self._spawned = True

    async def _warm_later(self, connection: Connection, piece: FileRange) -> None:
        try:
            await self._workers.in_thread(piece.warm, limiter=self._cold_readers)
        except Exception:  # A supervisor: a disk error closes only this connection.
            self.log.exception("records cannot be read", peer=connection.name)
            connection.close()
        else:
            connection.warmed()

    # -- for other tasks -------------------------------------------------------------------------------

    def let_tasks_run(self) -> None:
        """End the turn, because a task must run."""
        self._spawned = True

    def watch_descriptor(self, descriptor: int) -> None:
        """End the turn whenever this descriptor is readable, because a task waits for it."""
        self._watched_descriptors.add(descriptor)
        self._poller.register(descriptor, READ)

    def unwatch_descriptor(self, descriptor: int) -> None:
        """Undo `watch_descriptor`. The descriptor is still open."""
        self._watched_descriptors.remove(descriptor)
        self._poller.unregister(descriptor)

    # -- the loop -------------------------------------------------------------------------------------

    async def drain(
        self,
        answers_seconds_max: float = ANSWERS_SECONDS_MAX,
        taking_seconds_max: float = TAKING_SECONDS_MAX,
    ) -> None:
        """Read no more requests. Return when the pending ones are answered and clients have read the answers.

        Without an answer, clients would send appended records again. Requests that wait for other events, and
        clients that do not read, are not waited for. `run` must continue meanwhile.
        """
        self._acceptor.close()
        for connection in tuple(self._connections.values()):
            connection.take_no_more()
        with trio.move_on_after(answers_seconds_max):
            await self._until_none(lambda each: each.owes)
        with trio.move_on_after(taking_seconds_max):
            await self._until_none(lambda each: each.touched or each.unsent)

    async def _until_none(self, is_waited_for: Callable[[Connection], bool]) -> None:
        """Return at the end of a turn in which `is_waited_for` is false for all connections."""
        while any(map(is_waited_for, self._connections.values())):
            self._turn = trio.Event()
            await self._turn.wait()

    def stop(self) -> None:
        """End `run` after this round."""
        self._stopping = True
        self._mailbox.wake()

    async def run(self) -> None:
        """Serve until `stop`."""
        self._look_after()
        poll = self._poller.poll
        while not self._stopping:
            events = poll(0, EVENTS_PER_ROUND)
            if not events and not self._unfinished:
                await self._wait()
                events = poll(0, EVENTS_PER_ROUND)
            self._round(events)
            began_ms = self.now_ms
            for _ in range(ROUNDS_PER_TURN):
                if self._spawned or self.now_ms - began_ms >= TURN_MS_MAX:
                    break
                events = poll(0 if self._unfinished else LINGER_SECONDS, EVENTS_PER_ROUND)
                if not events and not self._unfinished:
                    break
                self._round(events)
            self._spawned = False
            if self._turn is not None:
                self._turn.set()
            await trio.lowlevel.checkpoint()

    async def _wait(self) -> None:
        """Return when there may be events, or a timer is due."""
        deadline_ms, seconds = self._timers.next_deadline_ms(), float("inf")
        if deadline_ms is not None:
            seconds = max(0.0, (deadline_ms - self._clock.now_ms()) / 1000)
        await self._poller.wait(seconds)

    def _round(self, events: Events) -> None:
        self._mailbox.is_in_round = True
        self.now_ms = self._clock.now_ms()
        unfinished: dict[Connection, None] | None = None
        if self._unfinished:
            unfinished, self._unfinished = self._unfinished, {}
        connections, signals = self._connections, self._signals
        for descriptor, event in events:  # `_serve_all` inlined, to save a call.
            connection = connections.get(descriptor)
            if connection is not None:
                self._serve(connection, event)
            elif descriptor == signals:
                self._mailbox.drain()
            elif descriptor in self._watched_descriptors:
                self._spawned = True
            else:
                supervise("accept", partial(self._acceptor.accept, descriptor))
        if (len(events) >= EVENTS_WITH_OTHERS or self._found_more) and self._is_to_sync():
            others = self._poller.poll(0, EVENTS_PER_ROUND)
            self._found_more = bool(others)
            self._serve_all(others)
        if unfinished:
            self._must_go_on = True  # The first one always continues, so that every connection has its turn.
            for connection in unfinished:
                self._serve(connection, 0)
                self._must_go_on = False
            self._keep_order(unfinished)
        while self._mailbox.actions:
            supervise("posted", self._mailbox.actions.popleft())
        if self.now_ms >= self._timers.earliest_ms:
            supervise("timers", self._run_timers)
        try:
            self._end_round()
        except Exception:  # `supervise` inlined, to save a call.
            log.exception("a part failed", part="flusher")
        self._send_touched()
        if self.in_flight.waiting:
            supervise("in flight", partial(self.in_flight.end_round, self.now_ms))
            if self.in_flight.allowance.is_full and self._next_look_ms - self.now_ms > LOOK_INTERVAL_MS_FULL:
                self._look_later(LOOK_INTERVAL_MS_FULL)
        self._mailbox.is_in_round = False

    def _serve_all(self, events: Events) -> None:
        connections, signals = self._connections, self._signals
        for descriptor, event in events:
            connection = connections.get(descriptor)
            if connection is not None:
                self._serve(connection, event)
            elif descriptor == signals:
                self._mailbox.drain()
            elif descriptor in self._watched_descriptors:
                self._spawned = True
            else:
                supervise("accept", partial(self._acceptor.accept, descriptor))

    def _keep_order(self, waited: dict[Connection, None]) -> None:
        """Serve first, in the next round, the connections that had no turn in this one."""
        first = next(iter(waited))
        still = [each for each in waited if each is not first and each in self._unfinished]
        self._unfinished = dict.fromkeys((*still, *self._unfinished))

    def _serve(self, connection: Connection, event: int) -> None:
        note_turn = self.note_turn
        began_s = 0.0 if note_turn is None else perf_counter()
        try:
            if event == READ:
                connection.on_readable()
            elif not event:
                connection.go_on()
            elif connection.paused and event & BROKEN:
                connection.close()  # It is dead, and every poll would report it.
            elif event & ~WRITE:
                connection.on_readable()
            if event & WRITE and not connection.closed:
                connection.on_writable()
        except Exception:  # The supervisor of handlers: one bug costs one connection, not the broker.
            self.log.exception("a handler failed", peer=connection.name)
            connection.close()
        if note_turn is not None:
            supervise("quotas", partial(note_turn, connection, perf_counter() - began_s))

    def _run_timers(self) -> None:
        self._timers.run_due(self.now_ms)

    def _send_touched(self) -> None:
        while self._touched:
            touched, self._touched = self._touched, []
            for connection in touched:
                note_turn = self.note_turn
                began_s = 0.0 if note_turn is None else perf_counter()
                try:
                    connection.send_answers()
                except Exception:  # The supervisor of handlers, once more.
                    self.log.exception("answers cannot be sent", peer=connection.name)
                    connection.close()
                if note_turn is not None:
                    supervise("quotas", partial(note_turn, connection, perf_counter() - began_s))

    def _look_after(self) -> None:
        """Sweep the connections, and schedule the next sweep."""
        self._look_later(SWEEP_INTERVAL_MS)  # First, so that an error below does not prevent it.
        self._beat()
        is_full = self.in_flight.allowance.is_full
        self._sweep.look(self._connections.values(), self.now_ms, is_full=is_full)

    def _look_later(self, in_ms: int) -> None:
        self._next_look_ms = self._clock.now_ms() + in_ms
        self._timers.set("sweep connections", self._next_look_ms, self._look_after)

    def close(self) -> None:
        """Close every connection and listener. `run` must have ended."""
        for connection in list(self._connections.values()):
            connection.close()
        self._acceptor.close()
        self._poller.close()


def open_plain(  # It is an `Open`.
    driver: Driver, sock: socket.socket, address: tuple[str, int], frame_bytes_max: int, listener: int
) -> Connection:
    """Return a connection without TLS."""
    return Connection(driver, PlainTransport(sock), address, frame_bytes_max, listener)


def _last_active_ms(connection: Connection) -> int:
    return connection.peer.last_active_ms


def supervise(part: str, action: Callable[[], object]) -> None:
    """Call `action`, and log an exception."""
    try:
        action()
    except Exception:  # A supervisor: a bug in one part must not end the broker.
        log.exception("a part failed", part=part)
