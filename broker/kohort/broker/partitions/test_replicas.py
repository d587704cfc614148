"""A broker's roles in a partition of three brokers: what is waited for, read, and refused in each."""

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from kohort.broker.metadata import NO_LEADER, PartitionState
from kohort.broker.partitions.host import OpenedLog
from kohort.broker.partitions.partition import LedElsewhere, Partition
from kohort.broker.partitions.replicas import Replicas
from kohort.broker.partitions.test_flusher_durability import World
from kohort.broker.partitions.test_support import BareHost
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import build_batch
from kohort.storage import StorageError

STATE = PartitionState(0, 1, 5, (1, 2, 3), (1, 2, 3), 9)


class RoleHost(BareHost):
    """Tells the roles what happens to a log."""

    def __init__(self, host: BareHost, replicas: Replicas) -> None:
        super().__init__(host.open)
        self._replicas = replicas

    def log_opened(self, partition: Partition, /) -> None:
        self._replicas.opened(partition)

    def synced(self, partition: Partition, /) -> None:
        self._replicas.synced(partition)


class Here:
    """Broker 1 with one partition, its log and its flusher; `told` is what those who waited heard."""

    def __init__(self, state: PartitionState = STATE, *, leads: bool = True) -> None:
        self.world = World()
        self.may_act = True
        self.fetched_from: list[int] = []
        self.replicas = Replicas(
            1,
            clock=cast(Any, SimpleNamespace(now_ms=lambda: 1_000_000)),
            loop=cast(Any, SimpleNamespace(post=lambda action: action())),
            lag_ms_max=lambda: 30_000,
            may_follow=lambda state: True,
            check=self._check,
        )
        self.replicas.on_followed = self.fetched_from.append
        self.world.host = RoleHost(self.world.host, self.replicas)
        self.partition: Partition = self.world.partition("orders")
        self.told: list[tuple[str, StorageError | None]] = []
        self.state = state
        self.settle(state, leads=leads)

    def _check(self) -> None:
        if not self.may_act:
            self.settle(self.state, leads=False)

    def settle(self, state: PartitionState, *, leads: bool) -> None:
        self.state = state
        self.partition.follow(self.partition.config, state.leader_epoch)
        self.replicas.settle(self.partition, state, leads=leads)

    def commit(self, name: str) -> None:
        self.partition.append_own(build_batch([(0, None, name.encode(), ())]))
        self.world.flusher.request_commit(self.partition, partial(self._told, name))
        self.world.flusher.start_round()

    def _told(self, name: str, error: StorageError | None) -> None:
        self.told.append((name, error))

    def fetch(self, node_id: int, offset: int, leader_epoch: int = 5) -> ErrorCode | tuple[int, int] | None:
        return self.replicas.fetched(
            self.partition,
            node_id=node_id,
            broker_epoch=10 * node_id,
            offset=offset,
            last_fetched_epoch=self.partition.log.epoch_at(offset - 1) if offset else -1,
            leader_epoch=leader_epoch,
        )


def test_waiters_are_answered_in_order_after_the_last_follower_fetched() -> None:
    here = Here()
    for name in ("one", "two", "three"):
        here.commit(name)
    assert here.fetch(2, 3) is None
    assert (here.told, here.partition.high_watermark) == ([], 0)
    here.fetch(3, 2)
    assert (here.told, here.partition.high_watermark) == ([("one", None), ("two", None)], 2)
    here.fetch(3, 3)
    assert here.told[2:] == [("three", None)]


def test_waiters_are_refused_when_another_broker_leads_and_appends_stop() -> None:
    here = Here()
    here.commit("one")
    here.settle(replace(STATE, leader=2, leader_epoch=6, partition_epoch=10), leads=False)
    ((_, error),) = here.told
    assert isinstance(error, LedElsewhere)
    assert here.partition.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (here.partition.following is not None, here.fetched_from) == (True, [2])
    assert here.fetch(3, 1, 6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert here.partition.log.latest_epoch == 5, "a follower's log has its leader's epochs"


def test_a_leader_whose_lease_ended_during_the_write_acknowledges_nothing() -> None:
    here = Here(replace(STATE, isr=(1,)))
    here.may_act = False
    here.commit("one")
    ((_, error),) = here.told
    assert isinstance(error, LedElsewhere)
    assert here.partition.high_watermark == 0


def test_a_leader_with_a_renewed_lease_keeps_its_proposal() -> None:
    here = Here(replace(STATE, isr=(1, 2)))
    here.commit("one")
    before = here.partition.leadership
    here.settle(here.state, leads=False)
    assert here.partition.leadership is None
    here.settle(here.state, leads=True)
    assert here.partition.leadership is before
    here.fetch(2, 1)
    assert here.partition.high_watermark == 1


def test_a_new_leader_epoch_starts_a_new_leadership_at_the_log_end() -> None:
    here = Here()
    here.commit("one")
    here.settle(replace(STATE, leader_epoch=6, partition_epoch=10), leads=True)
    assert here.partition.log.end_offset_for_epoch(5) == (5, 1)
    assert here.partition.leadership is not None
    assert here.partition.leadership.latest_offset is None
    assert here.fetch(2, 1, 5) is ErrorCode.FENCED_LEADER_EPOCH
    for follower in (2, 3):
        here.fetch(follower, 1, 6)
    assert here.partition.leadership.latest_offset == 1
    (_, error) = here.told[0]
    assert isinstance(error, LedElsewhere)


@pytest.mark.parametrize("leader", [NO_LEADER, 1])
def test_no_leader_is_followed_without_one_or_without_permission(leader: int) -> None:
    here = Here(replace(STATE, leader=leader), leads=False)
    assert (here.partition.leadership, here.partition.following, here.fetched_from) == (None, None, [])
    assert here.partition.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_lost_synced_records_is_checked_at_its_next_fetch() -> None:
    here = Here()
    here.commit("one")
    for follower in (2, 3):
        here.fetch(follower, 1)
    looked_at: list[object] = []
    here.replicas.on_lag = looked_at.append
    here.fetch(3, 1)
    assert looked_at == []
    here.fetch(2, 0)
    assert looked_at == [here.partition]


def test_a_log_that_fails_ends_the_role_until_it_is_opened_again() -> None:
    here = Here()
    here.commit("one")
    failure = StorageError("the disk")
    here.partition.failed(failure)
    assert here.told == [("one", failure)]
    assert here.fetch(2, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    here.partition.reopened(OpenedLog(here.partition.log))
    assert here.partition.error_code is None
    for follower in (2, 3):
        here.fetch(follower, 1)
    assert here.partition.high_watermark == 1


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("is_opened_anew", [True, False])
def test_a_log_with_a_higher_epoch_than_the_metadata_has_no_role(leads: bool, is_opened_anew: bool) -> None:
    here = Here()
    here.commit("one")
    behind: list[int] = []
    here.world.host.epoch_behind = lambda _, epoch: behind.append(epoch)  # type: ignore[method-assign]
    if is_opened_anew:
        here.partition.leader_epoch = 2
    stepped_back = replace(STATE, leader=1 if leads else 2, leader_epoch=2, partition_epoch=10)
    here.settle(stepped_back, leads=leads)
    assert (here.partition.leadership, here.partition.following) == (None, None)
    assert here.partition.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert behind == [5]
    here.settle(replace(stepped_back, leader_epoch=5), leads=leads)
    assert here.partition.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert behind == [5, 5], "others may have led under it"
    here.settle(replace(stepped_back, leader_epoch=6), leads=leads)
    assert (here.partition.leadership is not None, here.partition.following is not None) == (leads, not leads)
    assert here.partition.leader_epoch == 6
