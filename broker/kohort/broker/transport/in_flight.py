"""How much all connections together may hold, and who has to wait when that is much.

`queued.max.request.bytes` counts whatever is kept for clients: requests from their first byte to their
answer, and answers until they are taken. Up to half of it everybody may hold `HELD_BYTES_MAX`. Beyond
that things are scarce: the other half is shared out evenly among those that hold something, so the heaviest
wait first, and who holds less than its share goes on as if nothing were. When all of it is taken, nobody
asks what may have a large answer; heartbeats, joins, commits and produces go on.

One connection at a time is let through: it may read a frame larger than its share, or ask what others may
not, so that none waits for room that only waiting ones could make.
"""

from collections.abc import Sized
from typing import Protocol

HELD_BYTES_MAX = 16 * 1024 * 1024
SHARE_BYTES_MIN = 16_384  # Who holds less than this may always be read.
PASSAGE_MS_MAX = 5_000  # Then the next one is let through.


class Allowance:
    """What one connection may hold at the moment; one for all of them."""

    __slots__ = ("_passing", "held_bytes_max", "is_full", "is_scarce")

    def __init__(self) -> None:
        self.held_bytes_max = HELD_BYTES_MAX
        self.is_scarce = False
        self.is_full = False
        self._passing: object | None = None

    def lets_through(self, peer: object) -> bool:
        """Return whether `peer` may do what the others have to wait for."""
        return self._passing is peer

    def let_through(self, peer: object | None) -> None:
        """Let `peer` alone do so, instead of who could until now."""
        self._passing = peer


class Holder(Protocol):
    """What a connection holds."""

    held_bytes: int
    buffer_bytes: int

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

    __slots__ = ("_bytes_max", "_holders", "_passing", "_since_ms", "allowance", "held_bytes", "waiting")

    def __init__(self, bytes_max: int) -> None:
        """Let all connections hold `bytes_max` together, or whatever they like where it is negative."""
        self.allowance = Allowance()
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self._holders = 0
        self.waiting: dict[Waiter, None] = {}
        """Those who wait for room, in the order in which they were paused."""
        self._passing: Waiter | None = None
        self._since_ms = 0

    def note(self, before_bytes: int, now_bytes: int) -> None:
        """Hear that one connection holds `now_bytes` instead of `before_bytes`."""
        self.held_bytes += now_bytes - before_bytes
        self._holders += bool(now_bytes) - bool(before_bytes)
        if self._bytes_max < 0:
            return
        allowance, spare_bytes = self.allowance, self._bytes_max // 2
        allowance.is_scarce = self.held_bytes > spare_bytes
        allowance.is_full = self.held_bytes >= self._bytes_max
        if allowance.is_scarce:
            share_bytes = max(spare_bytes // max(self._holders, 1), SHARE_BYTES_MIN)
            allowance.held_bytes_max = min(share_bytes, HELD_BYTES_MAX)
        else:
            allowance.held_bytes_max = HELD_BYTES_MAX

    def wait(self, connection: Waiter) -> None:
        """Let a connection that was paused while things are scarce go on when there is room."""
        self.waiting[connection] = None

    def forget(self, connection: Waiter) -> None:
        """Forget a connection that closes."""
        self.waiting.pop(connection, None)
        if self._passing is connection:
            self._let_through(None)

    def end_round(self, now_ms: int) -> None:
        """Let those go on for whom there is room by now. To be called at the end of each round."""
        if self._passing is not None and not self._needs_passage(self._passing, now_ms):
            self._let_through(None)
        for connection in list(self.waiting):
            self._try(connection)
        for connection in list(self.waiting):
            if self._passing is not None:
                break
            del self.waiting[connection]
            self.waiting[connection] = None  # If it waits again, then behind the others.
            self._let_through(connection)
            self._since_ms = now_ms
            self._try(connection)
            if not self._needs_passage(connection, now_ms):
                self._let_through(None)

    def _needs_passage(self, connection: Waiter, now_ms: int) -> bool:
        """Return whether the connection makes use of being let through: it has something under way."""
        if not self.allowance.is_scarce or now_ms - self._since_ms > PASSAGE_MS_MAX:
            return False
        peer = connection.peer
        return bool(peer.frames or peer.buffer_bytes or (peer.pieces and self.allowance.is_full))

    def _try(self, connection: Waiter) -> None:
        connection.resume_if_possible()
        if not connection.paused:
            self.waiting.pop(connection, None)

    def _let_through(self, connection: Waiter | None) -> None:
        self._passing = connection
        self.allowance.let_through(None if connection is None else connection.peer)
