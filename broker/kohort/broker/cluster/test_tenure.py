"""Whether a broker may act: from its registration's snapshot on, and for nine tenths of its lease."""

from uuid import UUID

from kohort.broker.cluster.tenure import LeasedTenure
from kohort.broker.metadata import BrokerState, PartitionState, Snapshot, TopicState
from kohort.broker.metadata.snapshot import topics_by_id

TTL_MS = 1_000
TOPIC_ID = UUID(int=1)
KEY = TOPIC_ID, 0


def snapshot(broker_epoch: int, leader_epoch: int = 3) -> Snapshot:
    state = PartitionState(0, leader=1, leader_epoch=leader_epoch, replicas=(1,), isr=(1,))
    topics = {"t": TopicState("t", TOPIC_ID, (state,))}
    brokers = (BrokerState(1, "localhost", 9092, epoch=broker_epoch),)
    return Snapshot(9, "c", 1, brokers, topics, topics_by_id(topics.values()))


class World:
    """A tenure, its clock, and what it told."""

    def __init__(self) -> None:
        self.now_ms = 10_000
        self.changes: list[bool] = []
        self.tenure = LeasedTenure(1, TTL_MS, lambda: self.now_ms)
        self.tenure.on_change = lambda: self.changes.append(self.acts())

    def acts(self) -> bool:
        return self.tenure.authority.may_act(self.now_ms)

    def leads(self, leader_epoch: int) -> bool:
        state = snapshot(5, leader_epoch).topics["t"].partitions[0]
        return self.tenure.may_lead(KEY, state)


def test_a_registered_broker_acts_after_the_watch_shows_its_registration() -> None:
    world = World()
    world.tenure.registered(5, world.now_ms)
    assert not world.tenure.check()
    world.tenure.seen(snapshot(4))  # An earlier life's.
    assert not world.tenure.check()
    world.tenure.seen(snapshot(5))
    assert world.changes == [True]


def test_a_watch_that_was_quicker_than_the_answer_is_not_waited_for() -> None:
    world = World()
    world.tenure.snapshot = lambda: snapshot(5)
    world.tenure.registered(5, world.now_ms)
    assert world.changes == [True]


def test_leadership_of_an_earlier_registration_is_not_used_until_elected_again() -> None:
    world = World()
    world.tenure.registered(5, world.now_ms)
    world.tenure.seen(snapshot(5, leader_epoch=3))
    assert [world.leads(epoch) for epoch in (2, 3, 4)] == [False, False, True]


def test_it_stops_leading_and_reports_once_before_the_lease_can_expire() -> None:
    world = World()
    world.tenure.registered(5, world.now_ms)
    world.tenure.seen(snapshot(5))
    world.now_ms += TTL_MS * 9 // 10 - 1
    assert world.tenure.check()
    world.now_ms += 1
    assert not world.leads(4)  # Even before anybody has looked at the lease.
    assert [world.tenure.check(), world.tenure.check()] == [False, False]
    assert world.changes == [True, False]


def test_a_renewal_counts_from_the_time_of_its_request() -> None:
    world = World()
    world.tenure.registered(5, world.now_ms)
    world.tenure.seen(snapshot(5))
    asked_ms = world.now_ms + 300
    world.now_ms += 800  # The answer took long.
    world.tenure.renewed(asked_ms)
    world.now_ms = asked_ms + TTL_MS * 9 // 10 - 1
    assert world.tenure.check()
    world.now_ms += 1
    assert not world.tenure.check()


def test_a_late_renewal_lets_the_broker_act_again() -> None:
    world = World()
    world.tenure.registered(5, world.now_ms)
    world.tenure.seen(snapshot(5))
    world.now_ms += TTL_MS
    assert not world.tenure.check()
    world.tenure.renewed(world.now_ms)
    assert world.changes == [True, False, True]


def test_a_broker_with_a_lost_registration_stops_at_once_and_starts_with_the_next() -> None:
    world = World()
    world.tenure.registered(5, world.now_ms)
    world.tenure.seen(snapshot(5))
    world.tenure.lost()
    assert world.changes == [True, False]
    world.tenure.registered(7, world.now_ms)
    world.tenure.seen(snapshot(7, leader_epoch=4))
    assert world.changes == [True, False, True]
    assert [world.leads(epoch) for epoch in (4, 5)] == [False, True]
