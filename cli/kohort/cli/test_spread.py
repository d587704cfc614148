"""Replicas and leaders spread over brokers: evenly, over racks, with few moves."""

from collections import Counter

import pytest

from kohort.cli.spread import Assignment, Replicas, TargetBroker, TooFewBrokers, spread
from kohort.client import TopicPartition

THREE = [TargetBroker(1), TargetBroker(2), TargetBroker(3)]


def topic(*replicas: Replicas) -> dict[TopicPartition, Replicas]:
    return {TopicPartition("t", index): each for index, each in enumerate(replicas)}


def after(
    present: Assignment, places: list[TargetBroker], factor: int | None = None
) -> dict[TopicPartition, Replicas]:
    return {**present, **spread(present, places, factor)}


def test_an_even_placement_stays() -> None:
    assert spread(topic((1, 2), (2, 3), (3, 1)), THREE) == {}


def test_a_new_broker_gets_its_share_and_no_more_is_moved() -> None:
    present = topic(*[(1, 2), (2, 3), (3, 1)] * 4)
    found = after(present, [*THREE, TargetBroker(4)])
    held = Counter(node for nodes in found.values() for node in nodes)
    led = Counter(nodes[0] for nodes in found.values())
    assert set(held.values()) == {6}
    assert set(led.values()) == {3}
    new = sum(len(set(found[each]) - set(present[each])) for each in present)
    assert new == 6


def test_a_broker_that_is_left_out_has_no_replicas() -> None:
    found = after(topic((1, 2), (2, 3), (3, 1)), [TargetBroker(1), TargetBroker(3), TargetBroker(4)])
    assert Counter(node for nodes in found.values() for node in nodes) == {1: 2, 3: 2, 4: 2}
    assert all(len(set(nodes)) == 2 for nodes in found.values())


def test_the_number_of_replicas_is_raised_and_lowered() -> None:
    raised = after(topic((1,), (1,), (1,)), THREE, factor=3)
    assert all(sorted(nodes) == [1, 2, 3] for nodes in raised.values())
    assert sorted(nodes[0] for nodes in raised.values()) == [1, 2, 3]
    lowered = after(raised, THREE, factor=1)
    assert sorted(lowered.values()) == [(1,), (2,), (3,)]


def test_replicas_go_to_racks_that_have_none() -> None:
    places = [TargetBroker(1, "a"), TargetBroker(2, "a"), TargetBroker(3, "b"), TargetBroker(4, "b")]
    found = after(topic(*[(1,)] * 8), places, factor=2)
    racks = {each.node_id: each.rack for each in places}
    assert all({racks[each] for each in nodes} == {"a", "b"} for nodes in found.values())
    assert set(Counter(node for nodes in found.values() for node in nodes).values()) == {4}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(TooFewBrokers, match=r"4 replicas of topic .* there are 3: .* --replication-factor 3"):
        spread(topic((1, 2)), THREE, factor=4)
