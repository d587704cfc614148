"""What can go wrong with the simulated etcd, as its client sees it."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("httpx")

import trio

from kohort.broker.etcd.client import EtcdClient
from kohort.broker.etcd.errors import EtcdCompacted, EtcdLeaseLost, EtcdUnavailable
from kohort.broker.etcd.messages import Put, Range, Watched
from kohort.broker.etcd.watching import Watch
from kohort.testing.simulation.etcd import SimulatedEtcd
from kohort.testing.simulation.kernel import SECOND, Kernel
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.patches import simulated
from kohort.testing.simulation.trio_process import TrioProcess
from kohort.testing.simulation.trio_sockets import put_on_network

SECONDS_MAX = 600


@contextmanager
def one_etcd(seed: int = 1) -> Iterator[SimulatedEtcd]:
    kernel = Kernel(seed)
    with simulated(kernel):
        try:
            yield SimulatedEtcd(kernel, Network(kernel))
        finally:
            kernel.close()


def ask(etcd: SimulatedEtcd, ask_client: Callable[[EtcdClient], Awaitable[object]]) -> object:
    """Return what a process with a client of its own returns."""

    async def main() -> object:
        async with EtcdClient([f"http://{each.address}" for each in etcd.members]) as client:
            return await ask_client(client)

    process = TrioProcess(etcd.kernel, "client", main)
    put_on_network(process, etcd.network, etcd.network.host("client"))
    etcd.kernel.run(lambda: process.outcome is not None, SECONDS_MAX)
    assert process.outcome is not None
    return process.outcome.unwrap()


def value_of(etcd: SimulatedEtcd, key: bytes) -> bytes | None:
    return next((each.value for each in etcd.store.entries() if each.key == key), None)


def put(client: EtcdClient) -> Awaitable[object]:
    return client.txn([], [Put(b"a", b"1")])


def test_one_member_of_three_may_be_away() -> None:
    with one_etcd() as etcd:
        etcd.members[0].kill()
        ask(etcd, put)
        assert value_of(etcd, b"a") == b"1"
        etcd.members[1].kill()
        with pytest.raises(EtcdUnavailable) as caught:
            ask(etcd, put)
        assert caught.value.maybe_done


@pytest.mark.parametrize(("fault", "is_done"), [("lost_requests", False), ("lost_answers", True)])
def test_requests_and_answers_get_lost(fault: str, is_done: bool) -> None:
    with one_etcd() as etcd:
        setattr(etcd, fault, 1.0)
        with pytest.raises(EtcdUnavailable):
            ask(etcd, put)
        assert (value_of(etcd, b"a") == b"1") is is_done


def test_a_request_is_carried_out_when_nobody_waits_for_it() -> None:
    with one_etcd() as etcd:
        etcd.late_requests = 1.0
        with pytest.raises(EtcdUnavailable):
            ask(etcd, put)
        assert value_of(etcd, b"a") is None
        etcd.kernel.run_for(int(etcd.late_seconds_max * SECOND))
        assert value_of(etcd, b"a") == b"1"


def test_a_member_that_stands_still_carries_out_later_what_it_was_asked() -> None:
    with one_etcd() as etcd:
        etcd.kernel.run_for(SECOND)
        etcd.members[0].pause(30)
        with pytest.raises(EtcdUnavailable):
            ask(etcd, put)
        assert value_of(etcd, b"a") is None
        etcd.kernel.run_for(30 * SECOND)
        assert value_of(etcd, b"a") == b"1"


def test_leases_end_early_and_late() -> None:
    async def hold(client: EtcdClient) -> None:
        lease = await client.grant(5)
        await client.put(Put(b"a", b"1", lease.id))
        etcd.hold_leases(10)
        await trio.sleep(8)
        with pytest.raises(EtcdLeaseLost):
            await client.keep_alive(lease.id)
        assert (await client.range(Range(b"a"))).items
        await trio.sleep(8)
        assert not (await client.range(Range(b"a"))).items
        lease = await client.grant(5)
        assert etcd.end_lease()
        with pytest.raises(EtcdLeaseLost):
            await client.keep_alive(lease.id)
        assert not etcd.end_lease()

    with one_etcd() as etcd:
        ask(etcd, hold)


def test_a_lease_that_is_due_is_not_ended_early_and_none_is_without_a_leader() -> None:
    def grant() -> int:
        etcd.kernel.run_for(3 * SECOND)
        return int(etcd.store.answer("lease/grant", {"TTL": 5}, etcd.now())["ID"])

    with one_etcd() as etcd:
        grant()
        etcd.kernel.run_for(5 * SECOND - 1)
        assert etcd.store.lease_ids
        etcd.kernel.time_ns += 1  # It is due now, and nobody has looked.
        assert not etcd.end_lease()
        lease = grant()
        for each in etcd.members[:2]:
            each.kill()
        etcd.kernel.run_for(1 * SECOND)
        assert not etcd.end_lease()
        assert etcd.store.lease_ids == [lease]


def test_who_leads_after_an_outage_gives_leases_their_whole_time_again() -> None:
    with one_etcd() as etcd:
        ask(etcd, lambda client: client.grant(5))
        for each in etcd.members:
            each.kill()
        etcd.kernel.run_for(60 * SECOND)
        for each in etcd.members:
            each.start()
        etcd.kernel.run_for(4 * SECOND)
        assert etcd.store.lease_ids
        etcd.kernel.run_for(2 * SECOND)
        assert not etcd.store.lease_ids


def test_a_watch_goes_on_where_it_broke_and_ends_behind_a_restore() -> None:
    told: list[int] = []

    async def watch(client: EtcdClient) -> None:
        with trio.move_on_after(20):
            await Watch(client, b"a", b"", 2).run(hear)

    def hear(watched: Watched) -> None:
        told.append(watched.revision)

    with one_etcd() as etcd:
        for number in range(1, 5):
            etcd.later(2 * number, lambda: etcd.store.answer("kv/put", {"key": "YQ=="}, etcd.now()))
            etcd.kernel.call_after((2 * number + 1) * SECOND, etcd.members[0].break_watches)
        ask(etcd, watch)
        assert told == [2, 3, 4, 5]
        backup = etcd.backup()
        etcd.kernel.call_after(5 * SECOND, lambda: etcd.restore(backup))
        with pytest.raises(EtcdCompacted):
            ask(etcd, lambda client: Watch(client, b"a", b"", 6).run(hear))
        assert etcd.store.entries() == backup


def test_a_compaction_forgets_old_revisions() -> None:
    with one_etcd() as etcd:
        for _ in range(5):
            ask(etcd, put)
        etcd.compact()
        with pytest.raises(EtcdCompacted):
            ask(etcd, lambda client: client.range(Range(b"a", revision=2)))


def test_a_slow_member_answers_and_one_behind_tells_late() -> None:
    times: list[float] = []

    async def watch(client: EtcdClient) -> None:
        with trio.move_on_after(20):
            await Watch(client, b"a", b"", 2).run(lambda watched: times.append(etcd.now()))

    with one_etcd() as etcd:
        etcd.members[0].slow_seconds, etcd.members[0].watch_lag_seconds = 2.0, 3.0
        etcd.later(5, lambda: etcd.store.answer("kv/put", {"key": "YQ=="}, etcd.now()))
        ask(etcd, watch)
        assert 8 <= times[0] < 9
        ask(etcd, put)
