"""Changes of the metadata whose answers are lost: made, refused, or not known, and never taken for refused.

A member of etcd that stands still holds a transaction back, and carries it out when it goes on.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest
import trio

from kohort.broker.etcd.client import EtcdClient
from kohort.broker.metadata import (
    BrokerState,
    ChangeUnknown,
    ConfigResource,
    MetadataConflict,
    Mutation,
    ResourceType,
    Snapshot,
    TopicState,
    update,
)
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.metadata.topic_plans import partitions_of, random_topic_id
from tests.cluster.etcd_process import EtcdProcess

SETTINGS = ConfigResource(ResourceType.GROUP, "g")
MORE_SETTINGS = ConfigResource(ResourceType.GROUP, "h")
LIMIT_SECONDS = 20


class Holding(httpx.AsyncHTTPTransport):
    """The network: of the transactions that write, some get no answer, and are carried out later."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = 0
        """So many more are held back."""
        self.loses = 0
        """So many more are carried out at once, and not answered."""
        self.held: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        writes = request.url.path.endswith("/txn") and (
            b"request_put" in await request.aread() or b"request_delete_range" in await request.aread()
        )
        if writes and self.holds:
            self.holds -= 1
            self.held.append(request)
            raise httpx.ReadError("no answer")
        response = await super().handle_async_request(request)
        if writes and self.loses:
            self.loses -= 1
            await response.aread()
            raise httpx.ReadError("no answer")
        return response

    async def release(self) -> list[bool]:
        """Carry out what is held, and return which of it etcd has made."""
        held, self.held = self.held, []
        answers = []
        for each in held:
            response = await super().handle_async_request(each)
            answers.append(bool(msgspec.json.decode(await response.aread()).get("succeeded")))
        return answers


class Cluster:
    """The stores of one cluster: `store`, whose answers get lost, and `other`."""

    def __init__(self, network: Holding, store: EtcdMetadataStore, other: EtcdMetadataStore) -> None:
        self.network = network
        self.store = store
        self.other = other

    async def told(self, holds: Callable[[Snapshot], bool]) -> None:
        """Return once both have been told of that."""
        with trio.fail_after(LIMIT_SECONDS):
            for each in (self.store, self.other):
                await each.until(holds)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Cluster]:
    name, network = uuid4().hex, Holding()
    async with (
        EtcdClient([url], transport=network, call_seconds=0.5) as client,
        EtcdClient([url]) as other_client,
        trio.open_nursery() as nursery,
    ):
        store = await EtcdMetadataStore.connect(client, name, "c", heartbeat_ms=100)
        other = await EtcdMetadataStore.connect(other_client, name, "c", heartbeat_ms=100)
        for each in (store, other):
            nursery.start_soon(each.follow)
        yield Cluster(network, store, other)
        nursery.cancel_scope.cancel()


def broker(node_id: int, directory: int = 1) -> BrokerState:
    return BrokerState(node_id, "localhost", 9092, incarnation_id=uuid4(), directories=(UUID(int=directory),))


def topic(name: str, partitions: int = 1) -> TopicState:
    return TopicState(name, random_topic_id(), partitions_of([(1,)] * partitions))


def shrunk(now: Snapshot) -> Mutation:
    state = now.topics["a"].partitions[0]
    after = msgspec.structs.replace(state, isr=(), partition_epoch=state.partition_epoch + 1)
    return Mutation(partitions={(now.topics["a"].topic_id, 0): after})


def led_anew(now: Snapshot) -> Mutation:
    state = now.topics["a"].partitions[0]
    after = msgspec.structs.replace(
        state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
    )
    return Mutation(partitions={(now.topics["a"].topic_id, 0): after})


def grown(now: Snapshot) -> Mutation:
    a = now.topics["a"]
    more = partitions_of([(1,)] * 2, len(a.partitions))
    return Mutation(put=(msgspec.structs.replace(a, partitions=(*a.partitions, *more)),))


def deleted(now: Snapshot) -> Mutation:
    return Mutation(delete=("a",) if "a" in now.topics else ())


def set_up(now: Snapshot) -> Mutation:
    return Mutation(configs={SETTINGS: {"x": "1"}})


def created(now: Snapshot) -> Mutation:
    return Mutation(put=() if "new" in now.topics else (topic("new", 3),))


def created_with_many_partitions(now: Snapshot) -> Mutation:
    return Mutation(put=() if "new" in now.topics else (topic("new", 150),))


