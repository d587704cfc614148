"""Who goes where there is no room: of a network that has many, else who has sent nothing, at random."""

from dataclasses import dataclass

import pytest

from kohort.broker.transport.crowd import CHOICES, MANY, Crowd
from kohort.protocol.addresses import network_of

PLACES = 256
ROUNDS = 3_000


@dataclass(eq=False)
class Guest:
    host: str
    has_sent: bool = False


def crowd_of(most: int, *guests: Guest) -> Crowd[Guest]:
    crowd = Crowd[Guest](most)
    for now_ms, each in enumerate(guests):
        crowd.came(each, now_ms)
    return crowd


def flood(crowd: Crowd[Guest], strangers: list[Guest]) -> list[Guest]:
    """Let each come; return who has lost its place."""
    gone = []
    for each in strangers:
        if (in_the_way := crowd.in_the_way()) is not None:
            crowd.left(in_the_way)
            gone.append(in_the_way)
        crowd.came(each, 0)
    return gone


def test_nobody_is_in_the_way_while_there_is_room() -> None:
    crowd = crowd_of(3, Guest("a"), Guest("a"))
    assert crowd.in_the_way() is None


def test_of_a_network_that_has_many_one_goes() -> None:
    few = [Guest("10.0.0.1") for _ in range(MANY)]
    crowd = crowd_of(PLACES, *few, *(Guest("10.0.0.2", has_sent=True) for _ in range(PLACES - MANY)))
    gone = flood(crowd, [Guest("10.0.0.2", has_sent=True) for _ in range(ROUNDS)])
    assert {each.host for each in gone} == {"10.0.0.2"}


@pytest.mark.parametrize("has_sent", [False, True])
def test_all_addresses_of_an_ipv6_customer_are_one(has_sent: bool) -> None:
    honest = [Guest("2001:db8:0:2::1"), Guest("10.0.0.1")]
    of_one = [Guest(f"2001:db8:0:1::{each:x}", has_sent) for each in range(PLACES)]
    crowd = crowd_of(PLACES, *of_one[:-2], *honest)
    gone = flood(crowd, [Guest(f"2001:db8:0:1:ffff::{each:x}", has_sent) for each in range(ROUNDS)])
    assert not set(honest) & set(gone)


def test_from_everywhere_who_has_sent_something_keeps_its_place() -> None:
    honest = [Guest(f"10.1.0.{each}", has_sent=True) for each in range(8)]
    crowd = crowd_of(PLACES, *honest)
    gone = flood(crowd, [Guest(f"10.{2 + each // 250}.0.{each % 250}") for each in range(ROUNDS)])
    assert len(set(honest) & set(gone)) < len(honest)  # Two or three of them on average.


def test_from_everywhere_it_is_a_matter_of_chance_not_of_age() -> None:
    """A client needs a few round trips: who is as old as that has lost its place with the oldest first."""
    kept = 0
    for _ in range(20):
        honest = Guest("10.1.0.1", has_sent=True)
        crowd = crowd_of(PLACES, honest)
        strangers = [Guest(f"10.2.{each // 250}.{each % 250}", has_sent=True) for each in range(PLACES)]
        kept += honest not in flood(crowd, strangers)
    assert kept  # None with the oldest first; e^-1 or more of them by chance.


def test_who_has_left_is_forgotten() -> None:
    guests = [Guest("a"), Guest("b")]
    crowd = crowd_of(2, *guests)
    assert crowd.oldest() == (guests[0], 0)
    for each in guests:
        crowd.left(each)
        crowd.left(each)
    assert len(crowd) == 0
    assert crowd.oldest() is None
    assert crowd.pick() is None
    assert not crowd._by_network
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
