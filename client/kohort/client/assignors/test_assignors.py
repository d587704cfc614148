from collections.abc import Mapping
from random import Random

import pytest

from kohort.client.assignors import (
    ASSIGNORS,
    Assign,
    Assignment,
    Subscription,
    TopicCounts,
    assign_cooperative_sticky,
    assign_range,
    assign_roundrobin,
    assign_sticky,
    only_topics,
    racks_of,
)
from kohort.client.assignors.loads import unevenness
from kohort.client.assignors.sticky import sticky_user_data
from tests.costs import times_as_costly


def group(count: int, *topics: str) -> dict[str, Subscription]:
    return {f"C{number}": Subscription(topics) for number in range(count)}


def held(assignment: Assignment, member_id: str) -> list[str]:
    return [f"{topic}-{each}" for topic, partitions in assignment[member_id].items() for each in partitions]


def sizes(assignment: Assignment) -> list[int]:
    return sorted((sum(map(len, each.values())) for each in assignment.values()), reverse=True)


def owning(
    assignment: Assignment, topics: Mapping[str, tuple[str, ...]], generation: int = 1
) -> dict[str, Subscription]:
    return {
        member_id: Subscription(
            wanted,
            owned=assignment.get(member_id, {}),
            generation_id=generation,
            user_data=sticky_user_data(assignment.get(member_id, {}), generation),
        )
        for member_id, wanted in topics.items()
    }


@pytest.mark.parametrize("assign", [each.assign for each in ASSIGNORS.values()])
@pytest.mark.requirement("R14")
def test_five_members_on_four_partitions_leave_one_idle(assign: Assign) -> None:
    assert sizes(assign(group(5, "T"), {"T": 4})) == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("assign", [each.assign for each in ASSIGNORS.values()])
@pytest.mark.requirement("R14")
def test_ten_partitions_for_three_members_are_four_three_and_three(assign: Assign) -> None:
    assert sizes(assign(group(3, "T"), {"T": 10})) == [4, 3, 3]


@pytest.mark.requirement("R14")
def test_range_assigns_equal_partition_numbers_of_several_topics_together() -> None:
    assignment = assign_range(group(2, "T1", "T2"), {"T1": 4, "T2": 4})
    assert held(assignment, "C0") == ["T1-0", "T1-1", "T2-0", "T2-1"]


@pytest.mark.requirement("R14")
def test_range_assigns_four_and_two_where_round_robin_assigns_three_and_three() -> None:
    members, counts = group(2, "T1", "T2"), {"T1": 3, "T2": 3}
    assert sizes(assign_range(members, counts)) == [4, 2]
    dealt = assign_roundrobin(members, counts)
    assert held(dealt, "C0") == ["T1-0", "T1-2", "T2-1"]
    assert held(dealt, "C1") == ["T1-1", "T2-0", "T2-2"]


@pytest.mark.requirement("R14")
def test_round_robin_skips_members_that_do_not_subscribe() -> None:
    members = {
        "C0": Subscription(("T1",)),
        "C1": Subscription(("T1", "T2")),
        "C2": Subscription(("T1", "T2", "T3")),
    }
    dealt = assign_roundrobin(members, {"T1": 1, "T2": 2, "T3": 3})
    assert held(dealt, "C0") == ["T1-0"]
    assert held(dealt, "C1") == ["T2-0"]
    assert held(dealt, "C2") == ["T2-1", "T3-0", "T3-1", "T3-2"]


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    members = {
        "a": Subscription(("T",)),
        "z": Subscription(("T",), group_instance_id="i1"),
        "y": Subscription(("T",), group_instance_id="i2"),
    }
    assignment = assign_range(members, {"T": 3})
    assert (held(assignment, "z"), held(assignment, "y"), held(assignment, "a")) == (
        ["T-0"],
        ["T-1"],
        ["T-2"],
    )


def test_an_unknown_topic_is_assigned_to_no_member() -> None:
    for assignor in ASSIGNORS.values():
        assert assignor.assign(group(2, "gone"), {}) == {"C0": {}, "C1": {}}, assignor.name


def test_sticky_moves_only_the_share_of_a_new_member() -> None:
    first = assign_sticky(group(2, "T"), {"T": 6})
    second = assign_sticky(owning(first, dict.fromkeys(("C0", "C1", "C2"), ("T",))), {"T": 6})
    assert sizes(second) == [2, 2, 2]
    for member_id in ("C0", "C1"):
        assert set(held(second, member_id)) < set(held(first, member_id))


def test_sticky_moves_only_the_partitions_of_a_dead_member() -> None:
    first = assign_sticky(group(3, "T"), {"T": 9})
    second = assign_sticky(owning(first, {"C0": ("T",), "C2": ("T",)}), {"T": 9})
    assert sizes(second) == [5, 4]
    for member_id in ("C0", "C2"):
        assert set(held(first, member_id)) < set(held(second, member_id))


def test_eager_sticky_members_send_owned_partitions_in_their_user_data() -> None:
    members = {
        "C0": Subscription(("T",), user_data=sticky_user_data({"T": (2, 3)}, 7)),
        "C1": Subscription(("T",), user_data=sticky_user_data({"T": (0, 1)}, 7)),
    }
    assert held(assign_sticky(members, {"T": 4}), "C0") == ["T-2", "T-3"]


def test_the_newer_generation_wins_where_two_claim_a_partition() -> None:
    members = {
        "C0": Subscription(("T",), user_data=sticky_user_data({"T": (0,)}, 3)),
        "C1": Subscription(("T",), user_data=sticky_user_data({"T": (0,)}, 4)),
    }
    assert "T-0" in held(assign_sticky(members, {"T": 2}), "C1")