CHANGES = (shrunk, grown, deleted, set_up, created, created_with_many_partitions)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_delayed_change_is_made_once(
    shared_etcd: EtcdProcess, change: Callable[[Snapshot], Mutation]
) -> None:
    async with opened(shared_etcd.url) as cluster:
        await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        cluster.network.holds = 1
        after = await update(cluster.store, change)
        assert await cluster.network.release() == [False]
        await cluster.told(lambda now: (now.topics, now.configs) == (after.topics, after.configs))


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_with_a_lost_answer_is_made_once(
    shared_etcd: EtcdProcess, change: Callable[[Snapshot], Mutation]
) -> None:
    async with opened(shared_etcd.url) as cluster:
        await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        cluster.network.loses = 2
        after = await update(cluster.store, change)
        await cluster.told(lambda now: (now.topics, now.configs) == (after.topics, after.configs))
        for key, state in shrunk(after).partitions.items() if change is shrunk else ():
            assert state.partition_epoch == 2, key


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        (created, lambda now: Mutation(delete=("new",))),
        (created_with_many_partitions, lambda now: Mutation(delete=("new",))),
        (set_up, lambda now: Mutation(configs={SETTINGS: {}})),
    ],
)
async def test_a_late_request_does_not_restore_a_removed_topic(
    shared_etcd: EtcdProcess, change: Callable[[Snapshot], Mutation], undo: Callable[[Snapshot], Mutation]
) -> None:
    async with opened(shared_etcd.url) as cluster:
        before = cluster.store.snapshot()
        cluster.network.holds = 1
        made = await update(cluster.store, change)
        await cluster.told(lambda now: now.topics == made.topics)
        await cluster.other.change(cluster.other.snapshot(), undo(cluster.other.snapshot()))
        assert await cluster.network.release() == [False]
        last = await update(cluster.other, lambda _: Mutation(put=(topic("last"),)))
        assert (set(last.topics), last.configs) == ({"last", *before.topics}, before.configs)


@pytest.mark.parametrize("change", CHANGES)
async def test_without_an_answer_a_change_is_not_reported_as_refused(
    shared_etcd: EtcdProcess, change: Callable[[Snapshot], Mutation]
) -> None:
    async with opened(shared_etcd.url) as cluster:
        before = await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        cluster.network.holds = 1_000
        with pytest.raises(ChangeUnknown):
            await update(cluster.store, change)
        cluster.network.holds = 0
        assert any(await cluster.network.release())
        after = await update(cluster.other, lambda _: Mutation(put=(topic("last"),)))
        is_changed = (before.topics, before.configs) != (
            {name: each for name, each in after.topics.items() if name != "last"},
            after.configs,
        )
        assert is_changed == (
            change is not created_with_many_partitions
        )  # Its first hundred mean nothing yet.


async def test_a_change_with_a_lost_answer_is_known_as_made_after_a_later_one(
    shared_etcd: EtcdProcess,
) -> None:
    async with opened(shared_etcd.url) as cluster:
        before = await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        await cluster.told(lambda now: "a" in now.topics)
        overtaken: list[Snapshot] = []

        async def overtake() -> None:
            for _ in range(2):
                overtaken.append(await update(cluster.other, led_anew))

        with_others = _After(cluster.network, overtake)
        cluster.network.loses = 1
        after = await cluster.store.change(before, shrunk(before))
        assert with_others.has_run
        assert after.topics["a"].partitions[0].partition_epoch == 3
        assert overtaken[0].topics["a"].partitions[0].isr == ()


async def test_a_change_overtaken_by_another_is_refused(shared_etcd: EtcdProcess) -> None:
    async with opened(shared_etcd.url) as cluster:
        before = await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        await cluster.told(lambda now: "a" in now.topics)

        async def overtake() -> None:
            await update(cluster.other, led_anew)

        with_others = _After(cluster.network, overtake)
        cluster.network.holds = 1
        with pytest.raises(MetadataConflict):
            await cluster.store.change(before, shrunk(before))
        assert with_others.has_run
        assert await cluster.network.release() == [False]


def set_up_both(now: Snapshot) -> Mutation:
    return Mutation(configs={SETTINGS: {"x": "1"}, MORE_SETTINGS: {"y": "1"}})


def deleted_both(now: Snapshot) -> Mutation:
    return Mutation(delete=("a", "b"))


def led_anew_both(now: Snapshot) -> Mutation:
    b = now.topics["b"]
    (state,) = b.partitions
    after = msgspec.structs.replace(state, leader_epoch=1, partition_epoch=state.partition_epoch + 1)
    return Mutation(partitions={**led_anew(now).partitions, (b.topic_id, 0): after})


