"""How much all connections together may hold, and who has to wait when that is much.

`queued.max.request.bytes` counts whatever is kept for clients: requests from their first byte to their
answer, and answers until they are taken. Each may hold as much as is still free, `HELD_BYTES_MAX` at most:
so the heaviest wait first, together they never fill it, and who holds little goes on as if nothing were.
Frames alone cannot take more than all of it; answers can, since each client may ask one thing. When they
have taken a quarter more, nobody asks what may have a large answer; heartbeats, joins, commits and
produces go on.

Two of those who wait are let through, so that none waits for room that only waiting ones could make: one to
finish a large frame, one to ask, or to have encoded what it has asked. Whose answers have been small comes
before the others there.
"""

from collections.abc import Sized
from typing import Protocol

HELD_BYTES_MAX = 16 * 1024 * 1024
SHARE_BYTES_MIN = 16_384  # Who holds less than this may always be read.
PASSAGE_MS_MAX = 5_000  # Then the next one is let through.


class Allowance:
    """What one connection may hold at the moment; one for all of them."""

    __slots__ = ("asking", "finishing", "held_bytes_max", "is_full", "is_scarce")

    def __init__(self) -> None:
        self.held_bytes_max = HELD_BYTES_MAX
        self.is_scarce = False
        self.is_full = False
        self.finishing: object | None = None
        """Whose large frame is read although things are scarce."""
        self.asking: object | None = None
        """Whose question is asked although all room is taken."""


NOTHING = Allowance()
"""What one may hold who has to wait: nothing more is read, one thing is asked, and what is owed is told."""
NOTHING.held_bytes_max = 0
NOTHING.is_scarce = True


class Holder(Protocol):
    """What a connection holds."""

    held_bytes: int
    buffer_bytes: int
    deferred: int

    @property
    def is_modest(self) -> bool:
        """Whether its answers have been small so far."""
        ...

    @property
    def frames(self) -> Sized:
        """What has arrived and was not handed over yet."""
        ...

    @property
    def pieces(self) -> Sized:
        """What waits for the client to take it."""
        ...


class Waiter(Protocol):
    """A connection that is not read because things are scarce."""

    paused: bool

    @property
    def peer(self) -> Holder:
        """What it holds."""
        ...

    def resume_if_possible(self) -> None:
        """Go on where that is allowed by now."""
        ...


class InFlight:
    """The sum over all connections. The loop's thread only."""

    __slots__ = ("_asking", "_bytes_max", "_finishing", "_since_ms", "allowance", "held_bytes", "waiting")

    def __init__(self, bytes_max: int) -> None:
        """Let all connections hold `bytes_max` together, or whatever they like where it is negative."""
        self.allowance = Allowance()
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self.waiting: dict[Waiter, None] = {}
        """Those who wait for room, in the order in which they were paused."""
        self._finishing: Waiter | None = None
        self._asking: Waiter | None = None
        self._since_ms = [0, 0]  # Since when each of them is let through.
        self.note(0, 0)

    def note(self, before_bytes: int, now_bytes: int) -> None:
        """Hear that one connection holds `now_bytes` instead of `before_bytes`."""
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
        """Let a connection that was paused while things are scarce go on when there is room."""
        self.waiting[connection] = None

    def forget(self, connection: Waiter) -> None:
        """Forget a connection that closes."""
        self.waiting.pop(connection, None)
        if self._finishing is connection:
            self._let_finish(None)
        if self._asking is connection:
            self._let_ask(None)

    def end_round(self, now_ms: int) -> None:
        """Let those go on for whom there is room by now. To be called at the end of each round."""
        self._end_passages(now_ms)
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

    def _end_passages(self, now_ms: int) -> None:
        """Take them from those who have no more use for them, or have had them long enough."""
        if self._finishing is not None:
            is_over = now_ms - self._since_ms[0] > PASSAGE_MS_MAX
            if is_over or not self.allowance.is_scarce or not self._finishing.peer.buffer_bytes:
                self._let_finish(None)
        if self._asking is not None:
            peer = self._asking.peer
            is_over = now_ms - self._since_ms[1] > PASSAGE_MS_MAX
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
        """Let it go on; if it waits again, then behind the others."""
        if connection is not None:
            self.waiting.pop(connection, None)
            connection.resume_if_possible()
            if connection.paused:
                self.waiting[connection] = None


def _wants_to_ask(connection: Waiter) -> bool:
    """Return whether it waits to ask or to be answered, and not for its own client to take something."""
    peer = connection.peer
    return not peer.pieces and (bool(peer.frames) or bool(peer.deferred))


def _wants_to_finish(connection: Waiter) -> bool:
    peer = connection.peer
    return not (peer.pieces or peer.frames or peer.deferred)
