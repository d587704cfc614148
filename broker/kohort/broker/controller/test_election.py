"""Partitions settled as brokers die, drain, come back, and come back empty."""

from uuid import UUID

import pytest
from msgspec.structs import replace

from kohort.broker.controller import LiveBroker, LiveBrokers, TopicRules, settled
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState

TWO = TopicRules(min_insync_replicas=2)
UNCLEAN = TopicRules(unclean_leader_election=True)


def directory(node_id: int, life: int = 0) -> UUID:
    return UUID(int=node_id * 100 + life + 1)


def live(*nodes: int, draining: tuple[int, ...] = (), emptied: tuple[int, ...] = ()) -> LiveBrokers:
    return {
        each: LiveBroker(each, 10 + each, directory(each, each in emptied), is_draining=each in draining)
        for each in nodes
    }


def partition(leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), **others: tuple[int, ...]) -> PartitionState:
    replicas = others.pop("replicas", (1, 2, 3))
    return PartitionState(
        index=0,
        leader=leader,
        leader_epoch=5,
        replicas=replicas,
        isr=isr,
        partition_epoch=9,
        directories=tuple(directory(each) for each in replicas),
        **others,
    )


def test_with_all_replicas_alive_nothing_changes() -> None:
    state = partition()
    assert settled(state, live(1, 2, 3), TWO) is state


def test_a_dead_leader_is_followed_by_the_first_replica_in_sync() -> None:
    after = settled(partition(isr=(3, 2, 1)), live(2, 3), TWO)
    assert (after.leader, after.isr, after.elr) == (2, (3, 2), ())
    assert (after.leader_epoch, after.partition_epoch) == (6, 10)


def test_a_dead_follower_leaves_the_isr_under_the_same_leader_epoch() -> None:
    after = settled(partition(), live(1, 2), TWO)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1, 2), 5, 10)


def test_a_replica_out_of_sync_does_not_lead() -> None:
    after = settled(partition(isr=(1,)), live(2, 3), TopicRules())
    assert (after.leader, after.isr, after.elr, after.leader_epoch) == (NO_LEADER, (), (1,), 6)


def test_the_last_in_sync_replica_is_remembered_and_leads_when_it_returns() -> None:
    gone = settled(partition(isr=(1,)), live(2, 3), TopicRules())
    assert settled(gone, live(2, 3), TopicRules()) is gone
    back = settled(gone, live(1, 2, 3), TopicRules())
    assert (back.leader, back.isr, back.elr, back.leader_epoch) == (1, (1,), (), 7)


def test_a_replica_that_left_an_isr_below_the_minimum_is_eligible() -> None:
    one_left = settled(partition(isr=(1, 2)), live(1), TWO)
    assert (one_left.leader, one_left.isr, one_left.elr) == (1, (1,), (2,))
    none_left = settled(one_left, {}, TWO)
    assert (none_left.leader, none_left.isr, none_left.elr) == (NO_LEADER, (), (1, 2))
    two_leads = settled(none_left, live(2, 3), TWO)
    assert (two_leads.leader, two_leads.isr, two_leads.elr) == (2, (2,), (1,))


def test_a_replica_that_left_a_large_enough_isr_is_not_eligible() -> None:
    two_left = settled(partition(), live(1, 2), TWO)
    assert settled(two_left, live(3), TWO).leader == NO_LEADER


def test_a_lower_minimum_removes_eligible_replicas() -> None:
    after = settled(partition(isr=(1,), elr=(2,)), live(1, 2, 3), TopicRules())
    assert (after.leader, after.isr, after.elr, after.leader_epoch) == (1, (1,), (), 5)


def test_with_unclean_election_any_live_replica_leads() -> None:
    after = settled(partition(isr=(1,)), live(2, 3), UNCLEAN)
    assert (after.leader, after.isr, after.elr) == (2, (2,), ())


def test_a_live_replica_that_returned_empty_leaves_the_isr() -> None:
    after = settled(partition(), live(1, 2, 3, emptied=(1,)), TWO)
    assert (after.leader, after.isr) == (2, (2, 3))
    assert after.directories == (directory(1, 1), directory(2), directory(3))


def test_a_partition_whose_last_isr_member_returned_empty_stays_offline() -> None:
    gone = settled(partition(isr=(1,)), live(2, 3), TopicRules())
    after = settled(gone, live(1, 2, 3, emptied=(1,)), TopicRules())
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (NO_LEADER, (), (), (1,))
    again = settled(after, live(1, 2, 3, emptied=(1,)), TopicRules())
    assert again is after
    assert settled(after, live(1, 2, 3, emptied=(1,)), UNCLEAN).leader == 2  # It has something at least.
    assert settled(after, live(1, emptied=(1,)), UNCLEAN).leader == 1


