"""Replicas added and removed, a reassignment replaced and taken back."""

from uuid import UUID

import pytest
from msgspec.structs import replace

from kohort.broker.controller import (
    LiveBroker,
    ReassignmentRefused,
    TopicRules,
    balanced,
    begin,
    cancel,
    imbalance_percentages,
    is_drained,
    preferred,
    settled,
)
from kohort.broker.controller.election import reassigned
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState

BROKERS = {each: LiveBroker(each, each, UUID(int=each)) for each in range(1, 7)}
RULES = TopicRules()


def partition(
    *replicas: int, leader: int | None = None, isr: tuple[int, ...] | None = None
) -> PartitionState:
    directories = tuple(UUID(int=each) for each in replicas)
    return PartitionState(
        0,
        replicas[0] if leader is None else leader,
        0,
        replicas,
        replicas if isr is None else isr,
        directories=directories,
    )


def begun(state: PartitionState, *target: int) -> PartitionState:
    return reassigned(state, begin(state, target, BROKERS), BROKERS)


def test_new_replicas_are_added_before_old_ones_are_removed() -> None:
    moving = begun(partition(1, 2, 3), 4, 5, 3)
    assert (moving.replicas, moving.adding, moving.removing) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    assert moving.directories == tuple(UUID(int=each) for each in moving.replicas)
    assert moving.leader_epoch == 0
    halfway = replace(moving, isr=(1, 2, 3, 4))
    assert settled(halfway, BROKERS, RULES) is halfway
    over = settled(replace(moving, isr=(1, 2, 3, 4, 5)), BROKERS, RULES)
    assert (over.replicas, over.adding, over.removing) == ((4, 5, 3), (), ())
    assert (over.leader, over.isr, over.leader_epoch) == (4, (3, 4, 5), 1)
    assert over.directories == tuple(UUID(int=each) for each in (4, 5, 3))


def test_a_reassignment_that_only_removes_is_done_at_once_and_fences_removed_replicas() -> None:
    over = settled(begun(partition(1, 2, 3), 1, 2), BROKERS, RULES)
    assert (over.replicas, over.isr, over.removing, over.leader, over.leader_epoch) == (
        (1, 2),
        (1, 2),
        (),
        1,
        1,
    )


def test_a_changed_order_only_changes_the_preferred_leader() -> None:
    turned = settled(begun(partition(1, 2), 2, 1), BROKERS, RULES)
    assert (turned.replicas, turned.leader, turned.leader_epoch) == ((2, 1), 1, 0)
    assert preferred(turned, BROKERS).leader == 2


def test_a_reassignment_replaces_the_one_under_way() -> None:
    moving = replace(begun(partition(1, 2, 3), 4, 2, 3), isr=(1, 2, 3))
    other = begun(moving, 5, 2, 3)
    assert (other.replicas, other.adding, other.removing) == ((5, 2, 3, 1), (5,), (1,))
    assert other.leader_epoch == 1  # Who was to be added is fenced.


def test_a_leader_added_by_a_replaced_reassignment_gives_way_to_a_replica_in_sync() -> None:
    moving = replace(begun(partition(3, 1), 4, 2), leader=4, isr=(4, 3, 1))
    other = begun(moving, 2, 3)
    assert (other.replicas, other.isr, other.leader) == ((2, 3, 1), (3, 1), 3)
    assert (other.leader_epoch, other.partition_epoch) == (1, 2)


def test_a_leader_added_by_a_cancelled_reassignment_stops_leading() -> None:
    moving = replace(begun(partition(3, 1), 4, 3), leader=4, isr=(4, 3, 1))
    alive = {each: BROKERS[each] for each in (1, 2, 4)}
    back = reassigned(moving, cancel(moving), alive)
    assert (back.replicas, back.isr, back.leader, back.leader_epoch) == ((3, 1), (3, 1), 1, 1)
    none_alive = reassigned(moving, cancel(moving), {4: BROKERS[4]})
    assert (none_alive.isr, none_alive.leader, none_alive.leader_epoch) == ((3, 1), NO_LEADER, 1)


def test_only_settling_elects_an_eligible_replica_after_a_replaced_reassignment() -> None:
    moving = replace(begun(partition(1, 2), 4, 2), leader=4, isr=(4,), elr=(2,))
    other = begun(moving, 2, 3)
    assert (other.replicas, other.isr, other.elr, other.leader) == ((2, 3, 1), (), (2,), NO_LEADER)
    led = settled(other, BROKERS, TopicRules(min_insync_replicas=2))
    assert (led.leader, led.isr) == (2, (2,))


def test_a_cancelled_reassignment_restores_the_replicas() -> None:
    before = partition(1, 2, 3)
    moving = begun(before, 1, 4, 5)
    back = cancel(replace(moving, isr=(1, 2, 3, 4)))
    assert set(back.replicas) == {1, 2, 3}
    assert (back.isr, back.adding, back.removing) == ((1, 2, 3), (), ())
    assert cancel(before) is before


def test_a_reassignment_that_would_lose_all_records_is_refused() -> None:
    with pytest.raises(ReassignmentRefused, match="only replicas that would be taken away"):
        cancel(replace(begun(partition(1), 4), isr=(4,)))
    only_new_are_eligible = replace(begun(partition(1), 4), leader=NO_LEADER, isr=(), elr=(4,))
    with pytest.raises(ReassignmentRefused, match="are eligible"):
        cancel(only_new_are_eligible)
    with pytest.raises(ReassignmentRefused, match="no in-sync replica would remain"):
        begin(only_new_are_eligible, (5,), BROKERS)
    with pytest.raises(ReassignmentRefused, match="needs a replica"):
        begin(partition(1), (), BROKERS)
    with pytest.raises(ReassignmentRefused, match="more than once"):
        begin(partition(1), (2, 2), BROKERS)
    with pytest.raises(ReassignmentRefused, match="broker 9 is not in the cluster"):
        begin(partition(1), (9,), BROKERS)


def test_preferred_leaders_return_when_the_imbalance_is_too_large() -> None:
    away = [partition(1, 2, leader=2), partition(1, 3, leader=3), partition(2, 1)]
    assert imbalance_percentages(away) == {1: 100, 2: 0}
    changes = balanced(away, BROKERS, 10)
    assert [(after.leader, after.leader_epoch) for _, after in changes] == [(1, 1), (1, 1)]
    assert balanced(away, BROKERS, 100) == []


def test_a_replica_that_lags_is_dead_or_drains_is_not_made_preferred_leader() -> None:
    behind = partition(1, 2, leader=2, isr=(2,))
    assert preferred(behind, BROKERS) is behind
    away = partition(1, 2, leader=2)
    assert preferred(away, {2: BROKERS[2]}) is away
    assert preferred(away, BROKERS | {1: BROKERS[1]._replace(is_draining=True)}) is away


def test_a_broker_is_drained_when_no_other_can_lead_what_it_leads() -> None:
    draining = BROKERS | {1: BROKERS[1]._replace(is_draining=True)}
    assert not is_drained(1, [partition(1, 2)], draining)
    assert is_drained(1, [partition(1, 2, isr=(1,)), partition(2, 1)], draining)
