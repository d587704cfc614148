"""A share partition, its members and the share coordinator, under a seed: disks fail, brokers die, locks end.

No record is two members' at once; what a member was told is accepted or rejected is never handed out again,
whoever dies; no delivery count grows past the limit; in the end everything is done with. Rules that are
broken on purpose have to be seen.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kohort.broker.config import BrokerConfig
from kohort.broker.config.group_settings import GroupSettings, group_settings
from kohort.broker.coordination import led_share_partition
from kohort.broker.coordination.led_share_partition import Done, LedSharePartition
from kohort.broker.coordination.share_state_shards import ShareStateShards
from kohort.broker.group.decision import Reply
from kohort.broker.group.share.partition import SharePartition, Words, Write
from kohort.broker.group.share.record import Acknowledgement, Batch, DeadRecords
from kohort.broker.partitions import Partition
from kohort.broker.runtime.timers import Timers
from kohort.broker.share_state.commands import InitializeState
from kohort.broker.share_state.coordinator import ShareStateConfig, ShareStateCoordinator
from kohort.broker.share_state.state import NO_EPOCH, TRIES, ShareKey
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.schema import Message

KEY = ShareKey("g", UUID(int=1), 0)
SETTINGS = {
    "share.record.lock.duration.ms": "1000",
    "share.delivery.count.limit": "3",
    "share.partition.max.record.locks": "100",
    "share.auto.offset.reset": "earliest",
}
LIMIT = 3
RECORDS = 60
STEPS = 600
MEMBERS = "abc"


class Violation(AssertionError):
    """A promise was broken."""


class States:
    """The share coordinator's shard on a disk that is a list: what is asked waits for the next flush."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.core = ShareStateCoordinator(ShareStateConfig(updates_per_snapshot=5))
        self.asked: deque[tuple[Any, Callable[[Message], None]]] = deque()
        self.late: list[Any] = []
        """What nobody waits for any more, and may be carried out at any time, or never."""
        self.is_down = False

    def ask(self, key: ShareKey, command: Callable[[int], Any], respond: Callable[[Message], None]) -> None:
        if self.is_down:
            respond(command(-1).refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self.asked.append((command(1), respond))

    def flush(self) -> None:
        """Carry out what was asked, and answer it."""
        answers: list[tuple[Callable[[Message], None], Message]] = []
        for command, respond in self.asked:
            decision = self.core.handle(command, 0)
            for record in decision.records:
                self.core.replay(record)
                self.log.append(record)
            answers += [(respond, each.message) for each in decision.effects if isinstance(each, Reply)]
        self.asked.clear()
        for respond, message in answers:
            respond(message)

    def land(self, random: Random) -> None:
        """Carry out something that comes late."""
        if self.late and not self.is_down:
            command = self.late.pop(random.randrange(len(self.late)))
            for record in self.core.handle(command, 0).records:
                self.core.replay(record)
                self.log.append(record)

    def fail(self, *, is_kept: bool, is_late: bool = False) -> None:
        """Be away for a while; what was asked is lost, or kept by one that could not say so any more.

        What is late may be carried out later, by a connection that stood still.
        """
        asked, self.asked = self.asked, deque()
        self.is_down = True
        self.late += [command for command, _ in asked] if is_late else []
        for command, _ in asked if is_kept else ():
            for record in self.core.handle(command, 0).records:
                self.core.replay(record)
                self.log.append(record)
        for command, respond in asked:
            respond(command.refused(ErrorCode.NOT_COORDINATOR))

    def die(self) -> None:
        """Go with the broker: nobody is answered."""
        self.late += [command for command, _ in self.asked]
        self.asked.clear()
        self.load()

    def load(self) -> None:
        """Come back with what the disk holds."""
        self.core = ShareStateCoordinator(self.core.config)
        for record in self.log:
            self.core.replay(record)
        self.is_down = False


def runs_of(told: dict[int, Acknowledgement]) -> list[tuple[int, int, tuple[Acknowledgement, ...]]]:
    """Return offsets beside each other as one run: with one word where it is the same for all."""
    runs: list[list[int]] = []
    for offset in sorted(told):
        if runs and runs[-1][-1] + 1 == offset:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    found = []
    for run in runs:
        kinds = tuple(told[offset] for offset in run)
        found.append((run[0], run[-1], kinds[:1] if len(set(kinds)) == 1 else kinds))
    return found


class World:
    """One partition of so many records in one group, and its members."""

    def __init__(self, seed: int, kind: type[LedSharePartition] = LedSharePartition) -> None:
        self.random = Random(seed)
        self.kind = kind
        self.now_ms = 0
        self.deaths = 0
        self.timers = Timers()
        self.states = States()
        self.settings: GroupSettings = group_settings(
            BrokerConfig(group_share_min_record_lock_duration_ms=1_000),
            {**SETTINGS, **({"errors.deadletterqueue.topic.name": "dlq.t"} if seed % 2 else {})},
        )
        self.dying: deque[tuple[LedSharePartition, DeadRecords]] = deque()
        self.letters: set[int] = set()
        self.rejected: set[int] = set()  # Of which a member was told that its word is kept.
        log = SimpleNamespace(log_start_offset=0)
        self.partition = SimpleNamespace(
            leader_epoch=0, high_watermark=RECORDS, last_stable_offset=RECORDS, log=log, topic="t", index=0
        )
        self.holders: dict[int, tuple[str, int]] = {}
        self.final: set[int] = set()  # Of which a member was told that it is kept.
        self.given_up: set[int] = set()
        self.deliveries: Counter[int] = Counter()
        self.states.ask(KEY, lambda request_id: InitializeState(request_id, KEY, 1, -1), lambda answer: None)
        self.states.flush()
        self.led = self.new_leader(NO_EPOCH)

    def new_leader(self, doubtful_epoch: int) -> LedSharePartition:
        clock = SimpleNamespace(now_ms=lambda: self.now_ms, wall_ms=lambda: self.now_ms)
        led = self.kind(
            KEY,
            cast(Partition, self.partition),
            cast(ShareStateShards, self.states),
            settings=lambda: self.settings,
            timers=self.timers,
            clock=clock,
            forget=lambda led: None,
            request_dead_letters=lambda led, dead: self.dying.append((led, dead)),
            doubtful_epoch=doubtful_epoch,
        )
        led.members.update(MEMBERS)
        led.load()
        return led

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
        for _ in range(2_000):
            if self.led.core is not None and self.led.core.start_offset == RECORDS:
                break
            self.now_ms += 200
            self.fire()
            self.states.load() if self.states.is_down else self.states.flush()
            self.states.land(self.random)
            if self.led.end_code is not None:
                self.begin_again()
            self.write_letters()
            self.acquire()
            for member in MEMBERS:
                self.acknowledge(member, (Acknowledgement.ACCEPT,))
        else:
            raise Violation("not everything is done with")
        lost = set(range(RECORDS)) - self.final - self.given_up
        if any(not self.deliveries[each] for each in lost):
            raise Violation("a record was never handed out")
        if self.led._settings().errors_deadletterqueue_topic_name and not self.rejected <= self.letters:
            raise Violation(f"{sorted(self.rejected - self.letters)} have no letters")

    def write_letters(self) -> None:
        while self.dying:
            led, dead = self.dying.popleft()
            self.letters.update(range(dead.first_offset, dead.last_offset + 1))
            led.dead_letters_written(dead, is_written=True)

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.3:
            self.acquire()
        elif choice < 0.55:
            self.acknowledge(self.random.choice(MEMBERS), tuple(Acknowledgement))
        elif choice < 0.8:
            self.states.flush()
        elif choice < 0.9:
            self.now_ms += self.random.randrange(400)
            self.fire()
        elif choice < 0.91:
            self.write_letters()
        elif choice < 0.93:
            self.leave(self.random.choice(MEMBERS))
        elif choice < 0.96:
            fate = self.random.random()
            self.states.fail(is_kept=fate < 0.3, is_late=fate > 0.6)
        elif choice < 0.97:
            self.states.land(self.random)
        elif choice < 0.985:
            if self.states.is_down:
                self.states.load()
        else:
            self.die()
        if self.led.end_code is not None:
            self.begin_again()

    def begin_again(self) -> None:
        """Let the same broker lead anew after it has given up: nobody has anything any more."""
        self.holders.clear()
        self.dying.clear()
        self.led = self.new_leader(self.led.doubtful_epoch)

    def fire(self) -> None:
        for offset in [each for each, (_, until_ms) in self.holders.items() if until_ms <= self.now_ms]:
            del self.holders[offset]
        self.timers.run_due(self.now_ms)

    def acquire(self) -> None:
        core = self.led.core
        if core is None:
            return
        first, member = core.next_fetch_offset(), self.random.choice(MEMBERS)
        last = min(first + self.random.randrange(8), RECORDS - 1)
        together = core.often_delivered(first)
        most = 100 if together is None else together
        for batch in self.led.acquire(member, first, last, most, often=together is not None):
            if batch.delivery_count > LIMIT:
                raise Violation(f"handed out {batch.delivery_count} times")
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if offset in self.holders:
                    raise Violation(f"{offset} is {self.holders[offset]}'s already")
                if offset in self.final or offset in self.letters:
                    raise Violation(f"{offset} is done with")
                self.deliveries[offset] += 1
                self.holders[offset] = member, self.now_ms + 1_000

    def acknowledge(self, member: str, kinds: tuple[Acknowledgement, ...]) -> None:
        mine = sorted(offset for offset, (holder, _) in self.holders.items() if holder == member)
        chosen = [each for each in mine if self.random.random() < 0.6]
        if not chosen or self.led.core is None:
            return
        told = {offset: self.random.choice(kinds) for offset in chosen}
        words = (
            runs_of(told) if self.random.random() < 0.5 else [(each, each, (told[each],)) for each in told]
        )

        def done(code: ErrorCode) -> None:
            for offset, kind in told.items():
                if code is ErrorCode.NONE and kind is not Acknowledgement.RENEW:
                    if kind is not Acknowledgement.RELEASE:
                        self.final.add(offset)
                    if kind is Acknowledgement.REJECT:
                        self.rejected.add(offset)
                    if self.holders.get(offset, ("", 0))[0] == member:
                        del self.holders[offset]

        try:
            self.led.acknowledge(member, words, done)
        except ApiError:
            for offset in chosen:  # One of them is not its own any more: a member that would not know.
                self.holders.pop(offset, None)
            self.forget_all_of(member)
            return
        for offset, kind in told.items():
            if kind is Acknowledgement.RENEW:
                self.holders[offset] = member, self.now_ms + 1_000

    def forget_all_of(self, member: str) -> None:
        self.led.release(member)
        self.led.members.add(member)
        for offset in [each for each, (holder, _) in self.holders.items() if holder == member]:
            del self.holders[offset]

    def leave(self, member: str) -> None:
        settling = self.led.core is not None and self.led._is_busy
        if not settling:  # What is being written stays its own until that is settled.
            self.forget_all_of(member)

    def die(self) -> None:
        self.deaths += 1
        self.timers = Timers()
        self.states.die()
        self.holders.clear()
        self.dying.clear()
        self.partition.leader_epoch += 1
        self.led = self.new_leader(NO_EPOCH)


SEEDS = range(60)


@pytest.mark.requirement("R32")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("attempts", [1, 100])
def test_a_record_is_acquired_by_one_member_at_a_time_and_completed_once(
    seed: int, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(led_share_partition, "ATTEMPTS_MAX", attempts)
    World(seed).run()


class Overtaking(LedSharePartition):
    """Writes what was said last before what waits for its turn."""

    def _write(self, write: Write, done: Done, *, is_settled: bool = True) -> None:
        super()._write(write, done, is_settled=is_settled)
        self._waiting.rotate(1)


class Hasty(LedSharePartition):
    """Tells a member that its word is kept before it is."""

    def acknowledge(self, member_id: str, words: Words, done: Done) -> None:
        super().acknowledge(member_id, words, lambda code: None)
        done(ErrorCode.NONE)


class Trusting(LedSharePartition):
    """Does not shut out what it wrote before."""

    def _again(self, action: Callable[[], None], code: ErrorCode) -> None:
        self.doubtful_epoch = NO_EPOCH
        self._state_epoch = self._state_epoch // TRIES * TRIES
        super()._again(action, code)


class Forgetful(LedSharePartition):
    """Forgets what it could not write at the first attempt."""

    def _submit(self) -> None:
        if not self._attempts:
            super()._submit()
            return
        for pending in self._waiting:
            self._settle((pending,), is_durable=True)
            pending.done(ErrorCode.NONE)
        self._waiting.clear()
        self._is_busy = False


class Generous(LedSharePartition):
    """Hands out again what is being written."""

    def _write(self, write: Write, done: Done, *, is_settled: bool = True) -> None:
        if not is_settled:
            core = cast(SharePartition, self.core)
            core.settle(Write(()), self._clock.now_ms(), is_durable=True)
            for batch in write.batches:
                for each in core._in_flight.between(batch.first_offset, batch.last_offset):
                    each.is_settling = False
        super()._write(write, done, is_settled=is_settled)


class Speechless(LedSharePartition):
    """Does not go on with the letters that whoever led before it did not come to."""

    def _begin(self, start_offset: int, batches: Sequence[Batch]) -> None:
        request, self._request_dead_letters = self._request_dead_letters, lambda led, dead: None
        super()._begin(start_offset, batches)
        self._request_dead_letters = request


@pytest.mark.parametrize("broken", [Overtaking, Hasty, Trusting, Forgetful, Generous, Speechless])
def test_a_rule_that_is_broken_is_seen(broken: type[LedSharePartition]) -> None:
    def is_seen(seed: int) -> bool:
        try:
            World(seed, broken).run()
        except (Violation, AssertionError, KeyError):
            return True
        return False

    assert any(map(is_seen, SEEDS))
