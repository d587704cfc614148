"""What is said of owners by what their listeners were told."""

from __future__ import annotations

import pytest

from tests.interop.clients import Changes, Place
from tests.interop.ownership import EVER_S, longest_gap_s, owned_twice, owners

PLACE = Place("t", 0)
HERE = frozenset({PLACE})


def told(*times_s: float) -> Changes:
    """One who was given it and lost it at these times by turns."""
    changes = Changes()
    for index, at_s in enumerate(times_s):
        (changes.note_revoked if index % 2 else changes.note_assigned)(HERE, at_s)
    return changes


def test_consecutive_owners_do_not_overlap() -> None:
    owned = owners([("a", told(1, 3, 8), EVER_S), ("b", told(4, 7), EVER_S)])
    assert [(each.begins_s, each.ends_s, each.name) for each in owned[PLACE]] == [
        (1, 3, "a"),
        (4, 7, "b"),
        (8, EVER_S, "a"),
    ]
    assert owned_twice(owned) == []
    assert longest_gap_s(owned) == 1


def test_a_member_that_has_not_revoked_is_still_the_owner() -> None:
    owned = owners([("a", told(1, 5), EVER_S), ("b", told(4), EVER_S)])
    (found,) = owned_twice(owned)
    assert "a had it for 1.000 s more when b had it" in found


@pytest.mark.parametrize(("left_s", "count"), [(3.0, 0), (5.0, 1)])
def test_a_member_owns_its_partitions_until_it_leaves(left_s: float, count: int) -> None:
    assert len(owned_twice(owners([("a", told(1), left_s), ("b", told(4), EVER_S)]))) == count
