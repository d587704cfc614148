"""Those who have come and are not let in yet: so many, and no address more than its part of a crowd.

Where there is no room the oldest goes of the address that has the most. So who floods the door from one
address pushes out itself, and not those who come from others.
"""

from typing import Generic, Protocol, TypeVar


class Guest(Protocol):
    """Who waits: a connection."""

    host: str
    """The address that it comes from."""


GuestT = TypeVar("GuestT", bound=Guest)


class Crowd(Generic[GuestT]):
    """Who waits, the oldest first. The loop's thread only."""

    def __init__(self, most: int) -> None:
        """Let no more than `most` wait."""
        self._most = most
        self._since_ms: dict[GuestT, int] = {}
        self._by_host: dict[str, dict[GuestT, None]] = {}

    def __len__(self) -> int:
        return len(self._since_ms)

    def came(self, guest: GuestT, now_ms: int) -> None:
        """Note one who waits from now on."""
        self._since_ms[guest] = now_ms
        self._by_host.setdefault(guest.host, {})[guest] = None

    def left(self, guest: GuestT) -> None:
        """Forget one who waits no more, if it did."""
        if self._since_ms.pop(guest, None) is not None:
            of_host = self._by_host[guest.host]
            del of_host[guest]
            if not of_host:
                del self._by_host[guest.host]

    def in_the_way(self) -> GuestT | None:
        """Return who has to go before another comes, None where there is room."""
        if len(self._since_ms) < self._most:
            return None
        most = max(map(len, self._by_host.values()))
        return next(next(iter(each)) for each in self._by_host.values() if len(each) == most)

    def oldest(self) -> tuple[GuestT, int] | None:
        """Return who has waited the longest, and since when; None where nobody waits."""
        return next(iter(self._since_ms.items()), None)
