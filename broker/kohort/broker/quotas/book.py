"""The quota of each client, and the clients that share it. Pure.

A quota is for a user with a client id, for a user, or for a client id; each of these may be the default of
all that have none of their own. The most specific one counts. Source: Kafka's ClientQuotaManager.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from kohort.protocol.addresses import canonical_address

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"

KEPT_CHARACTERS_MAX = 255

USER, CLIENT_ID, IP = "user", "client-id", "ip"

Entity = Mapping[str, str | None]
"""Names by type; None is the default."""


class Sharers(NamedTuple):
    """The clients that share a quota: None is any."""

    key: str
    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    """A quota that applies to a client."""

    bound: float
    shared_by: Sharers
    """The same for all that share it."""


_NONE: Final = object()
_Key = tuple[object, object]


class Book:
    """All quotas."""

    def __init__(self) -> None:
        self._clients: dict[_Key, Mapping[str, float]] = {}
        self._addresses: dict[str | None, Mapping[str, float]] = {}
        self._has_requests = False

    def __bool__(self) -> bool:
        return bool(self._clients or self._addresses)

    def put(self, entity: Entity, values: Mapping[str, float]) -> None:
        """Set the quotas of the entity; none removes them."""
        if IP in entity:
            address = entity[IP]
            _put(self._addresses, None if address is None else canonical_address(address), values)
        else:
            _put(self._clients, (entity.get(USER, _NONE), entity.get(CLIENT_ID, _NONE)), values)
            self._has_requests = any(REQUEST in each for each in self._clients.values())

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """Return the quota that applies to the client, None without one."""
        client = _short(client_id)
        shared: tuple[tuple[_Key, tuple[str | None, str | None]], ...] = (
            ((user, client_id), (user, client)),
            ((user, None), (user, client)),
            ((user, _NONE), (user, None)),
            ((None, client_id), (user, client)),
            ((None, None), (user, client)),
            ((None, _NONE), (user, None)),
            ((_NONE, client_id), (None, client)),
            ((_NONE, None), (None, client)),
        )
        for entity, shared_by in shared:
            bound = self._clients.get(entity, {}).get(key)
            if bound is not None:
                return Limit(bound, Sharers(key, *shared_by))
        return None

    @property
    def has_requests(self) -> bool:
        """Whether any quota of the loop's time is set."""
        return self._has_requests

    def connection_rate(self, address: str) -> float | None:
        """Return how many connections a second may come from the address, as `canonical_address` has it."""
        for name in (address, None):
            bound = self._addresses.get(name, {}).get(CONNECTION)
            if bound is not None:
                return bound
        return None

    @property
    def has_addresses(self) -> bool:
        """Whether there are quotas of addresses."""
        return bool(self._addresses)

    @property
    def has_clients(self) -> bool:
        """Whether there are quotas of users and client ids."""
        return bool(self._clients)


def _short(client_id: str) -> str:
    """Return the stored form of a client id: the name is the client's choice, and may have 32 KiB."""
    return client_id if len(client_id) <= KEPT_CHARACTERS_MAX else sha256(client_id.encode()).hexdigest()


def _put(of: dict, key: object, values: Mapping[str, float]) -> None:  # type: ignore[type-arg]  # Of either kind.
    if values:
        of[key] = values
    else:
        of.pop(key, None)
