"""A broker among others of its host: whom it waits for, where it reaches them, and where partitions go."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
import trio
import trio.testing

from kohort.broker.cluster.member import ClusterMember, Host
from kohort.broker.cluster.placing import place_on_one
from kohort.broker.cluster.tenure import LeasedTenure
from kohort.broker.metadata import BrokerState, Snapshot
from kohort.protocol.errors import ApiError, ErrorCode


def snapshot(*node_ids: int) -> Snapshot:
    brokers = tuple(BrokerState(each, "outside", 9092 + each, epoch=5) for each in node_ids)
    return Snapshot(9, "c", 1, brokers, {}, {})


class Metadata:
    """A store that a test lets others register with."""

    def __init__(self, now: Snapshot) -> None:
        self.now = now
        self._watchers: list[Callable[[Snapshot, Snapshot], None]] = []

    def snapshot(self) -> Snapshot:
        return self.now

    def watch(self, watcher: Callable[[Snapshot, Snapshot], None]) -> Callable[[], None]:
        self._watchers.append(watcher)
        return lambda: None

    def become(self, now: Snapshot) -> None:
        before, self.now = self.now, now
        for each in self._watchers:
            each(before, now)


def member(metadata: Metadata, host: Host | None) -> ClusterMember:
    tenure = LeasedTenure(1, 1_000, lambda: 0)
    nothing = cast("Any", None)
    life = cast("Any", SimpleNamespace(incarnation_id=UUID(int=1)))
    return ClusterMember(cast("Any", metadata), tenure, nothing, life, host)


HOST = Host({1: (("127.0.0.1", 1001), None), 2: (("127.0.0.1", 1002), None)})


async def test_a_worker_serves_once_all_others_have_registered() -> None:
    metadata = Metadata(snapshot(1))
    worker = member(metadata, HOST)
    serves = trio.Event()

    async def start() -> None:
        await worker.until_others_are_here()
        serves.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start)
        await trio.testing.wait_all_tasks_blocked()
        assert not serves.is_set()
        metadata.become(snapshot(1, 2))
        await serves.wait()


async def test_a_worker_stops_waiting_for_a_missing_worker(
    autojump_clock: trio.testing.MockClock,
) -> None:
    await member(Metadata(snapshot(1)), HOST).until_others_are_here()
    assert 1 < trio.current_time() < 30


async def test_a_broker_of_several_hosts_does_not_wait_for_others() -> None:
    with trio.fail_after(30):
        await member(Metadata(snapshot(1)), None).until_others_are_here()


@pytest.mark.parametrize(
    ("host", "listener", "address"),
    [(HOST, 0, ("127.0.0.1", 1002)), (HOST, 1, ("outside", 9094)), (None, 0, ("outside", 9094))],
)
def test_other_workers_of_the_host_are_reached_at_their_internal_addresses(
    host: Host | None, listener: int, address: tuple[str, int]
) -> None:
    brokers = tuple(
        BrokerState(each, "outside", 9092 + each, epoch=5, more_addresses=(("outside", 9092 + each),))
        for each in (1, 2)
    )
    worker = member(Metadata(Snapshot(9, "c", 1, brokers, {}, {})), host)
    worker.reach_others(listener, cast("Any", None))
    assert worker.others._address_of(2) == address
    assert worker.others._address_of(3) is None


def test_partitions_of_one_host_have_one_replica_in_round_robin() -> None:
    placed = place_on_one(snapshot(1, 2), 4, 1)
    assert sorted(placed) == [(1,), (1,), (2,), (2,)]
    with pytest.raises(ApiError) as refused:
        place_on_one(snapshot(1, 2), 4, 2)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
