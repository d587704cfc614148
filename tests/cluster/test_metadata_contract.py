"""What every metadata store keeps, whether it is one broker's file or a cluster's etcd."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import msgspec
import pytest
import structlog
import trio

from kohort.broker.authorization.acls import Binding, Entry, Filter, Pattern
from kohort.broker.authorization.authorizer import Authorizer
from kohort.broker.etcd.client import EtcdClient
from kohort.broker.host.channel import Channel
from kohort.broker.host.key_log import KeyLog
from kohort.broker.host.keys_client import KeysClient
from kohort.broker.host.keys_server import KeysServer
from kohort.broker.metadata import (
    BrokerState,
    ConfigResource,
    EmbeddedMetadataStore,
    MetadataConflict,
    MetadataStore,
    Mutation,
    PartitionState,
    ResourceType,
    Snapshot,
    TopicState,
    scram_users,
    update,
)
from kohort.broker.metadata.acls import bindings, creation, deletion, follow_acls
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.metadata.scram_users import Deletion, Upsertion
from kohort.broker.metadata.topic_plans import partitions_of, random_topic_id
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kohort.protocol.scram import MECHANISMS, credential_of
from kohort.storage import OsFileSystem
from kohort.testing.metadata_server import MetadataServer
from tests.cluster.etcd_process import EtcdProcess

Opened = Callable[[], AbstractAsyncContextManager[MetadataStore]]
"""Opens the same metadata once more, as a broker that starts again does."""
EVERY_BROKER = ConfigResource(ResourceType.BROKER, "")


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[MetadataStore]:
    yield EmbeddedMetadataStore.open(OsFileSystem(), folder, cluster_id="c", node_id=1)


@asynccontextmanager
async def in_etcd(url: str, name: str) -> AsyncIterator[MetadataStore]:
    async with EtcdClient([url]) as client, trio.open_nursery() as nursery:
        store = await EtcdMetadataStore.connect(client, name, "c")
        nursery.start_soon(store.follow)
        yield store
        nursery.cancel_scope.cancel()


class HostsMetadata:
    """What a host's supervisor serves: opened while it is open already, it is the same one."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "metadata.jsonl"
        self._server: KeysServer | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[MetadataStore]:
        """Give a store over a channel of its own."""
        async with trio.open_nursery() as nursery:
            is_first = self._server is None
            if self._server is None:
                self._server = KeysServer(KeyLog(OsFileSystem(), self._file))
                nursery.start_soon(self._server.run)
            ours, theirs = socket.socketpair()
            for each in (ours, theirs):
                each.setblocking(False)
            client = KeysClient(Channel(theirs))
            nursery.start_soon(self._server.serve, Channel(ours), pytest.fail)
            nursery.start_soon(client.run)
            store = await EtcdMetadataStore.connect(client, "host", "c")
            nursery.start_soon(store.follow)
            yield store
            nursery.cancel_scope.cancel()
            if is_first:
                self._server = None


