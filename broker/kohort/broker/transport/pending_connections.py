"""Connections that are not authenticated yet: their number is limited, and the share of one network as well.

When there is no room, one connection is chosen at random and closed: one of the network that has the most, if
that network has many. A flood from one network therefore displaces its own connections. A flood from
everywhere displaces mostly its own: of two connections taken at random, the one goes that has sent nothing.
"""

from typing import Generic, Protocol, TypeVar

from kohort.broker.runtime.unpredictable import randbelow
from kohort.broker.transport.random_set import RandomSet
from kohort.protocol.addresses import network_of

MANY = 8
"""A network with more connections than this loses one before others do: so many may be behind one address."""
CHOICES = 2


class PendingConnection(Protocol):
    """A connection that is not authenticated yet."""

    host: str
    """The client's address."""

    @property
    def has_sent(self) -> bool:
        """Whether any byte of it has arrived."""
        ...


PendingT = TypeVar("PendingT", bound=PendingConnection)


class PendingConnections(Generic[PendingT]):
    """The connections that wait. Used by the loop's thread only."""

    def __init__(self, most: int) -> None:
        """Hold at most `most` connections."""
        self._most = most
        self._since_ms: dict[PendingT, int] = {}
        self._all = RandomSet[PendingT]()
        self._by_network: dict[str, RandomSet[PendingT]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, connection: object) -> bool:
        return connection in self._since_ms

    def add(self, connection: PendingT, now_ms: int) -> None:
        """Add a connection that waits from now on."""
        self._since_ms[connection] = now_ms
        self._all.add(connection)
        network = network_of(connection.host)
        if network not in self._by_network:
            self._by_network[network] = RandomSet()
        self._by_network[network].add(connection)

    def remove(self, connection: PendingT) -> bool:
        """Remove a connection; return whether it was there."""
        if not self._all.discard(connection):
            return False
        del self._since_ms[connection]
        network = network_of(connection.host)
        self._by_network[network].discard(connection)
        if not self._by_network[network]:
            del self._by_network[network]
        return True

    def to_displace(self) -> PendingT | None:
        """Return the connection to close before another is added, None while there is room."""
        return self.choose() if len(self._all) >= self._most else None

    def choose(self) -> PendingT | None:
        """Return the connection to close first, None if there is none."""
        if not self._all:
            return None
        heaviest = max(map(len, self._by_network.values()))
        heavy = [each for each in self._by_network.values() if len(each) == heaviest]
        among = heavy[randbelow(len(heavy))] if heaviest > MANY else self._all
        return min(among.sample(CHOICES), key=_has_sent)

    def oldest(self) -> tuple[PendingT, int] | None:
        """Return the connection that has waited the longest, and since when; None if there is none."""
        return next(iter(self._since_ms.items()), None)


def _has_sent(connection: PendingConnection) -> bool:
    return connection.has_sent