def test_unknown_user_data_is_ignored() -> None:
    members = {"C0": Subscription(("T",), user_data=b"\x00\x00\x00\x09garbage"), "C1": Subscription(("T",))}
    assert sizes(assign_sticky(members, {"T": 2})) == [1, 1]


@pytest.mark.requirement("R14")
def test_cooperative_moves_a_partition_in_two_steps() -> None:
    wanted = {"C0": ("T",), "C1": ("T",)}
    before: Assignment = {"C0": {"T": (0, 1)}}
    first = assign_cooperative_sticky(owning(before, wanted, 1), {"T": 2})
    assert (held(first, "C0"), held(first, "C1")) == (["T-0"], [])
    second = assign_cooperative_sticky(owning(first, wanted, 2), {"T": 2})
    assert (held(second, "C0"), held(second, "C1")) == (["T-0"], ["T-1"])


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.requirement("R14")
def test_sticky_is_complete_unique_and_balanced_for_any_subscriptions(seed: int) -> None:
    random = Random(seed)
    counts = {f"T{number}": random.randint(0, 9) for number in range(5)}
    topics = {
        f"C{number}": tuple(random.sample(sorted(counts), random.randint(1, 5)))
        for number in range(random.randint(1, 8))
    }
    assignment = assign_sticky(owning({}, topics), counts)
    again = assign_sticky(owning(assignment, topics), counts)
    dealt = [each for member_id in assignment for each in held(assignment, member_id)]
    subscribed = {topic for each in topics.values() for topic in each}
    assert sorted(dealt) == sorted(f"{topic}-{each}" for topic in subscribed for each in range(counts[topic]))
    assert again == assignment, "what is balanced stays where it is"
    for member_id, partitions in assignment.items():
        for topic in partitions:
            assert topic in topics[member_id]
            others = [other for other in topics if topic in topics[other]]
            least = min(sum(map(len, assignment[other].values())) for other in others)
            assert sum(map(len, partitions.values())) - least <= 1


@pytest.mark.requirement("R14")
def test_range_and_sticky_prefer_partitions_with_a_replica_nearby() -> None:
    members = {"C0": Subscription(("T",), rack_id="red"), "C1": Subscription(("T",), rack_id="blue")}
    racks = tuple(frozenset((rack,)) for rack in ("blue", "blue", "red", "red"))
    for assign in (assign_range, assign_sticky, assign_cooperative_sticky):
        assert held(assign(members, {"T": 4}), "C0") != ["T-2", "T-3"]
        assert held(assign(members, TopicCounts({"T": 4}, {"T": racks})), "C0") == ["T-2", "T-3"]


def test_balance_is_more_important_than_racks() -> None:
    members = {"C0": Subscription(("T",), rack_id="red"), "C1": Subscription(("T",), rack_id="blue")}
    racks = (*[frozenset(("red",))] * 3, frozenset(("blue",)))
    assert sizes(assign_sticky(members, TopicCounts({"T": 4}, {"T": racks}))) == [2, 2]


def test_a_member_without_topics_gets_no_partitions() -> None:
    members = {f"C{number}": Subscription(("T",) if number else ()) for number in range(5)}
    for assignor in ASSIGNORS.values():
        assignment = assignor.assign(members, {"T": 8})
        assert held(assignment, "C0") == [], assignor.name
        assert sizes(assignment) == [2, 2, 2, 2, 0], assignor.name


def test_an_owned_partition_that_does_not_exist_any_more_is_forgotten() -> None:
    members = owning({"C0": {"T": (0, 5)}}, {"C0": ("T",), "C1": ("T",)})
    for assign in (assign_sticky, assign_cooperative_sticky):
        assert sizes(assign(members, {"T": 2})) == [1, 1]


def test_topic_counts_have_racks_and_can_be_reduced_to_some_topics() -> None:
    counts = TopicCounts({"T": 1, "U": 2}, {"U": (frozenset("a"), frozenset("b"))})
    assert dict(counts) == {"T": 1, "U": 2}
    narrowed = only_topics(counts, ["U", "gone"])
    assert (dict(narrowed), racks_of(narrowed)) == ({"U": 2}, {"U": (frozenset("a"), frozenset("b"))})
    assert narrowed != only_topics({"U": 2}, ["U"]), "a replica in another rack is a change"
    assert racks_of({"T": 1}) == {}


def test_unevenness_is_the_sum_of_all_differences() -> None:
    assert unevenness([3, 1, 1]) == 4
    assert unevenness([2, 2]) == 0


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.requirement("R14")
def test_a_thousand_members_cost_at_most_a_few_times_what_250_cost(name: str, *, alike: bool) -> None:
    random = Random(7)
    topics = [f"T{number}" for number in range(100)]
    counts = dict.fromkeys(topics, 100)
    racks = {topic: tuple(frozenset(random.sample("abc", 2)) for _ in range(100)) for topic in topics}
    members = {
        f"C{number}": Subscription(
            tuple(topics if alike else random.sample(topics, random.randint(1, 100))),
            rack_id="abc"[number % 3],
        )
        for number in range(1_000)
    }
    topic_counts = TopicCounts(counts, racks)
    few = {each: members[each] for each in list(members)[:250]}
    assign = ASSIGNORS[name].assign
    assert sum(sizes(assign(members, topic_counts))) == 10_000
    # Twice to three times as much; four times members by topics, and sixteen times their square.
    assert times_as_costly(lambda: assign(members, topic_counts), lambda: assign(few, topic_counts)) < 8
