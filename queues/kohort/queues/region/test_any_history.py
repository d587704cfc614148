"""Members die, hang and come back, partitions move, coordinators follow each other, messages are late.

All from one seed. At every checkpoint of any history the members' states together are what each record
before its offsets had once; and after the last fault the region gets through all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from kohort.queues.region import coordinating
from kohort.queues.region.coordinating import Coordinating, Region
from kohort.queues.region.entries import (
    Asked,
    Claim,
    Contribution,
    Entry,
    MemberState,
    Offsets,
    RegionState,
    decode,
    encode,
    key_of,
)
from kohort.queues.region.membership import Drain, LookUp, Membership, Poll, Propose, Restore, Seek, Stop
from kohort.queues.region.view import RegionView, next_command
from tests.repetitions import repetitions

REGION = Region("sums", members=3, period_ms=150, drain_timeout_ms=400, consecutive_resets_max=10_000)
PARTITIONS = {f"flights-{number}": 40 for number in range(4)}
STEPS = 1_500


class Participant:
    """Whoever reads the log and writes to it, both late."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.view = RegionView()
        self.position = 0
        self.written = 0  # The offset behind what it wrote last.
        self.outbox: list[Entry] = []

    def exchange(self) -> None:
        random, log = self.world.random, self.world.log
        for _ in range(random.randint(0, len(self.outbox))):
            self.written = self.world.write(self.outbox.pop(0)) + 1
        until = random.randint(self.position, len(log)) if random.random() < 0.5 else len(log)
        self.world.read(self.view, self.position, until)
        self.position = until