@pytest.mark.parametrize(
    ("change", "part"),
    [(set_up_both, set_up), (deleted_both, deleted), (led_anew_both, led_anew)],
    ids=["made", "deleted", "changed"],
)
async def test_a_change_overtaken_by_a_part_of_itself_is_refused(
    shared_etcd: EtcdProcess,
    change: Callable[[Snapshot], Mutation],
    part: Callable[[Snapshot], Mutation],
) -> None:
    async with opened(shared_etcd.url) as cluster:
        before = await update(cluster.store, lambda _: Mutation(put=(topic("a"), topic("b"))))
        await cluster.told(lambda now: "b" in now.topics)

        async def overtake() -> None:
            await update(cluster.other, part)

        with_others = _After(cluster.network, overtake)
        cluster.network.holds = 1
        with pytest.raises(MetadataConflict):
            await cluster.store.change(before, change(before))
        assert with_others.has_run
        assert await cluster.network.release() == [False]
        now = cluster.store.snapshot()
        assert MORE_SETTINGS not in now.configs
        assert now.topics["b"] == before.topics["b"]


@pytest.mark.parametrize("change", [shrunk, set_up, deleted, led_anew_both])
@pytest.mark.parametrize("is_registered", [True, False])
async def test_a_change_of_another_broker_is_not_taken_for_an_own_one(
    shared_etcd: EtcdProcess, change: Callable[[Snapshot], Mutation], is_registered: bool
) -> None:
    async with opened(shared_etcd.url) as cluster:
        if is_registered:
            await cluster.store.register(broker(1))
            await cluster.other.register(broker(2))
        before = await update(cluster.store, lambda _: Mutation(put=(topic("a"), topic("b"))))
        await cluster.told(lambda now: "b" in now.topics)

        async def overtake() -> None:
            await cluster.other.change(before, change(before))

        with_others = _After(cluster.network, overtake)
        cluster.network.holds = 1
        with pytest.raises(MetadataConflict):
            await cluster.store.change(before, change(before))
        assert with_others.has_run
        assert await cluster.network.release() == [False]


async def test_an_unknown_change_is_not_taken_for_the_next_one(shared_etcd: EtcdProcess) -> None:
    async with opened(shared_etcd.url) as cluster:
        await cluster.store.register(broker(1))
        await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        cluster.network.holds = 1_000
        with pytest.raises(ChangeUnknown):
            await cluster.store.change(cluster.store.snapshot(), set_up(cluster.store.snapshot()))
        cluster.network.holds = 0
        before = cluster.store.snapshot()
        unknown, cluster.network.held = cluster.network.held, []

        async def land() -> None:
            cluster.network.held, held = unknown[:1], cluster.network.held
            assert await cluster.network.release() == [True]
            cluster.network.held = held

        with_others = _After(cluster.network, land)
        cluster.network.loses = 1
        after = await cluster.store.change(before, shrunk(before))
        assert with_others.has_run
        assert after.topics["a"].partitions[0].isr == ()


@pytest.mark.parametrize("change", [shrunk, set_up, created])
async def test_a_removed_broker_does_not_take_a_lost_answer_for_a_refusal(
    shared_etcd: EtcdProcess, change: Callable[[Snapshot], Mutation]
) -> None:
    async with opened(shared_etcd.url) as cluster:
        await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        now = await cluster.store.register(broker(1))
        await cluster.told(lambda seen: seen.version >= now.version)
        own, mutation = now.broker(1), change(now)
        assert own is not None

        async def take_out() -> None:
            await cluster.other.expel(own)
            await cluster.other.forget_life(1)  # With what would tell that the change was made.

        after = _After(cluster.network, take_out)
        cluster.network.loses = 1
        with pytest.raises(ChangeUnknown):
            await cluster.store.change(now, mutation)
        assert after.has_run
        made = now.after(mutation)
        await cluster.told(lambda seen: (in_sync(seen), seen.configs) == (in_sync(made), made.configs))


def in_sync(now: Snapshot) -> dict[str, list[tuple[int, ...]]]:
    return {name: [tuple(each.isr) for each in topic.partitions] for name, topic in now.topics.items()}


