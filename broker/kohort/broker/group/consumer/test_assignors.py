"""The assignors: balanced, sticky, complete, and quick where a group is large."""

import random
import time
from collections.abc import Mapping
from uuid import UUID

import pytest

from kohort.broker.group.consumer.assignors import ASSIGNORS, by_range, uniform
from kohort.broker.group.epochs.partitions import Partitions

T, U, V = (UUID(int=number) for number in (1, 2, 3))


def sizes(assignment: Mapping[str, Partitions]) -> list[int]:
    return [sum(map(len, each.values())) for each in assignment.values()]


def moved(before: Mapping[str, Partitions], after: Mapping[str, Partitions]) -> int:
    """How many partitions have moved from one member to another."""
    owner = {(t, i): m for m, each in before.items() for t, indexes in each.items() for i in indexes}
    return sum(
        owner.get((t, i), m) != m for m, each in after.items() for t, indexes in each.items() for i in indexes
    )


def test_uniform_moves_no_more_than_a_newcomer_needs() -> None:
    two = dict.fromkeys(("a", "b"), frozenset((T,)))
    first = uniform(two, {T: 7}, {})
    assert sorted(sizes(first)) == [3, 4]
    three = {**two, "c": frozenset((T,))}
    second = uniform(three, {T: 7}, first)
    assert sorted(sizes(second)) == [2, 2, 3]
    assert moved(first, second) == 2


def test_uniform_keeps_the_larger_share_with_its_member() -> None:
    members = dict.fromkeys(("a", "b"), frozenset((T,)))
    before = {"a": {T: frozenset((0,))}, "b": {T: frozenset((1, 2))}}
    assert uniform(members, {T: 3}, before) == before


def test_range_gives_neighbours_and_the_same_partitions_of_each_topic() -> None:
    members = dict.fromkeys(("a", "b"), frozenset((T, U)))
    assert by_range(members, {T: 3, U: 3}, {}) == {
        "a": {T: frozenset((0, 1)), U: frozenset((0, 1))},
        "b": {T: frozenset((2,)), U: frozenset((2,))},
    }


def test_uniform_balances_members_with_different_topics() -> None:
    members = {"a": frozenset((T,)), "b": frozenset((T, U)), "c": frozenset((U, V))}
    before = {"a": {T: frozenset(range(6))}}
    after = uniform(members, {T: 6, U: 2, V: 1}, before)
    assert sizes(after) == [4, 3, 2]  # Nobody has two more than another who could take one of them.


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(30))
def test_every_subscribed_partition_is_assigned_to_one_of_its_readers(name: str, seed: int) -> None:
    chance = random.Random(seed)
    topics = [UUID(int=number) for number in range(chance.randint(1, 6))]
    current: Mapping[str, Partitions] = {}
    for _ in range(5):
        counts = {topic: chance.randint(1, 9) for topic in topics}
        members = {
            str(number): frozenset(chance.sample(topics, chance.randint(0, len(topics))))
            for number in chance.sample(range(9), chance.randint(1, 8))
        }
        current = ASSIGNORS[name](members, counts, current)
        given = [(t, i) for each in current.values() for t, indexes in each.items() for i in indexes]
        read = {t for each in members.values() for t in each}
        assert sorted(given) == sorted((t, i) for t in read for i in range(counts[t]))
        assert all(set(each) <= members[member_id] for member_id, each in current.items())


def assignment_seconds(name: str, members_count: int, partitions_count: int, kinds: int) -> float:
    """Return the CPU time of a first assignment and of a second without one of the members."""
    topics = [UUID(int=number) for number in range(20)]
    counts = dict.fromkeys(topics, partitions_count // len(topics))
    wishes = [frozenset(topics[kind:]) for kind in range(kinds)]
    members = {f"member-{number}": wishes[number % kinds] for number in range(members_count)}
    began = time.process_time()
    first = ASSIGNORS[name](members, counts, {})
    del members[f"member-{members_count // 2}"]
    ASSIGNORS[name](members, counts, first)
    return time.process_time() - began


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("kinds", [1, 3])
def test_the_time_of_an_assignment_grows_with_members_and_partitions_not_with_their_product(
    name: str, kinds: int
) -> None:
    small = min(assignment_seconds(name, 100, 1_000, kinds) for _ in range(5))
    large = min(assignment_seconds(name, 1_000, 10_000, kinds) for _ in range(2))
    assert large / small < 40
    assert large < 1.0
