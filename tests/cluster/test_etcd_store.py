"""What only a store in etcd has: registrations under leases, a controller, answers that are lost."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from kohort.broker.etcd.client import EtcdClient
from kohort.broker.etcd.messages import Delete, Put, Range
from kohort.broker.metadata import (
    BrokerState,
    MetadataConflict,
    Mutation,
    PartitionState,
    Snapshot,
    TopicState,
    update,
)
from kohort.broker.metadata.etcd_layout import Keys
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.metadata.membership import boot_time_ms
from kohort.broker.metadata.store import BrokerFenced, MetadataUnavailable
from kohort.broker.metadata.topic_plans import partitions_of, random_topic_id
from kohort.storage import StorageError
from tests.cluster.etcd_process import EtcdProcess

FOLDER, OTHER_FOLDER = UUID(int=1), UUID(int=2)


class Heard:
    """What a store tells of this broker's tenure."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.renewals: list[int] = []
        self.losses = 0

    def registered(self, broker_epoch: int, asked_ms: int) -> None:
        self.epochs.append(broker_epoch)
        self.renewals.append(asked_ms)

    def renewed(self, asked_ms: int) -> None:
        self.renewals.append(asked_ms)

    def lost(self) -> None:
        self.losses += 1


@pytest.fixture
def name() -> str:
    """A cluster of the test's own."""
    return uuid4().hex


@asynccontextmanager
async def opened(
    url: str,
    name: str,
    *,
    follows: bool = True,
    transport: httpx.AsyncBaseTransport | None = None,
    tenure: Heard | None = None,
    call_seconds: float = 5,
    heartbeat_ms: int = 100,
) -> AsyncIterator[EtcdMetadataStore]:
    async with EtcdClient([url], transport=transport, call_seconds=call_seconds) as client:
        store = await EtcdMetadataStore.connect(
            client, name, "c", session_timeout_ms=2_000, heartbeat_ms=heartbeat_ms, tenure=tenure
        )
        async with trio.open_nursery() as nursery:
            if follows:
                nursery.start_soon(store.follow)
            yield store
            nursery.cancel_scope.cancel()


def broker(node_id: int, directory: UUID = FOLDER, port: int = 9092) -> BrokerState:
    return BrokerState(node_id, "localhost", port, incarnation_id=uuid4(), directories=(directory,))


def topic(name: str, partitions: int = 1) -> TopicState:
    return TopicState(name, random_topic_id(), partitions_of([(1,)] * partitions))


async def put(store: EtcdMetadataStore, *topics: TopicState) -> Snapshot:
    return await store.change(store.snapshot(), Mutation(put=topics))


def changed(now: Snapshot, name: str = "a") -> Mutation:
    state = now.topics[name].partitions[0]
    after = msgspec.structs.replace(state, isr=(), partition_epoch=state.partition_epoch + 1)
    return Mutation(partitions={(now.topics[name].topic_id, 0): after})


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(15):
        while not holds():
            await trio.sleep(0.005)


# -- changes ----------------------------------------------------------------------------------------------


async def test_etcd_refuses_a_change_based_on_old_metadata(shared_etcd: EtcdProcess, name: str) -> None:
    async with opened(shared_etcd.url, name) as store:
        await put(store, topic("a"))
    async with opened(shared_etcd.url, name, follows=False) as late, trio.open_nursery() as nursery:
        basis = late.snapshot()
        async with opened(shared_etcd.url, name) as other:
            await update(other, changed)
            assert other.snapshot().topics["a"].partitions[0].partition_epoch == 1
        ended: list[str] = []

        async def change() -> None:
            with pytest.raises(MetadataConflict):
                await late.change(basis, changed(basis))
            ended.append("conflict")

        nursery.start_soon(change)
        await trio.sleep(0.3)
        assert not ended  # It waits for what stood against it ...
        nursery.start_soon(late.follow)
        await until(lambda: bool(ended))
        assert late.snapshot().topics["a"].partitions[0].partition_epoch == 1  # ... which is here by then.
        nursery.cancel_scope.cancel()


