"""A controller over fifty brokers and ten thousand partitions: how a dead broker comes to lead nothing."""

from __future__ import annotations

import sys
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
import trio

from kohort.broker.cluster.duties import Duties
from kohort.broker.cluster.tenure import LeasedTenure
from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.controller import UsableBroker, place
from kohort.broker.etcd.client import EtcdClient
from kohort.broker.etcd.messages import Delete, Json, Put
from kohort.broker.metadata import BrokerState, MetadataConflict, Mutation, Snapshot, TopicState
from kohort.broker.metadata.etcd_layout import Keys, broker_value
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.metadata.membership import boot_time_ms
from kohort.broker.metadata.topic_plans import partitions_of, random_topic_id
from tests.cluster.etcd_process import EtcdProcess

BROKERS, TOPICS, PARTITIONS = 50, 100, 100
CONTROLLER, DEAD = 0, 7
SESSION_MS = 60_000


def broker(node_id: int) -> BrokerState:
    folder = UUID(int=node_id + 1)
    return BrokerState(
        node_id, "localhost", 9092, f"rack-{node_id % 5}", incarnation_id=uuid4(), directories=(folder,)
    )


def led_by(now: Snapshot, node_id: int) -> int:
    """Return how many partitions a broker leads."""
    return sum(each.leader == node_id for topic in now.topics.values() for each in topic.partitions)


async def see_to(duties: Duties, store: EtcdMetadataStore) -> None:
    """Do what a broker does at each change of the metadata."""
    while True:
        try:
            await duties.see_to(store.snapshot())
        except MetadataConflict:
            continue
        return


async def fill(store: EtcdMetadataStore, client: EtcdClient, keys: Keys) -> None:
    """Register the brokers, and create the topics."""
    await store.register(broker(CONTROLLER))
    for node_id in range(BROKERS):
        if node_id != CONTROLLER:
            await client.txn([], [Put(keys.broker(node_id), broker_value(broker(node_id)))])
    await store.until(lambda now: len(now.brokers) == BROKERS)
    usable = [UsableBroker(each.node_id, each.rack) for each in store.snapshot().brokers]
    placed = iter(place(usable, TOPICS * PARTITIONS, 3, Random(0).randrange))
    for number in range(TOPICS):
        partitions = partitions_of([next(placed) for _ in range(PARTITIONS)])
        topic = TopicState(f"topic-{number}", random_topic_id(), partitions)
        await store.change(store.snapshot(), Mutation(put=[topic]))


async def test_leadership_of_a_dead_broker_moves_in_a_few_transactions(
    shared_etcd: EtcdProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, tenure = uuid4().hex, LeasedTenure(CONTROLLER, SESSION_MS, boot_time_ms)
    keys = Keys(name)
    async with (
        EtcdClient([shared_etcd.url]) as client,
        EtcdClient([shared_etcd.url]) as other,
        trio.open_nursery() as nursery,
    ):
        store = await EtcdMetadataStore.connect(
            client, name, "c", session_timeout_ms=SESSION_MS, tenure=tenure
        )
        tenure.snapshot = store.snapshot
        nursery.start_soon(store.follow)
        await fill(store, other, keys)
        duties = Duties(store, CurrentConfig(BrokerConfig()), tenure.authority)
        await see_to(duties, store)  # It becomes the controller,
        await see_to(duties, store)  # and has nothing to change.
        before = led_by(store.snapshot(), DEAD)
        assert before >= TOPICS * PARTITIONS // BROKERS // 2
        topics = store.snapshot().topics.values()
        held = sum(DEAD in each.isr for topic in topics for each in topic.partitions)
        await other.txn([], [Delete(keys.broker(DEAD))])
        await store.until(lambda now: now.broker(DEAD) is None)
        asked: list[str] = []
        call = client.call

        async def counted(path: str, form: object, **more: Any) -> Json:
            asked.append(path)
            return await call(path, form, **more)

        monkeypatch.setattr(client, "call", counted)
        known = trio.current_time()
        await see_to(duties, store)
        seconds = trio.current_time() - known
        now = store.snapshot()
        sys.stdout.write(f"{before} leaderships moved {seconds:.3f} s after the death was known\n")
        assert led_by(now, DEAD) == 0
        for topic in now.topics.values():
            assert all(DEAD not in each.isr and each.leader in each.isr for each in topic.partitions)
        assert 0 < len(asked) <= held // 100 + 1, "a hundred partitions or more change at once"
        nursery.cancel_scope.cancel()
