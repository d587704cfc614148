"""Changes of in-sync replicas and leaders, counted at the leader and at the controller."""

from dataclasses import replace
from itertools import pairwise
from uuid import UUID

from kohort.broker.metadata.leadership_counters import LeadershipCounters
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState
from kohort.broker.metadata.snapshot import Snapshot, TopicState, topics_by_id


def snapshot(*states: PartitionState, controller_id: int = 1) -> Snapshot:
    topic = TopicState("t", UUID(int=1), states)
    return Snapshot(1, "c", controller_id, (), {"t": topic}, topics_by_id([topic]))


def state(leader: int, *isr: int, elr: tuple[int, ...] = ()) -> PartitionState:
    return PartitionState(0, leader, 0, (1, 2, 3), isr, elr=elr)


def counted(node_id: int, *steps: Snapshot) -> tuple[int, int, int, int]:
    counters = LeadershipCounters()
    for before, after in pairwise(steps):
        counters.note(node_id, before, after)
    return counters.isr_shrinks, counters.isr_expands, counters.elections, counters.unclean_elections


def test_the_leader_counts_isr_shrinks_and_expands() -> None:
    steps = [snapshot(each) for each in (state(2, 2, 1, 3), state(2, 2, 3), state(2, 2), state(2, 2, 1))]
    assert counted(2, *steps) == (2, 1, 0, 0)
    assert counted(3, *steps) == (0, 0, 0, 0)


def test_the_controller_counts_elections_and_unclean_ones() -> None:
    clean, eligible = state(2, 2, 3), state(NO_LEADER, elr=(3,))
    steps = [snapshot(each) for each in (state(1, 1, 2, 3), clean, eligible, state(3, 3), state(1, 1))]
    assert counted(1, *steps) == (0, 0, 3, 1)
    others = [replace(each, controller_id=9) for each in steps]
    assert counted(1, *others) == (0, 0, 0, 0)


def test_unchanged_and_new_partitions_are_not_counted() -> None:
    whole = snapshot(state(1, 1, 2))
    assert counted(1, Snapshot(0, "c", 1), whole, replace(whole, version=2)) == (0, 0, 0, 0)