class LosesAnswers(httpx.AsyncHTTPTransport):
    """The network, on which answers to transactions that write get lost, or the requests themselves."""

    lost_answers = 0
    lost_requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        writes = request.url.path.endswith("/txn") and b"request_put" in await request.aread()
        if writes and self.lost_requests:
            self.lost_requests -= 1
            raise httpx.ReadError("lost")
        response = await super().handle_async_request(request)
        if writes and self.lost_answers:
            self.lost_answers -= 1
            await response.aread()
            raise httpx.ReadError("lost")
        return response


async def test_a_change_with_a_lost_answer_is_found_again(shared_etcd: EtcdProcess, name: str) -> None:
    network = LosesAnswers()
    async with opened(shared_etcd.url, name, transport=network) as store:
        network.lost_answers = 1
        first = topic("a", 3)
        after = await put(store, first)
        assert (after.topics["a"], network.lost_answers) == (first, 0)


async def test_producer_ids_with_a_lost_answer_are_skipped(shared_etcd: EtcdProcess, name: str) -> None:
    network = LosesAnswers()
    async with opened(shared_etcd.url, name, transport=network) as store:
        first = await store.allocate_producer_ids(10)
        network.lost_answers = 1
        second = await store.allocate_producer_ids(10)
        assert second.start >= first.stop + 10
        assert len(second) == 10


async def test_without_etcd_a_change_fails_and_the_snapshot_stays(own_etcd: EtcdProcess, name: str) -> None:
    async with opened(own_etcd.url, name, call_seconds=0.5) as store:
        before = await put(store, topic("a"))
        own_etcd.kill()
        with pytest.raises(MetadataUnavailable):
            await put(store, topic("b"))
        assert store.snapshot() is before
        await trio.to_thread.run_sync(own_etcd.start)
        after = await update(store, lambda _: Mutation(put=(topic("c"),)))
        assert sorted(after.topics) == ["a", "c"]


async def test_a_store_behind_a_compaction_reads_everything_again(
    shared_etcd: EtcdProcess, name: str
) -> None:
    async with opened(shared_etcd.url, name) as other:
        await put(other, topic("a"), topic("b"))
        async with opened(shared_etcd.url, name, follows=False) as late, trio.open_nursery() as nursery:
            before = late.snapshot()
            await update(other, changed)
            after = await put(other, topic("c"))
            await late._client.call("kv/compaction", {"revision": str(after.version)})
            nursery.start_soon(late.follow)
            await until(lambda: late.snapshot().topics == after.topics)
            assert late.snapshot().topics["b"] is before.topics["b"]
            await put(other, topic("d"))  # And it goes on from there.
            await until(lambda: "d" in late.snapshot().topics)
            nursery.cancel_scope.cancel()


async def test_an_unreadable_value_is_named_and_the_store_waits(shared_etcd: EtcdProcess, name: str) -> None:
    key = Keys(name).topic("broken")
    async with opened(shared_etcd.url, name) as store:
        await put(store, topic("a"))
        with capture_logs() as logs:
            await store._client.put(Put(key, b"not json"))
            await until(lambda: any("broken" in str(each.get("error")) for each in logs))
            with pytest.raises(StorageError, match="topics/broken can't be read"):
                async with opened(shared_etcd.url, name):
                    pass
            await store._client.delete(Delete(key))
            after = await put(store, topic("b"))
        assert sorted(after.topics) == ["a", "b"]


async def test_a_newer_format_is_refused(shared_etcd: EtcdProcess, name: str) -> None:
    async with EtcdClient([shared_etcd.url]) as client:
        await client.txn([], [Put(Keys(name).format, b"2"), Put(Keys(name).cluster_id, b"c")])
    with pytest.raises(StorageError, match="format '2'"):
        async with opened(shared_etcd.url, name):
            pass


