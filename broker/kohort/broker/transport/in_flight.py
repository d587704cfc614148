"""Limits the memory that all connections together hold, and pauses connections at the limit.

`queued.max.request.bytes` counts requests from their first byte to their answer, and answers until clients
read them. A connection may hold as much as is free, at most `HELD_BYTES_MAX`. So connections that hold much
wait first, and connections that hold little are not affected. Requests alone cannot exceed the limit. Answers
can, because each client may always send one request. When the limit is exceeded by a quarter, requests that
may have large answers wait; heartbeats, joins, commits and produces continue.

Two waiting connections may always continue, to prevent deadlocks: one may finish a large frame, and one may
send a request or have its answer encoded. Connections with small answers have priority for the latter.
"""

from collections.abc import Sized
from typing import Protocol

HELD_BYTES_MAX = 16 * 1024 * 1024
SHARE_BYTES_MIN = 16_384  # A connection that holds less is always read.
EXEMPTION_MS_MAX = 5_000  # Then the next waiting connection may continue.


class Allowance:
    """How much one connection may hold now. All connections share this object."""

    __slots__ = ("asking", "finishing", "held_bytes_max", "is_full", "is_scarce")

    def __init__(self) -> None:
        self.held_bytes_max = HELD_BYTES_MAX
        self.is_scarce = False
        self.is_full = False
        self.finishing: object | None = None
        """The peer that may finish its large frame although memory is scarce."""
        self.asking: object | None = None
        """The peer whose request is handled although the limit is exceeded."""


NOTHING = Allowance()
"""The allowance of a muted connection: it handles at most one request, and sends pending answers."""
NOTHING.held_bytes_max = 0
NOTHING.is_scarce = True


class Holder(Protocol):
    """The held memory of a connection."""

    held_bytes: int
    buffer_bytes: int
    deferred: int

    @property
    def is_modest(self) -> bool:
        """Whether its answers have been small so far."""
        ...

    @property
    def frames(self) -> Sized:
        """Received requests that are not handled yet."""
        ...

    @property
    def pieces(self) -> Sized:
        """Answers that the client has not read yet."""
        ...


class Waiter(Protocol):
    """A connection that is paused because memory is scarce."""

    paused: bool

    @property
    def peer(self) -> Holder:
        """The memory that it holds."""
        ...

    def resume_if_possible(self) -> None:
        """Continue if that is allowed now."""
        ...


class InFlight:
    """The sum over all connections. The loop's thread only."""

    __slots__ = ("_asking", "_bytes_max", "_finishing", "_since_ms", "allowance", "held_bytes", "waiting")

    def __init__(self, bytes_max: int) -> None:
        """Limit the memory of all connections together to `bytes_max`; a negative number means no limit."""
        self.allowance = Allowance()
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self.waiting: dict[Waiter, None] = {}
        """The connections that wait for room, in the order of their pauses."""
        self._finishing: Waiter | None = None
        self._asking: Waiter | None = None
        self._since_ms = [0, 0]  # when `_finishing` and `_asking` were set
        self.note(0, 0)

    def note(self, before_bytes: int, now_bytes: int) -> None:
        """Count that one connection holds `now_bytes` instead of `before_bytes`."""
        self.held_bytes += now_bytes - before_bytes
        if self._bytes_max < 0:
            return
        allowance = self.allowance
        finishing_bytes = 0 if self._finishing is None else self._finishing.peer.held_bytes
        free_bytes = self._bytes_max - self.held_bytes + finishing_bytes
        allowance.is_scarce = free_bytes < HELD_BYTES_MAX
        allowance.is_full = free_bytes <= -(self._bytes_max // 4)
        allowance.held_bytes_max = min(max(free_bytes, SHARE_BYTES_MIN), HELD_BYTES_MAX)

    def wait(self, connection: Waiter) -> None:
        """Add a paused connection, which continues when there is room."""
        self.waiting[connection] = None

    def forget(self, connection: Waiter) -> None:
        """Remove a connection that closes."""
        self.waiting.pop(connection, None)
        if self._finishing is connection:
            self._let_finish(None)
        if self._asking is connection:
            self._let_ask(None)

    def end_round(self, now_ms: int) -> None:
        """Continue the connections for which there is room now. Called at the end of each round."""
        self._end_exemptions(now_ms)
        for connection in list(self.waiting):
            connection.resume_if_possible()
            if not connection.paused:
                del self.waiting[connection]
        if self._asking is None and self.allowance.is_full:
            asking = list(filter(_wants_to_ask, self.waiting))
            if asking:
                self._let_ask(next((each for each in asking if each.peer.is_modest), asking[0]), now_ms)
        if self._finishing is None and self.allowance.is_scarce:
            finishing = next(filter(_wants_to_finish, self.waiting), None)
            if finishing is not None:
                self._let_finish(finishing, now_ms)

    def _end_exemptions(self, now_ms: int) -> None:
        """End the exemptions of connections that no longer need them, or have had them too long."""
        if self._finishing is not None:
            is_over = now_ms - self._since_ms[0] > EXEMPTION_MS_MAX
            if is_over or not self.allowance.is_scarce or not self._finishing.peer.buffer_bytes:
                self._let_finish(None)
        if self._asking is not None:
            peer = self._asking.peer
            is_over = now_ms - self._since_ms[1] > EXEMPTION_MS_MAX
            if is_over or not self.allowance.is_full or not (peer.frames or peer.deferred or peer.pieces):
                self._let_ask(None)

    def _let_finish(self, connection: Waiter | None, now_ms: int = 0) -> None:
        self._finishing, self._since_ms[0] = connection, now_ms
        self.allowance.finishing = None if connection is None else connection.peer
        self.note(0, 0)
        self._go_on(connection)

    def _let_ask(self, connection: Waiter | None, now_ms: int = 0) -> None:
        self._asking, self._since_ms[1] = connection, now_ms
        self.allowance.asking = None if connection is None else connection.peer
        self._go_on(connection)

    def _go_on(self, connection: Waiter | None) -> None:
        """Continue with a connection. If it must wait again, it waits behind the others."""
        if connection is not None:
            self.waiting.pop(connection, None)
            connection.resume_if_possible()
            if connection.paused:
                self.waiting[connection] = None


def _wants_to_ask(connection: Waiter) -> bool:
    """Return whether it waits for a request or an answer, and not for its client to read."""
    peer = connection.peer
    return not peer.pieces and (bool(peer.frames) or bool(peer.deferred))


def _wants_to_finish(connection: Waiter) -> bool:
    peer = connection.peer
    return not (peer.pieces or peer.frames or peer.deferred)