def test_an_eligible_replica_that_returned_empty_is_no_longer_eligible() -> None:
    offline = partition(leader=NO_LEADER, isr=(), elr=(1, 2))
    after = settled(offline, live(1, 3, emptied=(1,)), TWO)
    assert (after.leader, after.elr) == (NO_LEADER, (2,))


def test_a_draining_leader_hands_over_and_leaves_the_isr() -> None:
    after = settled(partition(), live(1, 2, 3, draining=(1,)), TWO)
    assert (after.leader, after.isr) == (2, (2, 3))


def test_a_draining_broker_that_is_the_last_in_sync_stays_leader() -> None:
    state = partition(isr=(1,))
    assert settled(state, live(1, 2, draining=(1,)), TopicRules()) is state


@pytest.mark.parametrize("isr", [(1, 2, 3), (2,), (), (3, 1)])
@pytest.mark.parametrize("elr", [(), (3,)])
@pytest.mark.parametrize("alive", [(1, 2, 3), (2, 3), (3,), ()])
@pytest.mark.parametrize("rules", [TWO, UNCLEAN, TopicRules()])
def test_settling_twice_changes_no_more_than_once(
    isr: tuple[int, ...], elr: tuple[int, ...], alive: tuple[int, ...], rules: TopicRules
) -> None:
    leader = isr[0] if isr else NO_LEADER
    state = partition(leader=leader, isr=isr, elr=() if set(elr) & set(isr) else elr)
    once = settled(state, live(*alive), rules)
    assert settled(once, live(*alive), rules) is once
    assert once.leader == NO_LEADER or (once.leader in once.isr and once.leader in alive)
    assert not set(once.isr) & set(once.elr)


def test_a_new_leader_always_has_a_new_epoch() -> None:
    state = partition()
    after = settled(state, live(2, 3), TWO)
    back = settled(replace(after, isr=(1, 2, 3)), live(1, 3), TWO)
    assert [state.leader_epoch, after.leader_epoch, back.leader_epoch] == [5, 6, 7]


def test_a_drained_broker_stays_in_sync_and_leads_only_what_no_other_can() -> None:
    brokers = {each: LiveBroker(each, is_drained=each == 1) for each in (1, 2)}
    state = PartitionState(0, leader=1, leader_epoch=3, replicas=(1, 2), isr=(1, 2))
    after = settled(state, brokers, TopicRules())
    assert (after.leader, after.isr, after.leader_epoch) == (2, (1, 2), 4)
    assert settled(after, brokers, TopicRules()) is after
    alone = PartitionState(0, leader=1, leader_epoch=3, replicas=(1,), isr=(1,))
    assert settled(alone, brokers, TopicRules()) is alone


def short(*nodes: int, of: tuple[int, ...]) -> LiveBrokers:
    """Return live brokers, of whom some may have lost the ends of their logs, and say so."""
    brokers = dict(live(*nodes, emptied=of))
    for each in of:
        brokers[each] = brokers[each]._replace(former_directories=(directory(each),))
    return brokers


def test_a_replica_that_may_lack_its_log_end_leaves_the_isr_if_another_is_complete() -> None:
    after = settled(partition(), short(1, 2, 3, of=(1,)), TWO)
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), 6)
    assert after.directories == (directory(1, 1), directory(2), directory(3))


def test_a_replica_that_may_lack_its_log_end_leaves_the_isr_if_the_complete_one_is_dead() -> None:
    after = settled(partition(leader=1, isr=(1, 2)), short(1, 3, of=(1,)), TWO)
    assert (after.leader, after.isr, after.elr) == (NO_LEADER, (), (2,))
    offline = partition(leader=NO_LEADER, isr=(), elr=(1, 2))
    assert settled(offline, short(1, of=(1,)), TWO).elr == (2,)


@pytest.mark.parametrize(("leader", "isr", "elr"), [(1, (1,), ()), (NO_LEADER, (), (1,))])
def test_the_last_replica_that_may_lack_its_log_end_keeps_leading(
    leader: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    state = partition(leader=leader, isr=isr, elr=elr)
    after = settled(state, short(1, 2, 3, of=(1,)), TWO)
    assert (after.leader, after.isr, after.directories[0]) == (1, (1,), directory(1, 1))
    assert settled(after, short(1, 2, 3, of=(1,)), TWO) is after or after.elr


def test_one_of_several_replicas_that_may_lack_records_stays() -> None:
    after = settled(partition(leader=2), short(1, 2, 3, of=(1, 2, 3)), TWO)
    assert (after.leader, after.isr, after.elr) == (2, (2,), ())
    assert after.directories == tuple(directory(each, 1) for each in (1, 2, 3))


def test_a_replica_that_may_lack_its_log_end_is_preferred_to_an_empty_one() -> None:
    brokers = {**live(1, 2, emptied=(1,)), 2: short(2, of=(2,))[2]}
    after = settled(partition(isr=(1, 2)), brokers, TopicRules())
    assert (after.leader, after.isr) == (2, (2,))
