"""Partitions shared out by load: one owner each, few moves, and more even than sticky has it."""

from collections.abc import Mapping
from random import Random
from statistics import mean

import pytest

from kohort.client.assignors import Assignment, Subscription, assign_cooperative_sticky
from kohort.client.assignors.subscription import Assign, Partition
from kohort.queues.forward.sharing import (
    EVENNESS,
    Load,
    assign_by_load,
    decode_loads,
    encode_loads,
    moves_max,
)
from tests.repetitions import repetitions

ROUNDS_MAX = 300


class Group:
    """Members that own what they were assigned, and join again while one has to give something up."""

    def __init__(self, loads: Mapping[Partition, Load], counts: Mapping[str, int], assign: Assign) -> None:
        self.loads, self.counts, self.assign = loads, counts, assign
        self.owned: dict[str, frozenset[Partition]] = {}
        self.known: dict[str, dict[Partition, Load]] = {}
        self.topics: dict[str, tuple[str, ...]] = {}
        self.generation = 0

    def join(self, member_id: str, topics: tuple[str, ...] | None = None) -> None:
        self.owned[member_id], self.known[member_id] = frozenset(), {}
        self.topics[member_id] = tuple(self.counts) if topics is None else topics

    def leave(self, member_id: str) -> None:
        del self.owned[member_id], self.known[member_id], self.topics[member_id]

    def measure(self) -> None:
        for member_id, owned in self.owned.items():
            self.known[member_id].update({each: self.loads[each] for each in owned})

    def rebalance(self) -> int:
        """Let the members join until nobody has to give anything up; return how many rounds that took."""
        for rounds in range(1, ROUNDS_MAX):
            if not self.one_round():
                return rounds
        raise AssertionError("it never comes to an end")

    def one_round(self) -> bool:
        """Return whether somebody gave something up."""
        before = dict(self.owned)
        assignment = self.assign(self.subscriptions(), self.counts)
        self.check(before, assignment)
        self.generation += 1
        self.owned = {member_id: partitions_of(assignment[member_id]) for member_id in before}
        return any(before[member_id] - self.owned[member_id] for member_id in before)

    def subscriptions(self) -> dict[str, Subscription]:
        return {
            member_id: Subscription(
                topics=self.topics[member_id],
                owned=by_topic(owned),
                generation_id=self.generation,
                user_data=encode_loads(self.known[member_id]),
            )
            for member_id, owned in self.owned.items()
        }

    def check(self, before: Mapping[str, frozenset[Partition]], assignment: Assignment) -> None:
        """Nothing has two owners, not even while its old one still reads; nobody has what it did not want."""
        after = {member_id: partitions_of(each) for member_id, each in assignment.items()}
        assert set(after) == set(before)
        every = [each for partitions in after.values() for each in partitions]
        assert len(every) == len(set(every))
        for member_id, partitions in after.items():
            for other, owned in before.items():
                assert other == member_id or not partitions & owned
            assert all(topic in self.topics[member_id] for topic, _ in partitions)

    def totals(self) -> list[float]:
        """Return each member's part of all bytes and all pushes."""
        total_bytes = sum(each.bytes_per_s for each in self.loads.values())
        total_pushes = sum(each.pushes for each in self.loads.values())
        return [
            sum(
                self.loads[each].bytes_per_s / total_bytes + self.loads[each].pushes / total_pushes
                for each in owned
            )
            / 2
            for owned in self.owned.values()
        ]


def partitions_of(assigned: Mapping[str, tuple[int, ...]]) -> frozenset[Partition]:
    return frozenset((topic, each) for topic, partitions in assigned.items() for each in partitions)