async def test_values_in_etcd_are_readable_by_people(shared_etcd: EtcdProcess, name: str) -> None:
    keys = Keys(name)
    state = PartitionState(
        0, leader=3, leader_epoch=4, replicas=(3, 1), isr=(3,), partition_epoch=9, elr=(1,)
    )
    a = TopicState("a.b", random_topic_id(), (state,), {"retention.ms": "5"})
    async with opened(shared_etcd.url, name) as store:
        await put(store, a)
        found = await store._client.range_all(keys.prefix, keys.end)
    values = {each.key: each.value for each in found.items}
    (change,) = [key for key in values if b"/changes/" in key]
    assert UUID(values.pop(change).decode())
    assert values == {
        keys.cluster_id: b"c",
        keys.format: b"1",
        f"/kohort/{name}/topics/a_b".encode(): (
            b'{"name":"a.b","topic_id":"%s","partitions":1,"configs":{"retention.ms":"5"}}'
            % str(a.topic_id).encode()
        ),
        f"/kohort/{name}/partitions/{a.topic_id}/0000000000".encode(): (
            b'{"leader":3,"leader_epoch":4,"replicas":[3,1],"isr":[3],"partition_epoch":9,"elr":[1]}'
        ),
    }


# -- registrations ----------------------------------------------------------------------------------------


async def test_brokers_see_each_other_and_the_epoch_is_the_revision_of_the_registration(
    shared_etcd: EtcdProcess, name: str
) -> None:
    async with opened(shared_etcd.url, name) as one, opened(shared_etcd.url, name) as two:
        await one.register(broker(1))
        snapshot = await two.register(broker(2, OTHER_FOLDER, 9093))
        assert [(each.node_id, each.port, each.directories) for each in snapshot.brokers] == [
            (1, 9092, (FOLDER,)),
            (2, 9093, (OTHER_FOLDER,)),
        ]
        for each in snapshot.brokers:
            key = Keys(name).broker(each.node_id)
            (item,) = (await one._client.range(Range(key))).items
            assert each.epoch == item.create_revision
            assert item.lease
        await until(lambda: one.snapshot().brokers == snapshot.brokers)


async def test_a_new_address_is_known_after_the_watch_reported_it(
    shared_etcd: EtcdProcess, name: str
) -> None:
    async with EtcdClient([shared_etcd.url]) as client, trio.open_nursery() as nursery:
        store = await EtcdMetadataStore.connect(client, name, "c")
        with trio.CancelScope() as following:
            async with trio.open_nursery() as told:
                told.start_soon(store.follow)
                await store.register(broker(1, port=9092))
                following.cancel()
        known: list[int] = []

        async def restate() -> None:
            snapshot = await store.register(broker(1, port=9093))
            known.extend(each.port for each in snapshot.brokers)

        nursery.start_soon(restate)
        items = Keys(name).broker(1)
        while b"9093" not in (await client.range(Range(items))).items[0].value:
            await trio.sleep(0.01)
        nursery.start_soon(store.follow)
        await until(lambda: bool(known))
        assert known == [9093]
        nursery.cancel_scope.cancel()


async def test_a_broker_that_renews_its_lease_lives_and_another_expires(
    shared_etcd: EtcdProcess, name: str
) -> None:
    heard = Heard()
    async with (
        opened(shared_etcd.url, name, tenure=heard) as one,
        opened(shared_etcd.url, name) as two,
        trio.open_nursery() as nursery,
    ):
        began_ms = boot_time_ms()
        await one.register(broker(1))
        nursery.start_soon(one.membership.keep)
        await two.register(broker(2, OTHER_FOLDER))
        await until(lambda: [each.node_id for each in one.snapshot().brokers] == [1, 2])
        await until(lambda: [each.node_id for each in one.snapshot().brokers] == [1])
        assert heard.epochs == [one.membership.epoch]
        assert len(heard.renewals) > 5
        assert began_ms <= heard.renewals[0]
        assert heard.renewals == sorted(heard.renewals)
        assert heard.losses == 0
        nursery.cancel_scope.cancel()