class Coordinator(Participant):
    """Claims, and decides as soon as it has read that."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        claim = Claim(f"c{world.random.random()}")
        world.write(claim)
        self.core = Coordinating(world.region, claim.token)

    def step(self) -> None:
        self.exchange()
        if self.outbox or self.position < self.written:
            return  # What it decided last is not read yet.
        if after := self.core.decide(self.view, self.world.now_ms, self.world.now_ms):
            self.outbox.append(after)


class Process(Participant):
    """A member: a consumer with its queue, and the sum of what it has processed."""

    def __init__(self, world: World, name: str, index: int = 0) -> None:
        super().__init__(world)
        self.name = name
        world.read(self.view, 0, len(world.log))
        self.position = len(world.log)
        before = self.view.reports.get(name)
        number = before.number + 1 if before else 1
        self.core = Membership(name, index, number, f"{name}-{world.random.random()}")
        self.is_joining = False
        self.queue: list[tuple[str, int]] = []
        self.positions: Offsets = {}
        self.noted: Offsets = {}
        self.sum = 0
        self.is_held = False
        self.is_stopped = False
        self.told = self.core.report
        self.outbox.append(self.told)

    def step(self) -> None:
        self.exchange()
        self.rejoin()
        if self.queue and not self.is_held and self.world.random.random() < 0.7:
            self.process()
        match self.core.next_action(self.view):
            case Stop():
                self.is_stopped = True
                return
            case Restore(attempt=attempt, sequence_id=sequence_id, saved=saved):
                self.restore(attempt, sequence_id, saved)
            case LookUp(topics=topics):
                self.core.looked_up(dict.fromkeys(topics, "id"))
            case Seek(offsets=offsets):
                self.positions.update(offsets)
                self.noted.update({p: at for p, at in offsets.items() if not self.core.has_read(p)})
                self.core.placed(offsets)
            case Propose(partitions=partitions):
                self.core.proposed(dict.fromkeys(partitions, self.world.random.randint(0, 1)))
            case Poll():
                self.poll()
            case Drain(sequence_id=sequence_id):
                self.drain(sequence_id)
        if self.core.report != self.told:
            self.told = self.core.report
            self.outbox.append(self.told)

    def rejoin(self) -> None:
        """Hear of a rebalance, late, and own nothing until its end."""
        world = self.world
        if world.random.random() < 0.6:
            return
        if self.is_joining:
            self.is_joining = False
            self.core.generation_id = world.generation_id
            self.core.become_assigned(each for each, owner in world.owners.items() if owner is self)
            if self.core.state is MemberState.RESET_PENDING:
                self.queue.clear()
        elif self.core.generation_id != world.generation_id:
            self.is_joining = True
            self.core.become_revoked(set(self.core.assigned))

    def restore(self, attempt: int, sequence_id: int, saved: str | None) -> None:
        self.queue.clear()
        self.is_held = False
        self.noted = {}
        self.sum = 0 if saved is None else self.world.saved[saved]
        self.core.restored(attempt)

    def poll(self) -> None:
        self.is_held = False
        for partition in sorted(self.positions.keys() & self.core.placed_partitions):
            first = self.positions[partition]
            last = min(self.world.ends[partition], first + self.world.random.randint(0, 3))
            self.queue += [(partition, offset) for offset in range(first, last)]
            self.positions[partition] = last
            if last > first:
                self.core.read({partition: last})

    def process(self) -> None:
        partition, offset = self.queue.pop(0)
        self.sum += value_of(partition, offset)
        self.noted[partition] = offset + 1

    def drain(self, sequence_id: int) -> None:
        """Save what was processed; what is queued is processed when the region goes on."""
        self.is_held = True
        if self.core.generation_id != self.world.generation_id:
            return  # The commit is refused, and made again when the group has settled.
        if self.world.random.random() < 0.05:
            self.core.want_reset(forced=False, reason="save raised")
            return
        saved = f"{sequence_id}/{self.core.token}/{len(self.world.saved)}"
        self.world.saved[saved] = self.sum
        offsets = {each: self.noted[each] for each in self.core.assigned}
        self.core.drained(sequence_id, self.core.generation_id, offsets, saved)


class World:
    """A region, its log, and the consumer group behind it."""

    def __init__(self, seed: int, region: Region = REGION) -> None:
        self.random = Random(seed)
        self.region = region
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes] | None] = []  # None: compaction has taken it.
        self.judge = RegionView()
        self.checked: list[RegionState] = []
        self.saved: dict[str, int] = {}
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.generation_id = 0
        self.owners: dict[str, Process] = {}
        self.hanging: list[Participant] = []
        self.open()

    def open(self) -> None:
        self.members = [Process(self, name) for name in ("a", "b", "c")]
        self.coordinator = Coordinator(self)
        self.rebalance()

    def write(self, entry: Entry) -> int:
        offset = len(self.log)
        key, value = key_of(entry), encode(entry)
        self.log.append((key, value))
        before = self.judge.state
        self.judge.take(offset, decode(key, value))
        after = self.judge.state
        if before is not None and after is not None:
            assert (after.attempt, after.completed) >= (before.attempt, before.completed), "it went back"
        if after is not None and after.completed != (before.completed if before else 0):
            self.check(after)
        return offset

    def read(self, view: RegionView, begin: int, end: int) -> None:
        for offset in range(begin, end):
            if entry := self.log[offset]:
                view.take(offset, decode(*entry))

    def check(self, state: RegionState) -> None:
        """Each record between the first offsets and the checkpoint's was counted once."""
        self.checked.append(state)
        offsets = {**state.initial, **state.offsets}
        wanted = sum(value_of(p, each) for p in offsets for each in range(state.initial[p], offsets[p]))
        found = sum(self.saved[each] for each in state.saved.values() if each)
        assert found == wanted, (state, found, wanted)

    def rebalance(self) -> None:
        self.generation_id += 1
        everybody = self.members + [each for each in self.hanging if isinstance(each, Process)][-1:]
        group = self.random.sample(everybody, self.random.randint(1, len(everybody)))
        self.owners = {each: self.random.choice(group) for each in PARTITIONS}

    def fault(self) -> None:
        chance = self.random.random()
        number = self.random.randrange(len(self.members))
        if chance < 0.006:
            if self.random.random() < 0.5:
                self.hanging = [*self.hanging, self.members[number]][-2:]
            self.members[number] = Process(self, self.members[number].name)
        elif chance < 0.012:
            if self.random.random() < 0.5:
                self.hanging = [*self.hanging, self.coordinator][-2:]
            self.coordinator = Coordinator(self)
        elif chance < 0.024:
            self.rebalance()
        elif chance < 0.028:
            asked = self.random.choice((Asked.CHECKPOINT, Asked.RESET))
            self.write(next_command(self.judge, asked))

    def run(self) -> None:
        for step in range(STEPS):
            self.now_ms += self.random.randint(0, 10)
            self.fault()
            for partition, most in PARTITIONS.items():
                self.ends[partition] = max(self.ends[partition], min(most, step * most // STEPS + 1))
            self.step([*self.members, *self.hanging, self.coordinator])
        self.ends = dict(PARTITIONS)
        self.hanging.clear()
        self.members = [
            Process(self, each.name) if isinstance(each, Process) and each.is_stopped else each
            for each in self.members
        ]
        self.generation_id += 1
        self.owners = {each: self.members[number % 3] for number, each in enumerate(PARTITIONS)}
        for _ in range(20 * STEPS):
            self.now_ms += 10
            self.step([*self.members, self.coordinator])
            if self.is_through():
                return

    def step(self, everybody: list[Participant]) -> None:
        who = self.random.choice(everybody)
        if who in self.hanging and self.random.random() < 0.8:
            return
        assert isinstance(who, Process | Coordinator)
        if not (isinstance(who, Process) and who.is_stopped):
            who.step()

    def is_through(self) -> bool:
        return self.judge.state is not None and self.judge.state.offsets == PARTITIONS


def value_of(partition: str, offset: int) -> int:
    """A value that tells records apart in a sum."""
    return Random(f"{partition} {offset}").randint(1, 10**9)


@pytest.mark.parametrize("seed", range(repetitions(40, by_night=3_000)))
def test_each_checkpoint_has_each_record_once(seed: int) -> None:
    world = World(seed)
    world.run()
    assert world.is_through(), world.judge.state


def test_the_histories_have_everything_in_them() -> None:
    worlds = [World(seed) for seed in range(10)]
    for world in worlds:
        world.run()
    assert all(len(world.checked) > 2 for world in worlds)
    assert any(world.judge.state and world.judge.state.attempt > 5 for world in worlds)
    reasons = " ".join(decoded.reason for world in worlds for decoded in states(world))
    for reason in ("registered again", "lost", "raised", "operator", "did not drain"):
        assert reason in reasons, reason


def states(world: World) -> list[RegionState]:
    decoded = [decode(*each) for each in world.log if each]
    return [each for each in decoded if isinstance(each, RegionState)]


def go_by_anybody(view: RegionView, state: RegionState) -> None:
    view.state = state


def restore_without_clearing(process: Process, attempt: int, sequence_id: int, saved: str | None) -> None:
    process.sum = 0 if saved is None else process.world.saved[saved]
    process.core.restored(attempt)


def restore_nothing(process: Process, attempt: int, sequence_id: int, saved: str | None) -> None:
    process.queue.clear()
    process.core.restored(attempt)


def ignore_revocation(core: Membership, partitions: set[str]) -> None:
    core.assigned -= partitions
    core._unplaced -= partitions


def place_at_the_checkpoint(core: Membership, partition: str) -> bool:
    return False


def merge_of_any_generation(parts: Sequence[Contribution]) -> Offsets:
    return {each: at for part in parts for each, at in part.offsets.items()}


MUTANTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "a coordinator that was replaced": (RegionView, "_take_state", go_by_anybody),
    "the queue is kept over a reset": (Process, "restore", restore_without_clearing),
    "the state is kept over a reset": (Process, "restore", restore_nothing),
    "a revocation is nothing": (Membership, "become_revoked", ignore_revocation),
    "what came back is processed from the checkpoint": (Membership, "has_read", place_at_the_checkpoint),
    "parts of two generations are a checkpoint": (coordinating, "merge", merge_of_any_generation),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    for seed in range(60):
        world = World(seed)
        try:
            world.run()
        except (AssertionError, KeyError):
            return
    pytest.fail(f"{name}: 60 histories did not notice")
