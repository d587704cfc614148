"""Chooses the connection to close at the limit of connections.

The limit is for authenticated connections. At the limit, the user with the most connections loses one to a
user with fewer. Among the connections of one user, the network with the most loses one to a network with
fewer. Super users are always admitted. A few additional connections are reserved for clients that are not
authenticated yet, so that they can authenticate.
"""

from collections.abc import Callable
from typing import NamedTuple

from kohort.broker.transport.connection import Connection
from kohort.broker.transport.pending_connections import PendingConnections
from kohort.protocol.addresses import network_of

RESERVED_MAX = 32
"""The most reserved connections for clients that are not authenticated yet."""
RESERVED_PART = 8
"""At most one of so many connections is reserved."""


class Share(NamedTuple):
    """The connections of one user from one network."""

    principal: str
    network: str


class Admission:
    """The number of connections of each user and network. The loop's thread only."""

    def __init__(self, is_privileged: Callable[[str], bool]) -> None:
        """`is_privileged` returns whether a principal is always admitted."""
        self._is_privileged = is_privileged
        self._users: dict[str, int] = {}
        self._shares: dict[Share, int] = {}
        self.pending = PendingConnections[Connection](0)
        """The connections that are not authenticated yet."""
        self.known = 0
        """The number of authenticated connections."""

    def is_privileged(self, principal: str) -> bool:
        """Return whether a principal is always admitted."""
        return self._is_privileged(principal)

    def came(self, connection: Connection, now_ms: int) -> None:
        """Add a connection that is not authenticated yet."""
        self.pending.add(connection, now_ms)

    def entered(self, connection: Connection) -> None:
        """Add an authenticated connection."""
        self.pending.remove(connection)
        share = Share(connection.principal, network_of(connection.host))
        self.known += 1
        self._users[share.principal] = self._users.get(share.principal, 0) + 1
        self._shares[share] = self._shares.get(share, 0) + 1

    def left(self, connection: Connection) -> None:
        """Remove a closed connection."""
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

    def share_to_evict(self, share: Share) -> Share | None:
        """Return the share that must lose a connection for one more of `share`, or None to refuse it."""
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
    """Return the number of reserved connections, out of `most`."""
    return min(RESERVED_MAX, most // RESERVED_PART)