class _After:
    """Lets something happen between a lost answer and what is asked next."""

    def __init__(self, network: Holding, happen: Callable[[], Awaitable[None]]) -> None:
        self.has_run = False
        self._network = network
        self._happen = happen
        self._handle = network.handle_async_request
        network.handle_async_request = self._look  # type: ignore[method-assign]

    async def _look(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._handle(request)
        except httpx.ReadError:
            if not self.has_run:
                self.has_run = True
                await self._happen()
            raise


# -- what compares brokers --------------------------------------------------------------------------------


async def test_a_broker_that_registered_again_does_not_join_by_an_old_proposal(
    shared_etcd: EtcdProcess,
) -> None:
    async with opened(shared_etcd.url) as cluster:
        await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        now = await cluster.other.register(broker(2))
        first = now.broker(2)
        assert first is not None
        await cluster.other.membership.leave()
        await cluster.told(lambda now: now.broker(2) is None)
        second = (await cluster.other.register(broker(2))).broker(2)
        assert second is not None
        await cluster.told(lambda now: now.broker(2) == second)
        now = cluster.store.snapshot()
        for epoch in (first.epoch, second.epoch + 1):
            with pytest.raises(MetadataConflict):
                await cluster.store.change(now, shrunk(now), broker_epochs={2: epoch})
        assert await cluster.store.change(now, shrunk(now), broker_epochs={2: second.epoch})


async def test_a_late_join_is_refused_after_the_joiner_left(shared_etcd: EtcdProcess) -> None:
    async with opened(shared_etcd.url) as cluster:
        now = await update(cluster.store, lambda _: Mutation(put=(topic("a"),)))
        joiner = (await cluster.other.register(broker(2))).broker(2)
        assert joiner is not None
        cluster.network.holds = 1_000
        with pytest.raises(ChangeUnknown):
            await cluster.store.change(now, shrunk(now), broker_epochs={2: joiner.epoch})
        cluster.network.holds = 0
        await cluster.other.membership.leave()
        assert not any(await cluster.network.release())


async def test_a_delayed_registration_does_not_overwrite_a_newer_one(
    shared_etcd: EtcdProcess,
) -> None:
    async with opened(shared_etcd.url) as cluster:
        own = broker(1)
        await cluster.store.register(own)
        cluster.network.holds = 1
        with pytest.raises(Exception, match="no answer"):
            await cluster.store.register(msgspec.structs.replace(own, is_draining=True))
        await cluster.store.register(own)
        assert await cluster.network.release() == [False]
        await cluster.store.register(msgspec.structs.replace(own, rack="r"))
        await cluster.told(
            lambda now: [(each.rack, each.is_draining) for each in now.brokers] == [("r", False)]
        )


async def test_a_registration_with_a_lost_answer_is_not_made_later(shared_etcd: EtcdProcess) -> None:
    async with opened(shared_etcd.url) as cluster:
        cluster.network.holds = 1
        with pytest.raises(Exception, match="no answer"):
            await cluster.store.register(broker(1))
        assert await cluster.network.release() == [False]  # Its lease is gone.
        assert (await cluster.store.register(broker(1))).broker(1)


async def test_a_life_is_not_forgotten_late(shared_etcd: EtcdProcess) -> None:
    async with opened(shared_etcd.url) as cluster:
        await cluster.other.register(broker(2))
        await cluster.other.membership.leave()
        cluster.network.holds = 1_000
        with pytest.raises(ChangeUnknown):
            await cluster.store.forget_life(2)
        cluster.network.holds = 0
        second = broker(2)
        await cluster.other.register(second)
        await cluster.other.membership.leave()
        assert not any(await cluster.network.release())
        assert await cluster.store.last_life(2) == second.incarnation_id


async def test_without_an_answer_the_controller_is_unknown(
    shared_etcd: EtcdProcess,
) -> None:
    async with opened(shared_etcd.url) as cluster:
        await cluster.store.register(broker(1))
        cluster.network.holds = 1
        with pytest.raises(ChangeUnknown):
            await cluster.store.become_controller(1)
        epoch = await cluster.store.become_controller(1)
        assert epoch is not None
        assert await cluster.network.release() == [False]
        await cluster.told(lambda now: (now.controller_id, now.controller_epoch) == (1, epoch))


async def test_a_broker_is_removed_although_an_answer_is_lost(shared_etcd: EtcdProcess) -> None:
    async with opened(shared_etcd.url) as cluster:
        one = (await cluster.other.register(broker(2))).broker(2)
        assert one is not None
        await cluster.told(lambda now: now.broker(2) == one)
        cluster.network.holds = 1
        assert (await cluster.store.expel(one)).broker(2) is None
        again = (await cluster.other.register(broker(2))).broker(2)
        assert await cluster.network.release() == [False]
        await cluster.told(lambda now: now.broker(2) == again)