@pytest.fixture(params=["embedded", "etcd", "a test's", "a host's"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """The way to open the store that the test is about."""
    if request.param == "embedded":
        return partial(embedded, tmp_path)
    if request.param == "a test's":
        server: MetadataServer = request.getfixturevalue("metadata_server")
        return partial(in_etcd, server.url, uuid4().hex)
    if request.param == "a host's":
        return HostsMetadata(tmp_path).opened
    etcd: EtcdProcess = request.getfixturevalue("shared_etcd")
    return partial(in_etcd, etcd.url, uuid4().hex)


def topic(name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> TopicState:
    return TopicState(name, random_topic_id(), partitions_of([(1,)] * partitions), configs or {})


async def put(store: MetadataStore, *topics: TopicState) -> Snapshot:
    return await store.change(store.snapshot(), Mutation(put=topics))


def next_epoch(state: PartitionState, **changed: object) -> PartitionState:
    return msgspec.structs.replace(state, partition_epoch=state.partition_epoch + 1, **changed)


# -- what is kept -----------------------------------------------------------------------------------------


async def test_a_new_cluster_has_no_topics_or_settings(opened: Opened) -> None:
    async with opened() as store:
        snapshot = store.snapshot()
    assert (dict(snapshot.topics), dict(snapshot.configs), snapshot.cluster_id) == ({}, {}, "c")


async def test_everything_outlives_the_process(opened: Opened) -> None:
    replicated = PartitionState(
        index=0,
        leader=3,
        leader_epoch=4,
        replicas=(3, 1, 2),
        isr=(3,),
        partition_epoch=9,
        adding=(2,),
        removing=(1,),
        elr=(1,),
        last_known_elr=(2,),
        directories=(UUID(int=1), UUID(int=2), UUID(int=3)),
    )
    orders = TopicState("orders", random_topic_id(), (replicated,), {"retention.ms": "5"})
    async with opened() as store:
        await put(store, orders, topic("payments", 3))
        after = await update(store, lambda _: Mutation(configs={EVERY_BROKER: {"log.retention.ms": "7"}}))
    async with opened() as store:
        again = store.snapshot()
    assert again.topics["orders"] == orders == again.topics_by_id[orders.topic_id]
    assert (again.topics, again.topics_by_id, again.configs) == (
        after.topics,
        after.topics_by_id,
        after.configs,
    )


async def test_an_authorizer_follows_added_and_removed_entries(opened: Opened) -> None:
    pattern = Pattern(AclResourceType.TOPIC, AclPatternType.PREFIXED, "or/ders")
    entry = Entry("User:CN=alice, O=x", "::1", AclOperation.READ, AclPermission.ALLOW)
    question = "User:CN=alice, O=x", "::1", AclOperation.DESCRIBE, AclResourceType.TOPIC, "or/ders-2"
    async with opened() as store:
        authorizer = Authorizer()
        follow_acls(store, authorizer)
        assert not authorizer.allows(*question)
        await update(store, lambda now: creation(now, [Binding(pattern, entry)]))
        assert authorizer.allows(*question)
        await put(store, topic("unrelated"))
        assert authorizer.allows(*question)
    async with opened() as store:
        later = Authorizer()
        follow_acls(store, later)
        assert later.allows(*question)
        await update(store, lambda now: deletion(now, [Binding(pattern, entry)]))
        assert not later.allows(*question)
        assert not store.snapshot().configs


async def test_a_thousand_entries_of_one_pattern_are_one_change(opened: Opened) -> None:
    pattern = Pattern(AclResourceType.GROUP, AclPatternType.LITERAL, "*")
    many = [
        Binding(pattern, Entry(f"User:{number}", "*", AclOperation.READ, AclPermission.ALLOW))
        for number in range(1_000)
    ]
    async with opened() as store:
        await update(store, lambda now: creation(now, many))
    async with opened() as store:
        assert sorted(bindings(store.snapshot(), Filter())) == sorted(many)


async def test_credentials_are_added_and_removed(opened: Opened) -> None:
    salted = b"\0\xff" * 16
    async with opened() as store:
        outcome = await scram_users.alter(
            store, [], [Upsertion("or/ders=x, Käse", 1, 4_096, b"salt", salted)]
        )
        assert outcome == {"or/ders=x, Käse": None}
    async with opened() as store:
        kept = scram_users.credential(store.snapshot(), "or/ders=x, Käse", "SCRAM-SHA-256")
        assert kept == credential_of(MECHANISMS["SCRAM-SHA-256"], salted, b"salt", 4_096)
        await scram_users.alter(store, [Deletion("or/ders=x, Käse", 1)], [])
    async with opened() as store:
        assert scram_users.users(store.snapshot()) == {}


async def test_a_topic_can_have_thousands_of_partitions_and_grow(opened: Opened) -> None:
    async with opened() as store:
        wide = topic("wide", 2_500)
        await put(store, wide, topic("slim"))
        more = (*wide.partitions, *partitions_of([(2,)] * 300, 2_500))
        await put(store, msgspec.structs.replace(wide, partitions=more))
    async with opened() as store:
        found = store.snapshot().topics["wide"].partitions
    assert found == more
    assert [each.index for each in found] == list(range(2_800))


async def test_thousands_of_partitions_change_together(opened: Opened) -> None:
    async with opened() as store:
        wide = topic("wide", 1_234)
        before = await put(store, wide)
        changed = {(wide.topic_id, each.index): next_epoch(each, leader=-1) for each in wide.partitions}
        after = await store.change(before, Mutation(partitions=changed))
    assert {each.leader for each in after.topics["wide"].partitions} == {-1}


async def test_a_deleted_topic_loses_its_partitions_and_can_be_created_again(opened: Opened) -> None:
    async with opened() as store:
        await put(store, topic("a", 3), topic("b"))
        await update(store, lambda _: Mutation(delete=("a",)))
        assert list(store.snapshot().topics) == ["b"]
        assert [each.name for each in store.snapshot().topics_by_id.values()] == ["b"]
        again = topic("a", 1)
        await put(store, again)
    async with opened() as store:
        assert store.snapshot().topics["a"] == again


async def test_a_topic_can_replace_one_with_its_name(opened: Opened) -> None:
    async with opened() as store:
        await put(store, topic("a", 3))
        other = topic("a", 2)
        after = await store.change(store.snapshot(), Mutation(delete=("a",), put=(other,)))
        assert after.topics == {"a": other}
        assert list(after.topics_by_id) == [other.topic_id]


async def test_an_empty_configuration_is_none(opened: Opened) -> None:
    async with opened() as store:
        await update(store, lambda _: Mutation(configs={EVERY_BROKER: {"log.retention.ms": "7"}}))
        after = await update(store, lambda _: Mutation(configs={EVERY_BROKER: {}}))
        assert dict(after.configs) == {}
        again = await update(store, lambda _: Mutation(configs={EVERY_BROKER: {}}))
        assert dict(again.configs) == {}


async def test_a_registered_broker_is_known_at_its_newest_address(opened: Opened) -> None:
    async with opened() as store:
        await store.register(BrokerState(1, "localhost", 9092, "a"))
        snapshot = await store.register(BrokerState(1, "localhost", 9093, "a"))
        assert [(each.node_id, each.host, each.port, each.rack) for each in snapshot.brokers] == [
            (1, "localhost", 9093, "a")
        ]


async def test_producer_ids_are_never_allocated_twice(opened: Opened) -> None:
    async with opened() as store:
        given = [*await store.allocate_producer_ids(), *await store.allocate_producer_ids(5)]
    async with opened() as store:
        given += await store.allocate_producer_ids()
    assert len(set(given)) == len(given) == 2_005


# -- what is compared -------------------------------------------------------------------------------------


async def test_changes_of_different_things_do_not_meet(opened: Opened) -> None:
    async with opened() as store:
        a, b = topic("a", 2), topic("b")
        basis = await put(store, a, b)
        zero, one = (next_epoch(each, isr=()) for each in a.partitions)
        for mutation in (
            Mutation(partitions={(a.topic_id, 0): zero}),
            Mutation(partitions={(a.topic_id, 1): one}),
            Mutation(put=(msgspec.structs.replace(a, configs={"retention.ms": "5"}),)),
            Mutation(put=(topic("c"),)),
            Mutation(delete=("b",)),
            Mutation(configs={EVERY_BROKER: {"log.retention.ms": "7"}}),
        ):
            await store.change(basis, mutation)  # Each was decided before all of the others.
        after = store.snapshot()
        assert after.topics["a"] == TopicState("a", a.topic_id, (zero, one), {"retention.ms": "5"})
        assert sorted(after.topics) == ["a", "c"]
        assert after.configs == {EVERY_BROKER: {"log.retention.ms": "7"}}


def partition_changed(basis: Snapshot, number: int) -> Mutation:
    state = basis.topics["a"].partitions[0]
    key = basis.topics["a"].topic_id, 0
    return Mutation(partitions={key: next_epoch(state, leader_epoch=state.leader_epoch + number)})


def partition_changed_with_its_topic(basis: Snapshot, number: int) -> Mutation:
    a = basis.topics["a"]
    states = (next_epoch(a.partitions[0], leader_epoch=number + 5), *a.partitions[1:])
    return Mutation(put=(msgspec.structs.replace(a, partitions=states),))


def settings_changed(basis: Snapshot, number: int) -> Mutation:
    return Mutation(put=(msgspec.structs.replace(basis.topics["a"], configs={"retention.ms": str(number)}),))


def partitions_added(basis: Snapshot, number: int) -> Mutation:
    a = basis.topics["a"]
    more = partitions_of([(9,)] * number, len(a.partitions))
    return Mutation(put=(msgspec.structs.replace(a, partitions=(*a.partitions, *more)),))


def many_partitions_added(basis: Snapshot, number: int) -> Mutation:
    return partitions_added(basis, 150 + number)


def created(basis: Snapshot, number: int) -> Mutation:
    return Mutation(put=(topic("new", number),))


def created_with_a_colliding_name(basis: Snapshot, number: int) -> Mutation:
    return Mutation(put=(topic("n.w" if number == 1 else "n_w"),))


def deleted(basis: Snapshot, number: int) -> Mutation:
    return Mutation(delete=("a",))


def configured(basis: Snapshot, number: int) -> Mutation:
    return Mutation(configs={EVERY_BROKER: {"log.retention.ms": str(number)}})


@pytest.mark.parametrize(
    "change",
    [
        partition_changed,
        partition_changed_with_its_topic,
        settings_changed,
        partitions_added,
        many_partitions_added,
        created,
        created_with_a_colliding_name,
        deleted,
        configured,
    ],
    ids=lambda change: change.__name__,
)
async def test_of_two_concurrent_changes_one_is_a_conflict(
    opened: Opened, change: Callable[[Snapshot, int], Mutation]
) -> None:
    async with opened() as store, opened_beside(opened, store) as other:
        basis = await put(store, topic("a", 2))
        await until(other, lambda now: "a" in now.topics)
        elsewhere = other.snapshot()
        after = await other.change(elsewhere, change(elsewhere, 1))
        with pytest.raises(MetadataConflict):
            await store.change(basis, change(basis, 2))
        now = store.snapshot()  # As new as what stood against it.
        assert (now.topics, now.configs) == (after.topics, after.configs)


@asynccontextmanager
async def opened_beside(opened: Opened, store: MetadataStore) -> AsyncIterator[MetadataStore]:
    """Give another broker's store of the same metadata; a broker alone is its own other."""
    if isinstance(store, EmbeddedMetadataStore):
        yield store
    else:
        async with opened() as other:
            yield other


async def until(store: MetadataStore, holds: Callable[[Snapshot], bool]) -> None:
    with trio.fail_after(10):
        while not holds(store.snapshot()):
            await trio.sleep(0.001)


async def test_a_change_of_a_deleted_topic_is_a_conflict(opened: Opened) -> None:
    async with opened() as store:
        basis = await put(store, topic("a", 2))
        await update(store, lambda _: Mutation(delete=("a",)))
        for change in (partition_changed, settings_changed, partitions_added, deleted):
            with pytest.raises(MetadataConflict):
                await store.change(basis, change(basis, 1))
        await put(store, topic("a", 2))  # Another one of the same name.
        for change in (partition_changed, settings_changed, partitions_added, deleted):
            with pytest.raises(MetadataConflict):
                await store.change(basis, change(basis, 1))


async def test_many_concurrent_changes_are_all_applied(opened: Opened) -> None:
    async with opened() as store, opened_beside(opened, store) as other:
        await put(store, topic("a"))
        await until(other, lambda now: "a" in now.topics)

        def decide(now: Snapshot) -> Mutation:
            (state,) = now.topics["a"].partitions
            key = now.topics["a"].topic_id, 0
            return Mutation(partitions={key: next_epoch(state, leader_epoch=state.leader_epoch + 1)})

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(update, store if number % 2 else other, decide)
        await until(store, lambda now: now.topics["a"].partitions[0].leader_epoch >= 40)
        (state,) = store.snapshot().topics["a"].partitions
        assert (state.leader_epoch, state.partition_epoch) == (40, 40)


# -- who is told ------------------------------------------------------------------------------------------


async def test_watchers_see_every_change_before_its_author(opened: Opened) -> None:
    async with opened() as store:
        told: list[tuple[Snapshot, Snapshot]] = []
        first = await put(store, topic("a"))
        unwatch = store.watch(lambda before, after: told.append((before, after)))
        second = await put(store, topic("b"))
        assert [(each.topics, later.topics) for each, later in told] == [(first.topics, second.topics)]
        assert told[-1][1] is store.snapshot()
        assert told[0][1].version > told[0][0].version
        unwatch()
        await put(store, topic("c"))
        assert len(told) == 1


async def test_an_error_of_one_watcher_is_logged_and_the_others_are_called(
    opened: Opened,
) -> None:
    def faulty(_before: Snapshot, _after: Snapshot) -> None:
        raise RuntimeError("a bug")

    async with opened() as store:
        seen: list[str] = []
        store.watch(faulty)
        store.watch(partial(faulty))
        store.watch(lambda _, after: seen.extend(after.topics))
        with structlog.testing.capture_logs() as logs:
            await put(store, topic("a"))
        assert seen == ["a"]
        failed = [each["watcher"] for each in logs if each["event"] == "a watcher of the metadata failed"]
        assert len(failed) == 2
        assert all(each.startswith(__name__) and each.endswith("faulty") for each in failed)
        assert "b" in (await put(store, topic("b"))).topics, "and the next change comes about"


async def test_unchanged_objects_are_the_same_object(opened: Opened) -> None:
    async with opened() as store:
        before = await put(store, topic("a", 3), topic("b"))
        after = await store.change(before, partition_changed(before, 1))
        assert after.topics["b"] is before.topics["b"]
        assert after.topics["a"].partitions[1] is before.topics["a"].partitions[1]
        assert after.topics["a"] is not before.topics["a"]


async def test_an_earlier_snapshot_never_changes(opened: Opened) -> None:
    async with opened() as store:
        before = await put(store, topic("a", 2))
        kept = dict(before.topics)
        before.memo["x"] = 1
        after = await store.change(before, partition_changed(before, 1))
        await update(store, lambda _: Mutation(delete=("a",)))
        assert before.topics == kept
        assert not after.memo