async def test_a_broker_without_a_lease_cannot_change_metadata_until_it_registers_again(
    shared_etcd: EtcdProcess, name: str
) -> None:
    heard = Heard()
    async with opened(shared_etcd.url, name, tenure=heard) as one:
        await one.register(broker(1))
        first = one.membership.epoch
        await one._client.revoke(one.membership.lease_id)
        with pytest.raises(BrokerFenced):
            await put(one, topic("a"))
        assert heard.losses == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.membership.keep)
            await until(lambda: len(heard.epochs) == 2)
            nursery.cancel_scope.cancel()
        assert heard.epochs[1] > first
        await until(lambda: bool(one.snapshot().brokers))
        assert "a" in (await put(one, topic("a"))).topics


async def test_a_broker_that_returns_within_its_lease_registers_with_a_new_epoch(
    shared_etcd: EtcdProcess, name: str
) -> None:
    old_heard = Heard()
    async with opened(shared_etcd.url, name, tenure=old_heard) as old, opened(shared_etcd.url, name) as new:
        await old.register(broker(1, port=1))
        first = old.membership.epoch
        snapshot = await new.register(broker(1, port=2))  # The same folder: its last process is dead.
        assert [each.port for each in snapshot.brokers] == [2]
        assert new.membership.epoch > first
        with pytest.raises(BrokerFenced):
            await put(old, topic("a"))
        assert old_heard.losses == 1


async def test_a_folder_that_lost_data_registers_with_a_new_directory_id(
    shared_etcd: EtcdProcess, name: str
) -> None:
    async with opened(shared_etcd.url, name) as old, opened(shared_etcd.url, name) as new:
        await old.register(broker(1))
        short = msgspec.structs.replace(broker(1, OTHER_FOLDER), former_directories=(FOLDER,))
        with trio.fail_after(1):  # Less than a lease.
            snapshot = await new.register(short)
        (known,) = snapshot.brokers
        assert (known.directories, known.former_directories) == ((OTHER_FOLDER,), (FOLDER,))


async def test_the_last_registration_is_known_after_it_ended(shared_etcd: EtcdProcess, name: str) -> None:
    async with opened(shared_etcd.url, name) as one:
        assert await one.last_life(1) is None
        first, second = broker(1), broker(1)
        await one.register(first)
        await one.membership.leave()
        assert await one.last_life(1) == first.incarnation_id
        await one.register(second)
        assert await one.last_life(1) == second.incarnation_id
        assert await one.last_life(2) is None


async def test_a_node_id_that_another_folder_has_is_refused_clearly(
    shared_etcd: EtcdProcess, name: str
) -> None:
    async with (
        opened(shared_etcd.url, name) as one,
        opened(shared_etcd.url, name) as two,
        trio.open_nursery() as nursery,
    ):
        await one.register(broker(1))
        nursery.start_soon(one.membership.keep)
        with pytest.raises(BrokerFenced, match="node id 1 is in use by another broker at localhost:9092"):
            await two.register(broker(1, OTHER_FOLDER))
        nursery.cancel_scope.cancel()


async def test_a_node_id_is_free_after_the_lease_of_a_dead_broker_ended(
    shared_etcd: EtcdProcess, name: str
) -> None:
    async with opened(shared_etcd.url, name) as one, opened(shared_etcd.url, name) as two:
        await one.register(broker(1))
        snapshot = await two.register(broker(1, OTHER_FOLDER))
        assert [each.directories for each in snapshot.brokers] == [(OTHER_FOLDER,)]


async def test_a_clean_leave_is_seen_at_once(shared_etcd: EtcdProcess, name: str) -> None:
    async with opened(shared_etcd.url, name) as one, opened(shared_etcd.url, name) as two:
        await one.register(broker(1))
        await until(lambda: len(two.snapshot().brokers) == 1)
        await one.membership.leave()
        with trio.fail_after(1):
            await until(lambda: not two.snapshot().brokers)


# -- the controller ---------------------------------------------------------------------------------------


