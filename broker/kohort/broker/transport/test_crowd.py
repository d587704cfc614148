"""Who goes where there is no room: the oldest of the address that has the most."""

from dataclasses import dataclass

from kohort.broker.transport.crowd import Crowd


@dataclass(eq=False)
class Guest:
    host: str


def crowd_of(most: int, *hosts: str) -> tuple[Crowd[Guest], list[Guest]]:
    crowd, guests = Crowd[Guest](most), [Guest(each) for each in hosts]
    for now_ms, each in enumerate(guests):
        crowd.came(each, now_ms)
    return crowd, guests


def test_nobody_is_in_the_way_while_there_is_room() -> None:
    crowd, _ = crowd_of(3, "a", "a")
    assert crowd.in_the_way() is None


def test_the_oldest_goes_of_the_address_that_has_the_most() -> None:
    crowd, guests = crowd_of(4, "b", "a", "a", "a")
    assert crowd.in_the_way() is guests[1]
    crowd.left(guests[1])
    crowd.came(Guest("c"), 4)
    assert crowd.in_the_way() is guests[2]


def test_where_each_comes_from_elsewhere_the_oldest_goes() -> None:
    crowd, guests = crowd_of(3, "a", "b", "c")
    assert crowd.in_the_way() is guests[0]


def test_who_has_left_is_forgotten() -> None:
    crowd, guests = crowd_of(2, "a", "b")
    assert crowd.oldest() == (guests[0], 0)
    for each in guests:
        crowd.left(each)
        crowd.left(each)
    assert len(crowd) == 0
    assert crowd.oldest() is None
    assert not crowd._by_host
