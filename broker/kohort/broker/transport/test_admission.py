"""Who makes way where all places are taken, and whom nobody shuts out."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from kohort.broker.transport.admission import Admission, Share, reserved

SUPER = "User:admin"


@dataclass(eq=False)
class Guest:
    principal: str
    host: str
    has_sent: bool = True


def admission(*guests: tuple[str, str, int]) -> Admission:
    """Return one with so many connections of each user from each host."""
    made = Admission(lambda principal: principal == SUPER)
    for principal, host, count in guests:
        for _ in range(count):
            made.entered(cast(Any, Guest(principal, host)))
    return made


@pytest.mark.parametrize(
    ("there", "comes", "goes"),
    [
        ([("a", "1", 8), ("b", "1", 2)], ("b", "1"), ("a", "1")),  # Who has fewer is let in ...
        ([("a", "1", 8), ("b", "1", 2)], ("a", "1"), None),  # ... and who has most is not.
        ([("a", "1", 5), ("b", "1", 5)], ("b", "1"), None),  # Equal shares stay as they are.
        ([("a", "1", 5), ("b", "1", 4)], ("b", "1"), None),  # Nor is it to and fro.
        ([("a", "1", 8), ("a", "2", 1)], ("a", "2"), ("a", "1")),  # Of one user: by network.
        ([("a", "1", 2), ("a", "2", 1)], ("a", "2"), None),
        ([("a", "1", 1), ("a", "2", 1)], ("a", "3"), None),
        ([("a", "1", 3), ("a", "2", 9), ("b", "1", 1)], ("c", "1"), ("a", "2")),
        ([("a", "1", 1)], (SUPER, "1"), ("a", "1")),  # A super user always is.
        ([(SUPER, "1", 9), ("a", "1", 2)], ("b", "1"), ("a", "1")),  # None of them goes.
        ([(SUPER, "1", 9)], ("a", "1"), None),
        ([], ("a", "1"), None),
    ],
)
def test_admission_selects_the_connection_to_evict(
    there: list[tuple[str, str, int]], comes: tuple[str, str], goes: tuple[str, str] | None
) -> None:
    assert admission(*there).share_to_evict(Share(*comes)) == (None if goes is None else Share(*goes))


def test_all_addresses_of_an_ipv6_network_count_as_one() -> None:
    spread = [("a", f"2001:db8::{each:x}", 1) for each in range(4)]
    assert admission(*spread).share_to_evict(Share("a", "10.0.0.1")) == Share("a", "2001:db8::/64")


def test_closed_connections_leave_no_state() -> None:
    made = Admission(lambda _: False)
    known, stranger = Guest("a", "1"), Guest("a", "1")
    made.came(cast(Any, known), 0)
    made.came(cast(Any, stranger), 0)
    made.entered(cast(Any, known))
    assert (made.known, len(made.pending)) == (1, 1)
    made.left(cast(Any, known))
    made.left(cast(Any, stranger))
    assert (made.known, len(made.pending)) == (0, 0)
    assert not made._users
    assert not made._shares


def test_places_besides_are_a_small_part_of_all() -> None:
    assert [reserved(each) for each in (1, 7, 8, 448, 1_000_000)] == [0, 0, 1, 32, 32]
