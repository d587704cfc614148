"""A leader and what its followers say: what is committed, who is in sync, what is refused."""

from dataclasses import dataclass, field
from uuid import UUID

import pytest
from msgspec.structs import replace

from kohort.broker.controller import LiveBroker
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.replication import (
    Acknowledgement,
    Diverging,
    FetchFrom,
    Leadership,
    ReplicaFetch,
    Served,
    select_read_replica,
)
from kohort.protocol.errors import ErrorCode
from kohort.storage.leader_epochs import LeaderEpochs

LAG_MS = 30_000
START_MS = 1_000_000


@dataclass
class Log:
    """Offsets and epochs, no records."""

    log_end_offset: int = 0
    flushed_offset: int = 0
    log_start_offset: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def append(self, count: int, *, epoch: int = 5, sync: bool = True) -> None:
        self.epochs.assign(epoch, self.log_end_offset)
        self.log_end_offset += count
        if sync:
            self.flushed_offset = self.log_end_offset


def brokers(*nodes: int, life: int = 0, draining: tuple[int, ...] = ()) -> dict[int, LiveBroker]:
    return {
        each: LiveBroker(
            each, 100 * each + life, UUID(int=each), f"rack-{each % 2}", is_draining=each in draining
        )
        for each in nodes
    }


class World:
    """Broker 1 leads; each `fetch` is one of a follower that has all before the offset on its disk."""

    def __init__(
        self,
        isr: tuple[int, ...] = (1, 2, 3),
        *,
        min_in_sync: int = 2,
        end_offset: int = 10,
        elr: tuple[int, ...] = (),
    ) -> None:
        self.now_ms = START_MS
        self.log = Log(epochs=LeaderEpochs([(3, 0)]))
        self.log.append(end_offset, epoch=3)
        self.log.epochs.assign(5, end_offset)
        directories = tuple(UUID(int=each) for each in (1, 2, 3))
        state = PartitionState(0, 1, 5, (1, 2, 3), isr, 9, elr=elr, directories=directories)
        self.leader = Leadership(
            1,
            state,
            self.log,
            high_watermark=4,
            min_insync_replicas=min_in_sync,
            lag_ms_max=LAG_MS,
            now_ms=self.now_ms,
        )
        self.leader.brokers_changed(brokers(1, 2, 3))

    def fetch(
        self,
        node_id: int,
        offset: int,
        *,
        epoch: int | None = None,
        life: int = 0,
        leader_epoch: int = 5,
        log_start_offset: int = -1,
    ) -> Served | Diverging | ErrorCode:
        last_epoch = self.log.epochs.epoch_at(offset - 1) if epoch is None else epoch
        at = FetchFrom(offset, last_epoch, leader_epoch, log_start_offset)
        return self.leader.handle_fetch(ReplicaFetch(node_id, 100 * node_id + life, at), self.now_ms)

    def append(self, count: int, *, sync: bool = True) -> None:
        self.log.append(count, sync=sync)
        self.leader.synced(self.now_ms)

    @property
    def high_watermark(self) -> int:
        return self.leader.high_watermark


def test_records_on_every_disk_of_the_isr_are_committed() -> None:
    world = World()
    world.fetch(2, 10)
    assert world.high_watermark == 4
    assert world.fetch(3, 8) == Served(10, 8, 0)
    world.fetch(3, 10)
    assert world.high_watermark == 10


def test_the_leaders_own_disk_counts_too() -> None:
    world = World(isr=(1,), min_in_sync=1)
    world.append(5, sync=False)
    assert world.high_watermark == 10
    world.log.flushed_offset = 15
    assert world.leader.synced(world.now_ms)
    assert world.high_watermark == 15


def test_a_later_fetch_with_a_lower_offset_does_not_lower_the_high_watermark() -> None:
    world = World(isr=(1, 2))
    world.fetch(2, 10)
    world.fetch(2, 6)
    assert world.high_watermark == 10


def test_a_follower_with_another_epoch_is_refused_and_does_not_count() -> None:
    world = World(isr=(1, 2))
    assert world.fetch(2, 10, leader_epoch=4) is ErrorCode.FENCED_LEADER_EPOCH
    assert world.fetch(2, 10, leader_epoch=6) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert world.fetch(4, 10) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.high_watermark == 4


