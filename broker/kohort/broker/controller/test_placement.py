"""Placement over racks, and what decisions about many partitions cost."""

from collections import Counter
from random import Random
from uuid import UUID

import pytest

from kohort.broker.controller import (
    LiveBroker,
    NotEnoughBrokers,
    TopicRules,
    UsableBroker,
    decide,
    place,
)
from kohort.broker.controller.decisions import Change
from kohort.broker.metadata.partition_state import PartitionState
from tests.costs import times_as_costly


def brokers(racks: int, in_each: int, dead: frozenset[int] = frozenset()) -> list[UsableBroker]:
    return [
        UsableBroker(rack * in_each + number, f"rack-{rack}", rack * in_each + number not in dead)
        for rack in range(racks)
        for number in range(in_each)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_each_replica_is_in_another_rack_and_leaders_are_even(seed: int) -> None:
    placed = place(brokers(3, 4), 120, 3, Random(seed).randrange)
    assert all(len({node // 4 for node in nodes}) == 3 for nodes in placed)
    assert set(Counter(nodes[0] for nodes in placed).values()) == {10}
    everywhere = Counter(node for nodes in placed for node in nodes)
    assert max(everywhere.values()) - min(everywhere.values()) <= 6


@pytest.mark.parametrize("seed", range(5))
def test_without_racks_brokers_take_turns(seed: int) -> None:
    usable = [UsableBroker(each) for each in range(5)]
    placed = place(usable, 50, 3, Random(seed).randrange)
    assert all(len(set(nodes)) == 3 for nodes in placed)
    assert set(Counter(nodes[0] for nodes in placed).values()) == {10}


def test_more_replicas_than_racks_share_a_rack_but_no_broker() -> None:
    placed = place(brokers(2, 3), 30, 5, Random(1).randrange)
    assert all(len(set(nodes)) == 5 for nodes in placed)


def test_the_dead_lead_nothing_and_are_used_last() -> None:
    placed = place(brokers(1, 4, frozenset({2})), 12, 3, Random(3).randrange)
    assert all(2 not in nodes for nodes in placed)
    needed = place(brokers(1, 4, frozenset({2})), 12, 4, Random(3).randrange)
    assert all(nodes[-1] == 2 for nodes in needed)


def test_an_impossible_placement_is_refused() -> None:
    with pytest.raises(NotEnoughBrokers, match="there are 2"):
        place(brokers(1, 2), 1, 3, Random(0).randrange)
    with pytest.raises(NotEnoughBrokers, match="dead"):
        place(brokers(1, 1, frozenset({0})), 1, 1, Random(0).randrange)


@pytest.mark.parametrize("gone", [{17}, {17, 18, 19}], ids=len)
def test_ten_thousand_partitions_cost_ten_times_what_a_thousand_cost(gone: set[int]) -> None:
    live = {each: LiveBroker(each, each, UUID(int=each + 1), f"rack-{each % 5}") for each in range(50)}
    usable = [UsableBroker(each, broker.rack) for each, broker in live.items()]
    placed = place(usable, 10_000, 3, Random(0).randrange)
    topic_id = UUID(int=7)
    partitions = [
        (
            (topic_id, index),
            PartitionState(
                index, nodes[0], 0, nodes, nodes, directories=tuple(UUID(int=each + 1) for each in nodes)
            ),
        )
        for index, nodes in enumerate(placed)
    ]
    left = {each: broker for each, broker in live.items() if each not in gone}

    def changes(count: int) -> list[Change]:
        return decide(partitions[:count], left, lambda _: TopicRules(min_insync_replicas=1))

    found = changes(10_000)
    assert len(found) == sum(not gone.isdisjoint(nodes) for nodes in placed)
    assert all(each.after.leader in left and gone.isdisjoint(each.after.isr) for each in found)
    assert times_as_costly(lambda: changes(10_000), lambda: changes(1_000)) < 30
