"""Which connection is displaced: of a network that has many, else one that has sent nothing, at random."""

from dataclasses import dataclass

import pytest

from kohort.broker.transport.pending_connections import CHOICES, MANY, PendingConnections
from kohort.protocol.addresses import network_of

PLACES = 256
ROUNDS = 3_000


@dataclass(eq=False)
class Client:
    host: str
    has_sent: bool = False


def pending_of(most: int, *clients: Client) -> PendingConnections[Client]:
    pending = PendingConnections[Client](most)
    for now_ms, each in enumerate(clients):
        pending.add(each, now_ms)
    return pending


def flood(pending: PendingConnections[Client], clients: list[Client]) -> list[Client]:
    """Add each connection; return those that were displaced."""
    gone = []
    for each in clients:
        if (displaced := pending.to_displace()) is not None:
            pending.remove(displaced)
            gone.append(displaced)
        pending.add(each, 0)
    return gone


def test_no_connection_is_displaced_while_there_is_space() -> None:
    pending = pending_of(3, Client("a"), Client("a"))
    assert pending.to_displace() is None


def test_a_network_with_many_connections_loses_one() -> None:
    few = [Client("10.0.0.1") for _ in range(MANY)]
    pending = pending_of(PLACES, *few, *(Client("10.0.0.2", has_sent=True) for _ in range(PLACES - MANY)))
    gone = flood(pending, [Client("10.0.0.2", has_sent=True) for _ in range(ROUNDS)])
    assert {each.host for each in gone} == {"10.0.0.2"}


@pytest.mark.parametrize("has_sent", [False, True])
def test_all_addresses_of_an_ipv6_customer_count_as_one(has_sent: bool) -> None:
    honest = [Client("2001:db8:0:2::1"), Client("10.0.0.1")]
    of_one = [Client(f"2001:db8:0:1::{each:x}", has_sent) for each in range(PLACES)]
    pending = pending_of(PLACES, *of_one[:-2], *honest)
    gone = flood(pending, [Client(f"2001:db8:0:1:ffff::{each:x}", has_sent) for each in range(ROUNDS)])
    assert not set(honest) & set(gone)


def test_a_client_that_has_sent_something_survives_a_flood_from_everywhere() -> None:
    honest = [Client(f"10.1.0.{each}", has_sent=True) for each in range(8)]
    pending = pending_of(PLACES, *honest)
    gone = flood(pending, [Client(f"10.{2 + each // 250}.0.{each % 250}") for each in range(ROUNDS)])
    assert len(set(honest) & set(gone)) < len(honest)  # Two or three of them on average.


def test_in_a_flood_from_everywhere_the_displaced_one_is_random() -> None:
    """A client needs a few round trips: who is as old as that has lost its place with the oldest first."""
    kept = 0
    for _ in range(20):
        honest = Client("10.1.0.1", has_sent=True)
        pending = pending_of(PLACES, honest)
        clients = [Client(f"10.2.{each // 250}.{each % 250}", has_sent=True) for each in range(PLACES)]
        kept += honest not in flood(pending, clients)
    assert kept  # None with the oldest first; e^-1 or more of them by chance.


def test_closed_connections_are_removed() -> None:
    clients = [Client("a"), Client("b")]
    pending = pending_of(2, *clients)
    assert pending.oldest() == (clients[0], 0)
    for each in clients:
        pending.remove(each)
        pending.remove(each)
    assert len(pending) == 0
    assert pending.oldest() is None
    assert pending.choose() is None
    assert not pending._by_network
    assert CHOICES > 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1:ffff::5", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("nowhere", "nowhere"),
    ],
)
def test_networks(address: str, network: str) -> None:
    assert network_of(address) == network