async def test_there_is_one_controller_and_another_after_its_lease_ended(
    shared_etcd: EtcdProcess, name: str
) -> None:
    async with opened(shared_etcd.url, name) as one, opened(shared_etcd.url, name) as two:
        await one.register(broker(1))
        await two.register(broker(2, OTHER_FOLDER))
        epoch = await one.become_controller(1)
        assert epoch is not None
        assert await two.become_controller(2) is None
        for store in (one, two):
            await until(partial(_is_controller, store, 1, epoch))
        await put(one, topic("a"))
        await one.change(one.snapshot(), changed(one.snapshot()), controller_epoch=epoch)
        await one._client.revoke(one.membership.lease_id)
        later = await two.become_controller(2)
        assert later is not None
        assert later > epoch
        assert _is_controller(two, 2, later)


def _is_controller(store: EtcdMetadataStore, node_id: int, epoch: int) -> bool:
    now = store.snapshot()
    return (now.controller_id, now.controller_epoch) == (node_id, epoch)


async def test_a_dead_broker_is_removed_before_its_lease_ends_and_loses_the_controller_role(
    shared_etcd: EtcdProcess, name: str
) -> None:
    heard = Heard()
    async with opened(shared_etcd.url, name, tenure=heard) as one, opened(shared_etcd.url, name) as two:
        first = (await one.register(broker(1))).broker(1)
        assert first is not None
        assert await one.become_controller(1) is not None
        await two.register(broker(2, OTHER_FOLDER))
        after = await two.expel(first)
        assert (after.broker(1), after.controller_id) == (None, -1)
        await until(lambda: heard.losses == 1)
        with pytest.raises(BrokerFenced):
            await put(one, topic("a"))
        second = (await one.register(broker(1))).broker(1)
        assert second is not None
        assert second.epoch > first.epoch
        await until(lambda: two.snapshot().broker(1) == second)
        assert (await two.expel(first)).broker(1) == second  # Another life: nothing is done to it.


async def test_the_last_life_of_a_broker_is_forgotten_only_while_it_is_not_registered(
    shared_etcd: EtcdProcess, name: str
) -> None:
    async with opened(shared_etcd.url, name) as one, opened(shared_etcd.url, name) as two:
        first = (await one.register(broker(1))).broker(1)
        assert first is not None
        await two.register(broker(2, OTHER_FOLDER))
        await two.forget_life(1)
        assert await two.last_life(1) == first.incarnation_id
        await two.expel(first)
        await two.forget_life(1)
        assert await two.last_life(1) is None


async def test_an_unregistered_broker_cannot_remove_another(shared_etcd: EtcdProcess, name: str) -> None:
    async with opened(shared_etcd.url, name) as one, opened(shared_etcd.url, name) as two:
        first = (await one.register(broker(1))).broker(1)
        assert first is not None
        await two.register(broker(2, OTHER_FOLDER))
        await two._client.revoke(two.membership.lease_id)
        with pytest.raises(BrokerFenced):
            await two.expel(first)
        assert one.snapshot().broker(1) == first


async def test_a_controller_of_before_changes_nothing(shared_etcd: EtcdProcess, name: str) -> None:
    async with opened(shared_etcd.url, name) as one:
        await one.register(broker(1))
        await put(one, topic("a"))
        epoch = await one.become_controller(1)
        assert epoch is not None
        await one._client.delete(Delete(Keys(name).controller))
        with pytest.raises(BrokerFenced, match="another broker is the controller"):
            await one.change(one.snapshot(), changed(one.snapshot()), controller_epoch=epoch)
        assert one.snapshot().topics["a"].partitions[0].partition_epoch == 0
        assert one.membership.epoch > 0  # As a broker it may act on.


@pytest.mark.skipif(
    not os.path.exists("/proc/uptime"), reason="the time since the machine's start is unknown"
)
def test_the_clock_counts_from_the_boot_of_the_machine() -> None:
    with open("/proc/uptime", encoding="ascii") as uptime:
        assert abs(float(uptime.read().split()[0]) * 1000 - boot_time_ms()) < 5_000
