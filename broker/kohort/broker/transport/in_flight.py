"""How much all connections together may hold, and who has to wait when that is much.

`queued.max.request.bytes` counts whatever is kept for clients: requests from their first byte to their
answer, and answers until they are taken. Up to half of it everybody may hold `HELD_BYTES_MAX`. Beyond
that the other half is shared out evenly among those that hold something, so the heaviest wait first, and
who holds less than its share goes on as if nothing were. One connection at a time may read a frame
larger than its share, so that none waits for room that only waiting ones could make.
"""

from typing import Protocol

HELD_BYTES_MAX = 16 * 1024 * 1024
SHARE_BYTES_MIN = 16_384  # Who holds less than this never waits: a heartbeat, a commit, a join.


class Allowance:
    """What one connection may hold at the moment; one for all of them."""

    __slots__ = ("_finishing", "held_bytes_max", "is_scarce")

    def __init__(self) -> None:
        self.held_bytes_max = HELD_BYTES_MAX
        self.is_scarce = False
        self._finishing: object | None = None

    def lets_finish(self, peer: object) -> bool:
        """Return whether `peer` may read on though it holds a share already, all of it of one frame."""
        return not self.is_scarce or self._finishing is peer

    def let_finish(self, peer: object | None) -> None:
        """Let `peer` alone read on when things are scarce."""
        self._finishing = peer


class Holder(Protocol):
    """What a connection holds."""

    held_bytes: int


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

    __slots__ = ("_bytes_max", "_finishing", "_holders", "allowance", "held_bytes", "waiting")

    def __init__(self, bytes_max: int) -> None:
        """Let all connections hold `bytes_max` together, or whatever they like where it is negative."""
        self.allowance = Allowance()
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self._holders = 0
        self.waiting: dict[Waiter, None] = {}
        """Those who wait for room, in the order in which they were paused."""
        self._finishing: Waiter | None = None

    def note(self, before_bytes: int, now_bytes: int) -> None:
        """Hear that one connection holds `now_bytes` instead of `before_bytes`."""
        self.held_bytes += now_bytes - before_bytes
        self._holders += bool(now_bytes) - bool(before_bytes)
        if self._bytes_max < 0:
            return
        allowance, spare_bytes = self.allowance, self._bytes_max // 2
        allowance.is_scarce = self.held_bytes > spare_bytes
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
        if self._finishing is connection:
            self._favour(None)

    def end_round(self) -> None:
        """Let those go on for whom there is room by now. To be called at the end of each round."""
        if self._finishing is not None and not self._is_finishing(self._finishing):
            self._favour(None)
        for connection in list(self.waiting):
            self._try(connection)
        for connection in list(self.waiting):
            if self._finishing is not None:
                break
            self._favour(connection)
            self._try(connection)
            if not self._is_finishing(connection):  # It waits for its peer to take answers, say.
                self._favour(None)

    def _is_finishing(self, connection: Waiter) -> bool:
        allowance = self.allowance
        is_large = connection.peer.held_bytes >= allowance.held_bytes_max
        return allowance.is_scarce and is_large and not connection.paused

    def _try(self, connection: Waiter) -> None:
        connection.resume_if_possible()
        if not connection.paused:
            self.waiting.pop(connection, None)

    def _favour(self, connection: Waiter | None) -> None:
        self._finishing = connection
        self.allowance.let_finish(None if connection is None else connection.peer)
