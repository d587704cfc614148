"""Clients and trackers that die, hang and are replaced at any step, from one seed.

After any history every record was acknowledged or is a dead letter, and none was handed out more often than
its limit. The tracker's and the records' own code decides; around it stands a model of a partition, its
markers, and what the two groups have committed.
"""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from kohort.client.values import ConsumerRecord, Headers
from kohort.queues.kmq.copies import (
    first_offset,
    headers_of_copy,
    headers_of_dead_letter,
    may_be_redelivered,
    redelivery_of,
)
from kohort.queues.kmq.markers import END, MarkerKey, Start, decode_key
from kohort.queues.kmq.queue import Queue
from kohort.queues.kmq.tracking import Permission, TrackedPartition
from tests.repetitions import repetitions

QUEUE = Queue("orders", message_timeout_ms=400, use_now_after_ms=100)
RECORDS = 12
STEPS = 1_500


class World:
    """One partition of a queue, and whoever works on it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.messages: list[ConsumerRecord] = []
        self.markers: list[ConsumerRecord] = []
        self.letters: list[ConsumerRecord] = []
        self.committed = 0
        self.markers_committed = 0
        self.generation = 0
        self.handed_out: Counter[int] = Counter()
        self.acknowledged: set[int] = set()
        self.calm = False
        for _ in range(RECORDS):
            self.append(())

    def append(self, headers: Headers) -> None:
        self.messages.append(ConsumerRecord("orders", 0, len(self.messages), 0, None, b"", headers))

    def mark(self, offset: int, value: Start | None) -> None:
        key, data = MarkerKey(0, offset).encode(), END if value is None else value.encode()
        self.markers.append(ConsumerRecord("m", 0, len(self.markers), self.now_ms, key, data))

    # Whoever takes records; a step ends at each yield, where it may die or be overtaken

    def client(self) -> Iterator[None]:
        self.generation += 1
        generation, position = self.generation, self.committed
        while True:
            batch = self.messages[position : position + self.random.randint(1, 4)]
            yield
            for record in batch:
                self.mark(record.offset, Start(QUEUE.message_timeout_ms))
                yield
            if generation != self.generation:
                return  # The commit is refused: somebody else reads on.
            position += len(batch)
            self.committed = position
            yield
            for record in batch:
                self.handed_out[first_offset(record)] += 1
                yield
                yield from self.work(record)

    def work(self, record: ConsumerRecord) -> Iterator[None]:
        fate = 1.0 if self.calm else self.random.random()
        if fate < 0.3:
            return
        if fate < 0.4:
            self.mark(record.offset, Start(0))
            return
        if fate < 0.5:
            self.mark(record.offset, Start(QUEUE.message_timeout_ms))
            yield
        if fate < 0.55:
            self.letters.append(
                ConsumerRecord("l", 0, 0, 0, None, b"", headers_of_dead_letter(record, "rejected"))
            )
            yield
        else:
            self.acknowledged.add(first_offset(record))
        self.mark(record.offset, None)

    # Whoever watches over them

    def tracker(self) -> Iterator[None]:
        state = TrackedPartition(0, QUEUE.use_now_after_ms)
        position = self.markers_committed
        state.begin_at(len(self.markers), self.committed)
        while True:
            state.take(self.markers[position : position + 5], self.now_ms)
            position = min(len(self.markers), position + 5)
            state.reach(position)
            yield
            if due := state.take_due(self.now_ms, 3):
                yield from self.redeliver(state, due)
            if state.wants_permission(self.now_ms):
                committed = self.committed
                yield
                state.permit(Permission(committed, len(self.markers)))
            self.markers_committed = state.needed_offset
            yield

    def redeliver(self, state: TrackedPartition, due: list[int]) -> Iterator[None]:
        suspects = state.suspects(due)
        before = {redelivery_of(each) for each in self.messages}.intersection(suspects)
        for offset in due:
            record = self.messages[offset]
            if offset not in before:
                if may_be_redelivered(record, QUEUE):
                    self.append(headers_of_copy(record, QUEUE))
                else:
                    headers = headers_of_dead_letter(record, "too often")
                    self.letters.append(ConsumerRecord("l", 0, 0, 0, None, b"", headers))
                if not self.calm and self.random.random() < 0.1:
                    state.give_back([offset])  # It was written, and the answer did not come.
                    yield
                    continue
            yield
            self.mark(offset, None)

    # Time

    def run(self) -> None:
        clients = [self.client()]
        tracker = self.tracker()
        for _ in range(STEPS):
            self.now_ms += self.random.randint(0, 30)
            chance = self.random.random()
            if chance < 0.01:
                clients = [*clients, self.client()][-2:]  # The old one hangs, and goes on later.
            elif chance < 0.02:
                clients = [self.client()]
            elif chance < 0.03:
                tracker = self.tracker()
            self.step(clients, tracker)
        self.calm = True
        clients = [self.client()]
        for _ in range(20 * STEPS):
            self.now_ms += 20
            self.step(clients, tracker)
            if self.is_settled():
                return

    def step(self, clients: list[Iterator[None]], tracker: Iterator[None]) -> None:
        if self.random.random() < 0.5:
            next(tracker)
        else:
            next(self.random.choice(clients), None)

    def is_settled(self) -> bool:
        return self.committed == len(self.messages) and self.markers_committed == len(self.markers)

    def dead(self) -> set[int]:
        found = set()
        for letter in self.letters:
            of = decode_key(letter.header("kmq-dead-letter-of"))
            found.add(first_offset(self.messages[of.offset]))
        return found


@pytest.mark.parametrize("seed", range(repetitions(100, by_night=5_000)))
def test_each_record_is_acknowledged_or_dead_and_never_comes_too_often(seed: int) -> None:
    world = World(seed)
    world.run()
    assert world.is_settled()
    assert world.acknowledged | world.dead() >= set(range(RECORDS))
    copies = Counter(redelivery_of(each) for each in world.messages)
    del copies[None]
    assert max(copies.values(), default=1) == 1, copies
    assert max(world.handed_out.values()) <= 1 + QUEUE.max_redelivery_count, world.handed_out


def test_the_histories_have_everything_in_them() -> None:
    worlds = [World(seed) for seed in range(20)]
    for world in worlds:
        world.run()
    assert any(world.dead() for world in worlds)
    assert any(len(world.messages) > RECORDS for world in worlds)
    assert any(max(world.handed_out.values()) == 1 + QUEUE.max_redelivery_count for world in worlds)
