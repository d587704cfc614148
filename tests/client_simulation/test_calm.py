"""A few seeds of calm groups, and that the rules notice a membership that breaks them.

SEEDS=n runs as many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import pytest

from kohort.client.assignors import ASSIGNORS, Assignment, Assignor, Owned, Subscription, assign_sticky
from kohort.client.assignors.sticky import sticky_user_data
from kohort.client.membership import ClassicMembership, State
from kohort.client.membership.ownership import Ownership
from tests.client_simulation.calm import CalmWorld
from tests.simulation.books import Violation

SEEDS = int(os.environ.get("SEEDS", "12"))
SEEDS_OF_MUTANTS = 30

Mutate = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.requirement("R14", "R23")
def test_no_partition_has_two_owners_and_no_member_revokes_kept_partitions(seed: int) -> None:
    assert CalmWorld(seed).play().handovers > 0


def test_the_seeds_see_eager_and_cooperative_members_and_a_migration() -> None:
    seen = frozenset().union(*(CalmWorld(seed).play().seen for seed in range(6)))
    assert len(seen) == 3, seen


def reads_on_what_it_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(ownership: Ownership) -> None:
        ownership._in_hand = None

    monkeypatch.setattr(Ownership, "end", end)


def gives_everything_up(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ClassicMembership._prepare_join

    def prepare_join(membership: ClassicMembership, reason: str) -> None:
        whole(membership, reason)
        membership._ownership.give_up(membership.owned)

    monkeypatch.setattr(ClassicMembership, "_prepare_join", prepare_join)


def keeps_what_an_eager_member_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare_join(membership: ClassicMembership, reason: str) -> None:
        membership._reason = reason
        membership.state = State.OUTSIDE

    monkeypatch.setattr(ClassicMembership, "_prepare_join", prepare_join)


def does_not_join_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Ownership.take

    def take(ownership: Ownership, assignment: Owned) -> Owned:
        whole(ownership, assignment)
        return {}  # As if there were nothing to give up, and nobody to hand it to.

    monkeypatch.setattr(Ownership, "take", take)


def hands_out_what_others_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign(subscriptions: Mapping[str, Subscription], counts: Mapping[str, int]) -> Assignment:
        told = {
            member_id: Subscription(each.topics, user_data=sticky_user_data(each.owned, 1))
            for member_id, each in subscriptions.items()
        }
        return assign_sticky(told, counts)

    hasty = Assignor("cooperative-sticky", assign, cooperative=True)
    monkeypatch.setitem(ASSIGNORS, "cooperative-sticky", hasty)


def play_all(seeds: int) -> None:
    for seed in range(seeds):
        CalmWorld(seed).play()


@pytest.mark.parametrize(
    ("mutate", "rule"),
    [
        (reads_on_what_it_gave_up, "two owners"),
        (gives_everything_up, "which it keeps"),
        (keeps_what_an_eager_member_gives_up, "two owners"),
        (does_not_join_again, "nobody owns"),
        (hands_out_what_others_still_read, "two owners"),
    ],
)
def test_a_membership_that_breaks_a_rule_is_noticed(
    mutate: Mutate, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises(Violation, match=rule):
        play_all(SEEDS_OF_MUTANTS)
