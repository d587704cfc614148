"""Those who have come and are not let in yet: so many, and no network more than its part of a crowd.

Where there is no room one goes at random, of the network that has the most if that is many. So who floods
the door from one network pushes out itself. Who floods it from everywhere pushes out itself mostly: of two
taken at random the one goes that has sent nothing.
"""

from secrets import randbelow
from typing import Generic, Protocol, TypeVar

from kohort.broker.transport.bag import Bag
from kohort.protocol.addresses import network_of

MANY = 8
"""With more than so many a network has to make way before others do: so many may be behind one address."""
CHOICES = 2


class Guest(Protocol):
    """Who waits: a connection."""

    host: str
    """The address that it comes from."""

    @property
    def has_sent(self) -> bool:
        """Whether any byte of it has come."""
        ...


GuestT = TypeVar("GuestT", bound=Guest)


class Crowd(Generic[GuestT]):
    """Who waits. The loop's thread only."""

    def __init__(self, most: int) -> None:
        """Let no more than `most` wait."""
        self._most = most
        self._since_ms: dict[GuestT, int] = {}
        self._all = Bag[GuestT]()
        self._by_network: dict[str, Bag[GuestT]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, guest: object) -> bool:
        return guest in self._since_ms

    def came(self, guest: GuestT, now_ms: int) -> None:
        """Note one who waits from now on."""
        self._since_ms[guest] = now_ms
        self._all.add(guest)
        network = network_of(guest.host)
        if network not in self._by_network:
            self._by_network[network] = Bag()
        self._by_network[network].add(guest)

    def left(self, guest: GuestT) -> bool:
        """Forget one who waits no more; return whether it did."""
        if not self._all.discard(guest):
            return False
        del self._since_ms[guest]
        network = network_of(guest.host)
        self._by_network[network].discard(guest)
        if not self._by_network[network]:
            del self._by_network[network]
        return True

    def in_the_way(self) -> GuestT | None:
        """Return who has to go before another comes, None where there is room."""
        return self.pick() if len(self._all) >= self._most else None

    def pick(self) -> GuestT | None:
        """Return who has to go first, None where nobody waits."""
        if not self._all:
            return None
        heaviest = max(map(len, self._by_network.values()))
        crowded = [each for each in self._by_network.values() if len(each) == heaviest]
        among = crowded[randbelow(len(crowded))] if heaviest > MANY else self._all
        return min(among.sample(CHOICES), key=_has_sent)

    def oldest(self) -> tuple[GuestT, int] | None:
        """Return who has waited the longest, and since when; None where nobody waits."""
        return next(iter(self._since_ms.items()), None)


def _has_sent(guest: Guest) -> bool:
    return guest.has_sent