def by_topic(owned: frozenset[Partition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for topic, each in sorted(owned):
        found[topic] = (*found.get(topic, ()), each)
    return found


def random_loads(draw: Random, counts: Mapping[str, int]) -> dict[Partition, Load]:
    """Return loads of which some are a hundred times the others."""
    return {
        (topic, each): Load(draw.paretovariate(1.2) * 1_000, draw.paretovariate(1.2))
        for topic, count in counts.items()
        for each in range(count)
    }


def group_of(draw: Random, assign: Assign, loads: Mapping[Partition, Load], counts: dict[str, int]) -> Group:
    group = Group(loads, counts, assign)
    for number in range(draw.randint(2, 6)):
        group.join(f"m{number}")
    return group


@pytest.mark.parametrize("seed", range(repetitions(60, by_night=2_000)))
def test_no_partition_has_two_owners_and_few_move_in_a_round(seed: int) -> None:
    draw = Random(seed)
    counts = {f"t{each}": draw.randint(1, 30) for each in range(draw.randint(1, 3))}
    group = group_of(draw, assign_by_load, random_loads(draw, counts), counts)
    newcomers = 0
    for _ in range(8):
        match draw.randrange(4):
            case 0 if len(group.owned) > 1:
                group.leave(draw.choice(sorted(group.owned)))
            case 1:
                newcomers += 1
                topics = tuple(draw.sample(sorted(counts), draw.randint(1, len(counts))))
                group.join(f"new{newcomers}", topics)
            case 2:
                group.loads = random_loads(draw, counts)
            case _:
                group.measure()
        for _ in range(draw.randint(1, 5)):
            before = dict(group.owned)
            group.one_round()
            lost = sum(len(owned - group.owned[member_id]) for member_id, owned in before.items())
            assert lost <= moves_max(sum(counts.values()))
    group.rebalance()
    wanted = {topic for topics in group.topics.values() for topic in topics}
    owned = [each for partitions in group.owned.values() for each in partitions]
    assert sorted(owned) == sorted((t, each) for t in wanted for each in range(counts[t]))


def test_the_load_is_spread_better_than_sticky_has_it() -> None:
    ours, theirs = [], []
    for seed in range(60):
        fullest = []
        for assign in (assign_by_load, assign_cooperative_sticky):
            draw = Random(seed)
            counts = {"t": 24, "retry": 24}
            loads = random_loads(draw, counts)
            group = group_of(draw, assign, loads, counts)
            group.rebalance()
            group.measure()
            group.rebalance()
            fair = max(1 / len(group.owned), *(sum(each) for each in loads_shares(loads)))
            fullest.append(max(group.totals()) / fair)
        ours.append(fullest[0])
        theirs.append(fullest[1])
    assert mean(ours) < EVENNESS
    assert mean(theirs) > 1.15 * mean(ours)
    assert sum(mine <= other + 0.15 for mine, other in zip(ours, theirs, strict=True)) == len(ours)


def loads_shares(loads: Mapping[Partition, Load]) -> list[tuple[float, float]]:
    total_bytes = sum(each.bytes_per_s for each in loads.values())
    total_pushes = sum(each.pushes for each in loads.values())
    return [(each.bytes_per_s / total_bytes / 2, each.pushes / total_pushes / 2) for each in loads.values()]


def test_a_slow_partition_counts_as_much_as_a_large_one() -> None:
    loads = {("t", 0): Load(1_000_000, 0.1), ("t", 1): Load(10, 50.0), ("t", 2): Load(10, 0.1)}
    group = Group({**loads, ("t", 3): Load(10, 0.1)}, {"t": 4}, assign_by_load)
    group.join("a")
    group.join("b")
    group.owned = {"a": frozenset({("t", 0), ("t", 1)}), "b": frozenset({("t", 2), ("t", 3)})}
    group.measure()
    group.rebalance()
    heavy = [{("t", 0), ("t", 1)} & owned for owned in group.owned.values()]
    assert [len(each) for each in heavy] == [1, 1]


def test_a_group_that_is_even_enough_is_left_alone() -> None:
    group = Group({("t", each): Load(100.0 + each, 1.0) for each in range(12)}, {"t": 12}, assign_by_load)
    for number in range(3):
        group.join(f"m{number}")
    group.rebalance()
    group.measure()
    before = dict(group.owned)
    assert group.rebalance() == 1
    assert group.owned == before


def test_a_newcomer_gets_its_share_in_small_steps() -> None:
    group = Group({("t", each): Load(100.0, 1.0) for each in range(40)}, {"t": 40}, assign_by_load)
    group.join("a")
    group.rebalance()
    group.measure()
    group.join("b")
    assert group.rebalance() >= 8, "two in each round"
    assert min(len(each) for each in group.owned.values()) >= 16


def test_where_nothing_is_known_each_topic_is_spread() -> None:
    group = Group({}, {"orders": 2, "a-retry": 2, "z-retry": 2}, assign_by_load)
    group.join("a")
    group.rebalance()
    group.join("b")
    group.rebalance()
    for owned in group.owned.values():
        assert sorted(topic for topic, _ in owned) == ["a-retry", "orders", "z-retry"]


@pytest.mark.parametrize(
    "data",
    [None, b"", b"\x00\x00\x00\x07", b"\xff" * 40, b"\x92\x02\x80", b"\x92\x01\x81\xa1t\x81\x00\x92\xff\x00"],
)
def test_what_others_tell_is_no_load_of_ours(data: bytes | None) -> None:
    assert decode_loads(data) == {}
    owned = Subscription(topics=("t",), owned={"t": (0, 1)}, generation_id=1, user_data=data)
    found = assign_by_load({"a": owned, "b": Subscription(topics=("t",), user_data=data)}, {"t": 2})
    assert partitions_of(found["a"]) | partitions_of(found["b"]) <= {("t", 0), ("t", 1)}


def test_loads_travel_as_they_are() -> None:
    loads = {("t", 0): Load(1.5, 0.25), ("u", 3): Load(0.0, 7.0)}
    assert decode_loads(encode_loads(loads)) == loads
