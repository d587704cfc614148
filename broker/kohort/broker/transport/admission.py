"""Whose connection is closed where there are as many as there may be.

Who is known takes a place of those that there are for everybody. Where none is left, one of the user that has
most makes way for a user that has fewer, and of one user's the network that has most for one that has fewer.
Super users are always let in. Whoever is not known yet has a few places besides, so that it can say who it
is.
"""

from collections.abc import Callable
from typing import NamedTuple

from kohort.broker.transport.connection import Connection
from kohort.broker.transport.pending_connections import PendingConnections
from kohort.protocol.addresses import network_of

RESERVED_MAX = 32
"""Places besides, for those who are not known yet."""
RESERVED_PART = 8
"""No more of all places than one in so many."""


class Share(NamedTuple):
    """Whose connections: a user's, from one network."""

    principal: str
    network: str


class Admission:
    """Who has how many places. The loop's thread only."""

    def __init__(self, is_privileged: Callable[[str], bool]) -> None:
        """`is_privileged` says which principals are always let in."""
        self._is_privileged = is_privileged
        self._users: dict[str, int] = {}
        self._shares: dict[Share, int] = {}
        self.pending = PendingConnections[Connection](0)
        """Those who are not known yet."""
        self.known = 0
        """How many others there are."""

    def is_privileged(self, principal: str) -> bool:
        """Return whether a principal is let in whoever has to make way."""
        return self._is_privileged(principal)

    def came(self, connection: Connection, now_ms: int) -> None:
        """Note a connection of one who is not known yet."""
        self.pending.add(connection, now_ms)

    def entered(self, connection: Connection) -> None:
        """Note that a connection's principal is known."""
        self.pending.remove(connection)
        share = Share(connection.principal, network_of(connection.host))
        self.known += 1
        self._users[share.principal] = self._users.get(share.principal, 0) + 1
        self._shares[share] = self._shares.get(share, 0) + 1

    def left(self, connection: Connection) -> None:
        """Note that a connection has closed."""
        if self.pending.remove(connection):
            return
        share = Share(connection.principal, network_of(connection.host))
        self.known -= 1
        self._users[share.principal] -= 1
        self._shares[share] -= 1
        if not self._shares[share]:
            del self._shares[share]
        if not self._users[share.principal]:
            del self._users[share.principal]

    def who_makes_way(self, share: Share) -> Share | None:
        """Return whose connection is to be closed for one more of `share`; None where it is not let in."""
        users = {user: count for user, count in self._users.items() if not self._is_privileged(user)}
        if not users:
            return None
        most = max(users.values())
        own = users.get(share.principal, 0)
        if self._is_privileged(share.principal) or most > own + 1:
            return self._heaviest(next(user for user, count in users.items() if count == most))
        heaviest = self._heaviest(share.principal) if own else None
        if heaviest is None or self._shares[heaviest] <= self._shares.get(share, 0) + 1:
            return None
        return heaviest

    def _heaviest(self, principal: str) -> Share:
        return max(
            (each for each in self._shares if each.principal == principal), key=self._shares.__getitem__
        )


def reserved(most: int) -> int:
    """Return how many of all places are for those who are not known yet."""
    return min(RESERVED_MAX, most // RESERVED_PART)
