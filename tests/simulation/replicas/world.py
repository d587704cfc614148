"""A broker that follows, from one seed: leaders come and go, settings change, replicas move, the disk fails.

Leaders are a list of records; all that is written here is real (`host`). What must hold: where a leader finds
no difference, the logs are the same; what the broker told a leader to be on its disk is there after any
crash, or the folder is another one; a log is offline only where something failed; at last it has caught up.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any
from uuid import UUID

import trio
from trio.testing import wait_all_tasks_blocked

from kohort.broker.metadata import Mutation, PartitionState, TopicState
from kohort.broker.partitions import Partition
from kohort.broker.partitions.test_support import FakeMetadata
from kohort.broker.runtime.clock import ManualClock
from kohort.protocol.records import build_batch
from kohort.storage import StorageError
from kohort.testing.simulation.disk import VirtualDisk
from kohort.testing.simulation.trio_process import order_from
from tests.left_open import goes_with_the_test
from tests.simulation.books import Violation
from tests.simulation.cluster.disk import Record
from tests.simulation.log_lines import log_lines
from tests.simulation.replicas.acts import CALM, STORM
from tests.simulation.replicas.fetching import fetch_once
from tests.simulation.replicas.host import NODE_ID, Host
from tests.simulation.replicas.ordeal import LAX, undergo
from tests.simulation.replicas.topic import Topic, records_of, values_in, values_of

LEADER = 2
FOLLOWED = ("a", "b", "c")
LED = ("led", "beside")
PAD_BYTES = (0, 0, 20, 150)
SETTINGS: tuple[dict[str, str], ...] = ({}, {}, {"flush.messages": "4"}, LAX, LAX | {"flush.ms": "200"})
SETTLE_STEPS = 4_000
DELICATE_STEPS = 12
UNNOTED_STEPS = 40
"""So soon after a disk failed a kill may come before the folder says that a sync has failed."""
RECORDS_MAX = 60
BURST_ROUNDS = 3
CALM_STEPS = 600
"""Of the second act, in which what fails is further apart."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run that went well amounted to."""

    injected: Counter[str]
    checked: Counter[str]
    trace_digest: str


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, steps: int, calm_steps: int = CALM_STEPS) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.steps = steps
        self.calm_steps = calm_steps
        self.act = STORM
        self.trace: list[str] = []
        self.injected: Counter[str] = Counter()
        self.checked: Counter[str] = Counter()
        self.clock = ManualClock()
        self.metadata = FakeMetadata()
        self.disk = VirtualDisk(self.random.randrange)
        goes_with_the_test(self.disk)
        self.topics: dict[str, Topic] = {}
        self._ids = 0
        self._values = 0
        self.acknowledged: dict[str, list[bytes]] = {name: [] for name in LED}
        self.host: Host
        self._nursery: trio.Nursery
        self._registered: UUID | None = None
        self._directory_id: UUID | None = None
        self._boot = 0
        self.is_failing = False
        self.step = 0
        self._failing_at = -UNNOTED_STEPS
        self.changed_at = -DELICATE_STEPS
        self.is_to_crash = False

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        self.trace.append(f"{self.step} {text}")

    def expect(self, rule: str, holds: bool, detail: object) -> None:
        """Count the rule. Raises: Violation."""
        self.checked[rule] += 1
        if not holds:
            raise Violation(f"{rule}: {detail}")

    def run(self) -> Outcome:
        """Let things go wrong, then let everything settle. Raises: Violation."""
        order = Random(self.random.getrandbits(32))
        try:
            with log_lines(self.note), order_from(order):
                trio.run(self._run)
        finally:
            self.disk.let_go()
        digest = sha256("\n".join(self.trace).encode()).hexdigest()
        return Outcome(self.injected, self.checked, digest)

    async def _run(self) -> None:
        for name in LED:
            state = PartitionState(0, NODE_ID, 0, (NODE_ID,), (NODE_ID,))
            self.metadata.apply(Mutation(put=(TopicState(name, self._new_id(), (state,), {}),)))
        for name in FOLLOWED:
            self.topics[name] = Topic(name, self._new_id())
            self._put(self.topics[name])
        await self._play(self.steps)
        self.act = CALM
        self.random.seed(f"{self.seed}: the second act")  # So that the first one is what it was without it.
        self.note("the second act")
        for _ in FOLLOWED:
            self._make_again()
        await self._play(self.calm_steps)

    async def _play(self, left: int) -> None:
        """Have so many steps, in one life after the other; then nothing goes wrong until all is settled."""
        while left > 0:
            left = await self._live(left)
        self.heal()
        for topic in self.topics.values():
            topic.is_here = True
            self._put(topic)
        await self._live(0)

    async def _live(self, left: int) -> int:
        """Have one life, and return how many steps are left behind it; without any, settle and end."""
        async with trio.open_nursery() as self._nursery:
            self._start()
            if not left:
                await self._settle()
            while left > 0:
                left -= 1
                if not await self._step():
                    break
            self._nursery.cancel_scope.cancel()
        if left <= 0:
            self._end(self.disk.lose_process)
        return left

    # -- lives ----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        was_failing = self.is_failing
        self.disk.heal()
        self.is_failing = False
        self.host = Host(self.disk.file_system, self.metadata, self.clock, self.random)
        self.host.begin(self._registered, f"boot {self._boot}")
        self._registered = self.host.life.incarnation_id
        is_same = self.host.life.directory_id == self._directory_id
        self._directory_id = self.host.life.directory_id
        self.note(f"a life begins; its folder is {'the same' if is_same else 'another'} {was_failing}")
        if not is_same:
            self._forget_what_was_lax()
        for topic in self.topics.values():
            topic.is_fetching = topic.may_be_offline = False
            topic.waits_since = 0
            if topic.is_here:
                self._check_told(topic)
        for name, values in self.acknowledged.items():
            partition = self.host.table.get(name, 0)
            assert partition is not None
            found = [value for value, _ in values_of(partition.log)]
            rule = "what was acknowledged survives"
            self.expect(rule, _is_within(values, found), f"{name}: {values[-5:]} {found[-5:]}")

    def _check_told(self, topic: Topic) -> None:
        partition = self.host.table.get(topic.name, 0)
        assert partition is not None
        found = records_of(partition.log)[: len(topic.told)]
        rule = "what a leader was told to be on the disk is there, or the folder is another one"
        self.expect(rule, found == topic.told, f"{topic.name}: {found[-5:]} of {topic.told[-5:]}")
        back = topic.gone & values_in(partition.log)
        self.expect("what was cut or removed stays away", not back, f"{topic.name}: {back}")

    def _end(self, lose: Any) -> None:
        self.host.die()
        lose(self.disk.operations)

    async def _crash(self) -> bool:
        """End this life, behind any operation of the last step."""
        kind = self.random.choice(("killed", "killed", "power", "power", "stop"))
        self.injected[kind] += 1
        self.note(kind)
        if kind == "stop":
            self.heal()
            while self.host.flusher.jobs or self.host.posted:
                self.host.work()
                self.host.run_posted()
            try:
                self.host.stop()
            except StorageError:
                self.note("the stop was not clean")
            self._boot += self.random.random() < 0.5
            self._end(self.disk.lose_power)
            return False
        if kind == "power":
            self._boot += 1
        elif self.step - self._failing_at < UNNOTED_STEPS:
            self._forget_what_was_lax()
        self._end(self.disk.lose_power if kind == "power" else self.disk.lose_process)
        return False

    def heal(self) -> None:
        """Let the disk and all logs work again."""
        if self.is_failing:
            self.note("the disk is well")
        self.disk.heal()
        self.host.unreadable = set()
        self.is_failing = False

    # -- steps ----------------------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Do one thing; return whether this life goes on."""
        self.step += 1
        act = self.act
        self.clock.advance(self.random.randrange(act.step_ms))
        is_delicate = self.step - self.changed_at < DELICATE_STEPS
        if self.is_to_crash or self.random.random() < (act.delicate_crashes if is_delicate else act.crashes):
            self.is_to_crash = False
            return await self._crash()
        actions: tuple[tuple[float, Callable[[], Awaitable[None] | None]], ...] = (
            (30, self._fetch),
            (18, self.host.round),
            (16, self.host.work),
            (14, self.produce_here),
            (8, self._produce_there),
            (act.elections, self._elect),
            (act.settings, self._configure),
            (act.moves, self._move),
            (act.topics_made_again, self._make_again),
            (act.failed_reads, self._fail_reads),
            (act.failed_reads_of_all, self._fail_reads_of_all),
            (act.failed_disks, self._fail_disk),
            (act.repairs, self.heal),
            (act.returns, self._bring_back),
            (act.bursts, self._burst),
            (act.ordeals, partial(undergo, self)),
        )
        [action] = self.random.choices([each for _, each in actions], [each for each, _ in actions])
        takes_longer = action()
        if takes_longer is not None:
            await takes_longer
        await wait_all_tasks_blocked()
        self.check_offline()
        self.look_at_life()
        return True

    async def _burst(self) -> None:
        """Let fetchers, the loop and the threads go on for a while."""
        for _ in range(BURST_ROUNDS):
            for action in (self._fetch, self._fetch, self.host.round, self.host.work):
                action()
                await wait_all_tasks_blocked()

    async def go_on(self, times: int, topic: Topic, step_ms: int = 0) -> None:
        """Let one follower, the loop and the threads go on, while so much time passes each time."""
        for _ in range(times):
            self.clock.advance(step_ms)
            for action in (partial(self.fetch_of, topic), self.host.round, self.host.work):
                action()
                await wait_all_tasks_blocked()

    def look_at_life(self) -> None:
        """Take over what has become of the folder."""
        if self.is_failing:
            self._failing_at = self.step
        if self.host.has_begun_anew:
            self.host.has_begun_anew = False
            self._forget_what_was_lax()
        self._directory_id = self.host.life.directory_id

    def _forget_what_was_lax(self) -> None:
        """Have other brokers count on nothing but what was synced: the folder is another one."""
        for topic in self.topics.values():
            topic.cut_told(topic.told_as_strict)
            topic.committed = min(topic.committed, len(topic.told))

    def check_offline(self) -> None:
        """See that logs are offline only where something failed."""
        for topic in self.topics.values():
            partition = self.partition(topic)
            if partition is None:
                continue
            if self.is_failing or topic.name in self.host.unreadable:
                topic.may_be_offline = True
            elif partition.offline is None and not self.host.flusher.busy:
                topic.may_be_offline = False
            holds = partition.offline is None or topic.may_be_offline
            self.expect("a log is offline only where something failed", holds, partition.offline)

    def _new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    def _topic(self) -> Topic:
        return self.topics[self.random.choice(FOLLOWED)]

    def partition(self, topic: Topic) -> Partition | None:
        """Return what this broker has of the topic now."""
        partition = self.host.table.peek(topic.name, 0)
        return partition if partition is not None and partition.topic_id == topic.topic_id else None

    def _put(self, topic: Topic) -> None:
        """Have the metadata say what a topic is."""
        replicas = (LEADER, NODE_ID) if topic.is_here else (LEADER, 3)
        state = PartitionState(0, LEADER, topic.leader_epoch, replicas, replicas)
        self.metadata.apply(
            Mutation(put=(TopicState(topic.name, topic.topic_id, (state,), dict(topic.settings)),))
        )

    def _produce_there(self) -> None:
        """Let a leader have more."""
        self.produce_to(self._topic())

    def check_fetching(self, topic: Topic) -> None:
        """See that the topic's follower does not wait, if it can be asked."""
        partition = self.partition(topic)
        if partition is None or partition.following is None or partition.serving_log is None:
            return
        holds = partition.following.next_fetch() is not None
        self.expect("a follower does not wait for a sync for ever", holds, topic.name)

    def produce_to(self, topic: Topic) -> None:
        """Let the topic's leader have more."""
        for _ in range(1 + self.random.randrange(3)):
            if topic.leader.log_end_offset < RECORDS_MAX:
                self._values += 1
                topic.leader.append(Record(topic.leader_epoch, self._values))

    def produce_here(self) -> None:
        """Write beside what is followed, so that the journal begins again and again."""
        name = self.random.choice(LED)
        partition = self.host.table.get(name, 0)
        if partition is None or partition.error_code is not None:
            return
        self._values += 1
        value = b"%d" % self._values + b"." * self.random.choice(PAD_BYTES)
        try:
            partition.append_own(build_batch([(0, None, value, ())]))
        except StorageError:
            return

        def done(error: StorageError | None) -> None:
            if error is None:
                self.acknowledged[name].append(value)

        self.host.flusher.request(partition, done)

    def _elect(self) -> None:
        """Let somebody else lead, who has what is committed, and perhaps more."""
        self.elect(self._topic())

    def elect(self, topic: Topic, lacks: int | None = None) -> None:
        """Let somebody else lead who has what is committed, and lacks so much of the rest; else any of it."""
        end_offset = topic.leader.log_end_offset
        if lacks is None:
            kept = self.random.randint(topic.committed, end_offset)
        else:
            kept = max(topic.committed, end_offset - lacks)
        topic.leader.truncate(kept)
        topic.cut_told(kept)
        topic.leader_epoch += 1
        topic.leader.assign_epoch(topic.leader_epoch)
        self.injected["leader elected"] += 1
        self.note(f"{topic.name}: epoch {topic.leader_epoch} begins at {kept}")
        self._put(topic)

    def _configure(self) -> None:
        topic = self._topic()
        self.configure(topic, self.random.choice(SETTINGS))

    def configure(self, topic: Topic, settings: dict[str, str]) -> None:
        """Change a topic's settings."""
        topic.settings = dict(settings)
        self.injected["settings changed"] += 1
        self.changed_at = self.step
        self.note(f"{topic.name}: {topic.settings}")
        self._put(topic)

    def _move(self) -> None:
        """Take the replica from this broker, or give it back."""
        self.move(self._topic())

    def _bring_back(self) -> None:
        for topic in self.topics.values():
            if not topic.is_here:
                self.move(topic)

    def move(self, topic: Topic) -> None:
        """Take a topic's replica from this broker, or give it back."""
        partition = self.partition(topic)
        if topic.is_here and partition is not None and partition.serving_log is not None:
            topic.left = values_in(partition.log)
        topic.is_here = not topic.is_here
        topic.cut_told(0)
        self.injected["replica moved"] += 1
        self.note(f"{topic.name}: {'back' if topic.is_here else 'moved away'}")
        self._put(topic)

    def _make_again(self) -> None:
        topic = self._topic()
        self.metadata.apply(Mutation(delete=(topic.name,)))
        self.topics[topic.name] = Topic(topic.name, self._new_id())
        self.injected["topic made again"] += 1
        self.note(f"{topic.name} is made again")
        self._put(self.topics[topic.name])

    def _fail_reads(self) -> None:
        """Let a read of a log fail: it is opened again."""
        self.fail_reads_of(self._topic())

    def fail_reads_of(self, topic: Topic) -> None:
        """Let a read of a log fail: it is opened again."""
        partition = self.partition(topic)
        if partition is not None and partition.serving_log is not None:
            self.injected["read failed"] += 1
            self.note(f"{topic.name}: a read fails")
            topic.may_be_offline = True
            partition.failed(StorageError(f"{topic.name}-0 cannot be read"))

    def _fail_reads_of_all(self) -> None:
        """Let reads of all logs fail at once; one of them stays as it is, and another is to be cut."""
        for topic in self.topics.values():
            self.fail_reads_of(topic)
        self.host.unreadable = {self._topic().name}
        self._elect()

    def _fail_disk(self) -> None:
        self.is_failing = True
        if self.random.random() < 0.5:
            self.injected["disk full"] += 1
            self.disk.fill(self.random.randrange(400))
        else:
            self.injected["sync failed"] += 1
            self.disk.fail_sync(self.random.randrange(4), 1 + self.random.randrange(3))
        self.note("the disk fails")

    # -- following ------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        self.fetch_of(self._topic())

    def fetch_of(self, topic: Topic) -> None:
        """Have a topic's follower ask its leader, unless it does."""
        if not topic.is_fetching:
            topic.is_fetching = True
            self._nursery.start_soon(fetch_once, self, topic)

    # -- the end --------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Let nothing go wrong any more, until all is caught up. Raises: Violation if that never is."""
        for number in range(SETTLE_STEPS):
            self.clock.advance(20)
            for action in (self._fetch, self.host.round, self.host.work):
                action()
                await wait_all_tasks_blocked()
            self.look_at_life()
            if number % 50 == 0 and not self._behind():
                break
        self.expect("in the end the follower has caught up", not self._behind(), self._behind())

    def _behind(self) -> list[str]:
        found = []
        for topic in self.topics.values():
            partition = self.partition(topic)
            has_all = (
                partition is not None
                and partition.serving_log is not None
                and records_of(partition.log) == topic.leader.records
            )
            if not has_all:
                found.append(f"{topic.name}: {partition and (partition.offline, partition.following)}")
        return found


def _is_within(values: list[bytes], found: list[bytes]) -> bool:
    """Whether all values are found, in their order; others may stand between them."""
    rest = iter(found)
    return all(value in rest for value in values)
