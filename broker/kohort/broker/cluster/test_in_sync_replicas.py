"""What a leader makes of the answers to its changes of the ISR: made, refused, or not known."""

from collections.abc import Mapping
from uuid import UUID

import pytest
import trio

from kohort.broker.cluster.in_sync_replicas import InSyncReplicas
from kohort.broker.metadata import (
    BrokerState,
    ChangeUnknown,
    MetadataConflict,
    Mutation,
    Snapshot,
    TopicState,
)
from kohort.broker.metadata.store import BrokerFenced, MetadataUnavailable
from kohort.broker.replication import Leadership
from kohort.broker.replication.test_leadership import World
from kohort.storage import StorageError

TOPIC_ID = UUID(int=7)
KEY = TOPIC_ID, 0


class Store:
    """Answers changes with what a test has put down, and knows who lives."""

    def __init__(self, leader: Leadership, *epochs: tuple[int, int]) -> None:
        self.answers: list[Exception | None] = []
        self.asked: list[tuple[Mutation, Mapping[int, int]]] = []
        self.epochs = dict(epochs)
        self._state = leader.state

    def snapshot(self) -> Snapshot:
        topic = TopicState("t", TOPIC_ID, (self._state,))
        brokers = tuple(BrokerState(each, "h", 1, epoch=epoch) for each, epoch in self.epochs.items())
        return Snapshot(1, "c", 1, brokers, {"t": topic}, {TOPIC_ID: topic})

    async def change(
        self, basis: Snapshot, mutation: Mutation, *, broker_epochs: Mapping[int, int]
    ) -> Snapshot:
        self.asked.append((mutation, broker_epochs))
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return self.snapshot()


async def asked(store: Store, leader: Leadership) -> None:
    """Look once."""
    parts = InSyncReplicas.__new__(InSyncReplicas)
    parts._store = store  # type: ignore[assignment]  # It has what is needed of one.
    assert leader.proposal is not None
    await parts._ask_for(trio.CapacityLimiter(1), KEY, leader, leader.proposal)


def about_to_join() -> World:
    """Broker 3 has all, and joins 1 and 2."""
    world = World(isr=(1, 2), end_offset=10)
    world.fetch(2, 10)
    world.fetch(3, 10)
    assert world.leader.propose(world.now_ms) is not None
    return world


@pytest.mark.parametrize(
    "answer", [ChangeUnknown("lost"), MetadataUnavailable("away"), BrokerFenced("gone"), StorageError("full")]
)
async def test_an_isr_proposal_without_a_known_refusal_is_kept_and_sent_again(answer: Exception) -> None:
    world = about_to_join()
    store = Store(world.leader, (3, 300))
    proposal = world.leader.proposal
    store.answers = [answer, answer]
    for _ in range(2):
        await asked(store, world.leader)
    assert world.leader.proposal is proposal
    assert store.asked == [store.asked[0]] * 2
    world.now_ms += 60_000  # Broker 3 is silent by now.
    world.append(5)
    world.fetch(2, 15)
    assert world.high_watermark == 10, "broker 3 may be in sync, and lacks the rest"
    store.answers = [MetadataConflict("refused")]
    await asked(store, world.leader)
    world.fetch(2, 15)
    assert (world.leader.proposal, world.high_watermark) == (None, 15)


async def test_a_joiner_is_compared_by_the_broker_epoch_of_its_fetches() -> None:
    world = about_to_join()
    store = Store(world.leader, (3, 300))
    store.answers = [None]
    await asked(store, world.leader)
    assert [dict(epochs) for _, epochs in store.asked] == [{3: 300}]


@pytest.mark.parametrize("epochs", [(), ((3, 301),)])
async def test_no_proposal_is_sent_for_a_joiner_that_left_or_restarted(
    epochs: tuple[tuple[int, int], ...],
) -> None:
    world = about_to_join()
    store = Store(world.leader, *epochs)
    await asked(store, world.leader)
    assert (world.leader.proposal, store.asked) == (None, [])