def test_a_follower_of_an_earlier_registration_does_not_count() -> None:
    world = World(isr=(1, 2))
    world.fetch(2, 5, life=1)
    assert world.fetch(2, 10, life=0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.high_watermark == 5


def test_a_diverging_follower_is_told_the_offset_and_does_not_count() -> None:
    world = World(isr=(1, 2))
    assert world.fetch(2, 9, epoch=4) == Diverging(3, 10)
    world.append(5)
    assert world.fetch(2, 12, epoch=3) == Diverging(3, 10)
    assert world.high_watermark == 4
    assert world.fetch(2, 20, epoch=7) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert world.fetch(2, 20, epoch=-1) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_below_the_minimum_produce_is_refused_and_nothing_is_committed() -> None:
    world = World(isr=(1,))
    assert world.leader.check_enough_replicas() is ErrorCode.NOT_ENOUGH_REPLICAS
    world.append(1)
    assert world.high_watermark == 4


def test_nothing_is_committed_beyond_an_eligible_replica_outside_the_isr() -> None:
    world = World(isr=(1,), min_in_sync=1, elr=(2,))
    world.append(1)
    assert world.high_watermark == 4


def test_acks_all_waits_for_the_high_watermark() -> None:
    world = World(isr=(1, 2))
    world.append(2)
    assert world.leader.acknowledgement(12) is Acknowledgement.WAITING
    world.fetch(2, 12)
    assert world.leader.acknowledgement(12) is Acknowledgement.COMMITTED
    world.leader.follow(replace(world.leader.state, isr=(1,), elr=(2,), partition_epoch=10), world.now_ms)
    assert world.leader.acknowledgement(12) is Acknowledgement.NOT_ENOUGH_REPLICAS


def test_a_lagging_follower_counts_until_the_metadata_remove_it() -> None:
    world = World()
    world.now_ms += LAG_MS
    world.append(3)
    world.fetch(2, 13)
    assert world.leader.propose(world.now_ms) is None
    world.now_ms += 1
    proposal = world.leader.propose(world.now_ms)
    assert proposal is not None
    assert (proposal.after.isr, proposal.after.elr, proposal.after.partition_epoch) == ((1, 2), (), 10)
    assert world.high_watermark == 4
    assert world.leader.propose(world.now_ms) is None
    assert world.leader.follow(proposal.after, world.now_ms)
    assert world.high_watermark == 13


def test_a_replica_that_leaves_below_the_minimum_stays_eligible() -> None:
    world = World(isr=(1, 2))
    world.append(1)
    world.now_ms += LAG_MS + 1
    proposal = world.leader.propose(world.now_ms)
    assert proposal is not None
    assert (proposal.after.isr, proposal.after.elr) == ((1,), (2,))


def test_a_follower_that_lost_synced_records_is_removed_at_once_and_is_not_eligible() -> None:
    world = World(isr=(1, 2))
    world.fetch(2, 10)
    assert world.high_watermark == 10
    world.leader.brokers_changed(brokers(1, 2, 3, life=1))
    world.fetch(2, 6, life=1)
    assert world.leader.has_lost_committed(2)
    proposal = world.leader.propose(world.now_ms)
    assert proposal is not None
    assert (proposal.after.isr, proposal.after.elr) == ((1,), ()), "it is not eligible either"
    world.append(1)
    assert world.high_watermark == 10, "it counts until the metadata says so"
    world.leader.follow(proposal.after, world.now_ms)
    world.fetch(2, 11, life=1)
    again = world.leader.propose(world.now_ms)
    assert again is not None
    assert again.after.isr == (1, 2)


def test_an_eligible_replica_that_lost_synced_records_is_no_longer_eligible() -> None:
    world = World(isr=(1,), elr=(2,))
    world.fetch(2, 3, life=1)
    proposal = world.leader.propose(world.now_ms)
    assert proposal is not None
    assert (proposal.after.isr, proposal.after.elr) == ((1,), ())


def test_a_restarted_follower_with_all_committed_records_stays() -> None:
    world = World(isr=(1, 2))
    world.fetch(2, 6)
    world.leader.brokers_changed(brokers(1, 2, 3, life=1))
    world.fetch(2, 6, life=1)
    assert not world.leader.has_lost_committed(2)
    assert world.leader.propose(world.now_ms) is None


def test_an_idle_partition_keeps_complete_followers() -> None:
    world = World(isr=(1, 2))
    world.fetch(2, 10)
    world.now_ms += 10 * LAG_MS
    assert world.leader.propose(world.now_ms) is None


def test_under_load_a_follower_needs_only_the_end_at_its_last_fetch() -> None:
    world = World(isr=(1, 2))
    for offset in range(10, 10 + 20):
        world.fetch(2, offset)
        world.append(1)
        world.now_ms += LAG_MS // 2
    assert world.leader.propose(world.now_ms) is None


def test_a_follower_with_all_committed_records_joins_and_counts_at_once() -> None:
    world = World(isr=(1, 2))
    world.fetch(2, 10)
    assert world.leader.propose(world.now_ms) is None
    world.fetch(3, 10)
    proposal = world.leader.propose(world.now_ms)
    assert proposal is not None
    assert (proposal.after.isr, dict(proposal.joining)) == ((1, 2, 3), {3: 300})
    world.append(2)
    world.fetch(2, 12)
    assert world.high_watermark == 10
    world.leader.refused()
    world.now_ms += LAG_MS + 1
    world.fetch(2, 12)
    assert world.high_watermark == 12


def test_a_silent_follower_does_not_rejoin_when_nothing_could_be_committed() -> None:
    world = World(min_in_sync=3)
    for follower in (2, 3):
        world.fetch(follower, 10)
    world.append(1)
    world.now_ms += LAG_MS + 1
    world.fetch(2, 11)
    proposal = world.leader.propose(world.now_ms)
    assert proposal is not None
    assert (proposal.after.isr, proposal.after.elr) == ((1, 2), (3,))
    world.leader.follow(proposal.after, world.now_ms)
    assert world.leader.propose(world.now_ms) is None
    world.fetch(3, 10)
    proposal = world.leader.propose(world.now_ms)
    assert proposal is not None
    assert proposal.after.isr == (1, 2, 3)


def test_a_follower_that_lacks_records_before_this_epoch_does_not_join() -> None:
    world = World(isr=(1,), min_in_sync=2)
    world.fetch(3, 9)  # All that is committed, as far as this leader knows: it may know too little.
    assert world.leader.propose(world.now_ms) is None


@pytest.mark.parametrize(
    "known",
    [brokers(1, 2), brokers(1, 2, 3, life=1), brokers(1, 2, 3, draining=(3,))],
    ids=["dead", "begun anew", "draining"],
)
def test_a_dead_restarted_or_draining_broker_does_not_join(known: dict[int, LiveBroker]) -> None:
    world = World(isr=(1, 2))
    world.leader.brokers_changed(known)
    world.fetch(3, 10)
    assert world.leader.propose(world.now_ms) is None


def test_an_older_state_changes_nothing() -> None:
    world = World(isr=(1, 2))
    assert not world.leader.follow(replace(world.leader.state, isr=(1,), partition_epoch=8), world.now_ms)
    assert world.leader.state.isr == (1, 2)


def test_the_committed_end_is_unknown_until_the_new_leader_has_reached_the_old_one() -> None:
    world = World(isr=(1, 2))
    assert world.leader.latest_offset is None
    assert world.leader.check_read(4) is None
    assert world.leader.check_read(5) is ErrorCode.OFFSET_NOT_AVAILABLE
    world.fetch(2, 10)
    assert world.leader.latest_offset == 10
    assert world.leader.check_read(10) is None
    assert world.leader.check_read(11) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_consumers_are_sent_to_a_complete_replica_in_their_rack() -> None:
    world = World()
    known = brokers(1, 2, 3)
    world.fetch(2, 8)
    assert select_read_replica(world.leader, known, "rack-0", 8) == 2
    assert select_read_replica(world.leader, known, "rack-0", 9) is None
    assert select_read_replica(world.leader, known, "rack-1", 8) is None  # The leader's own.
    assert select_read_replica(world.leader, known, None, 8) is None


def test_a_proposal_before_a_reopened_log_is_counted_again_from_the_start() -> None:
    world = World(isr=(1,), min_in_sync=1, end_offset=10)
    world.fetch(2, 10)
    proposal = world.leader.propose(world.now_ms)
    assert proposal is not None
    world.log.append(5)

    def opened_anew(state: PartitionState) -> Leadership:
        return Leadership(
            1,
            state,
            world.log,
            high_watermark=10,
            min_insync_replicas=1,
            lag_ms_max=LAG_MS,
            now_ms=world.now_ms,
            proposal=proposal,
        )

    again = opened_anew(proposal.before)
    assert (again.proposal, again.high_watermark) == (proposal, 10), "broker 2 may be in sync, and lacks five"
    decided = opened_anew(replace(proposal.before, partition_epoch=proposal.after.partition_epoch))
    assert (decided.proposal, decided.high_watermark) == (None, 15)


def test_the_low_watermark_waits_for_reported_log_starts_and_not_for_earlier_versions() -> None:
    world = World()
    world.log.log_start_offset = 6
    world.fetch(2, 10, log_start_offset=6)
    assert world.leader.low_watermark == -1, "nothing is known of the third one yet"
    world.fetch(3, 10)
    assert world.leader.low_watermark == 6
    world.fetch(3, 10, log_start_offset=2)
    assert world.leader.low_watermark == 2, "it has been upgraded"
