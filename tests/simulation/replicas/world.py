"""A broker that follows, from one seed: leaders come and go, settings change, replicas move, the disk fails.

Leaders are a list of records; all that is written here is real (`host`). What must hold: where a leader finds
no difference, the logs are the same; what the broker told a leader to be on its disk is there after any
crash, or the folder is another one; a log is offline only where something failed; at last it has caught up.
"""

from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any, cast
from uuid import UUID

import trio
from trio.testing import wait_all_tasks_blocked

from kohort.broker.metadata import Mutation, PartitionState, TopicState
from kohort.broker.partitions import Partition
from kohort.broker.partitions.test_support import FakeMetadata
from kohort.broker.replication import Diverging
from kohort.broker.replication.replica_fetch import answer_to
from kohort.broker.runtime.clock import ManualClock
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import build_batch, iterate_records, read_header
from kohort.storage import PartitionLog, StorageError
from tests.simulation.books import Violation
from tests.simulation.cluster.disk import MemoryLog, Record
from tests.simulation.disk import VirtualDisk
from tests.simulation.log_lines import log_lines
from tests.simulation.replicas.host import NODE_ID, Host

LEADER = 2
FOLLOWED = ("a", "b", "c")
LED = ("led", "beside")
PAD_BYTES = (0, 0, 20, 150)
LAX = {"flush.messages": "1000"}
SETTINGS: tuple[dict[str, str], ...] = ({}, {}, {"flush.messages": "4"}, LAX, LAX | {"flush.ms": "200"})
FETCHED_MAX = 3
SETTLE_STEPS = 4_000
CRASHES, DELICATE_CRASHES = 0.006, 0.05
"""How often the broker dies; oftener for so many steps behind a cut, and behind a change of settings."""
DELICATE_STEPS = 12
WAITING_STEPS = 120
UNNOTED_STEPS = 40
"""So soon after a disk failed a kill may come before the folder says that a sync has failed."""
RECORDS_MAX = 60


@dataclass(slots=True)
class Topic:
    """A topic of one partition: what its leaders have, and what this broker told them it has on its disk."""

    name: str
    topic_id: UUID
    leader: MemoryLog = field(default_factory=MemoryLog)
    leader_epoch: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    is_here: bool = True
    told: list[Record] = field(default_factory=list)
    told_as_strict: int = 0
    committed: int = 0
    is_fetching: bool = False
    may_be_offline: bool = False
    waits_since: int = 0

    def cut_told(self, offset: int) -> None:
        del self.told[offset:]
        self.told_as_strict = min(self.told_as_strict, offset)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run that went well amounted to."""

    injected: Counter[str]
    checked: Counter[str]
    trace_digest: str


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = Random(seed)
        self.steps = steps
        self.trace: list[str] = []
        self.injected: Counter[str] = Counter()
        self.checked: Counter[str] = Counter()
        self.clock = ManualClock()
        self.metadata = FakeMetadata()
        self.disk = VirtualDisk(self.random.randrange)
        self.topics: dict[str, Topic] = {}
        self._ids = 0
        self._values = 0
        self.acknowledged: dict[str, list[bytes]] = {name: [] for name in LED}
        self.host: Host
        self._nursery: trio.Nursery
        self._registered: UUID | None = None
        self._directory_id: UUID | None = None
        self._boot = 0
        self._is_failing = False
        self._before = 0
        self._failing_at = -UNNOTED_STEPS
        self._changed_at = -DELICATE_STEPS

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        self.trace.append(f"{self._before} {text}")

    def expect(self, rule: str, holds: bool, detail: object) -> None:
        """Count the rule. Raises: Violation."""
        self.checked[rule] += 1
        if not holds:
            raise Violation(f"{rule}: {detail}")

    def run(self) -> Outcome:
        """Let things go wrong, then let everything settle. Raises: Violation."""
        runner = cast(Any, trio)._core._run
        runner._ALLOW_DETERMINISTIC_SCHEDULING, before = True, runner._ALLOW_DETERMINISTIC_SCHEDULING
        runner._r = Random(self.random.getrandbits(32))
        try:
            with log_lines(self.note):
                trio.run(self._run)
        finally:
            runner._ALLOW_DETERMINISTIC_SCHEDULING = before
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
        left = self.steps
        while left > 0:
            left = await self._live(left)
        self._heal()
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
        was_failing = self._is_failing
        self.disk.heal()
        self._is_failing = False
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
            found = [value for value, _ in _values_of(partition.log)]
            rule = "what was acknowledged survives"
            self.expect(rule, _is_within(values, found), f"{name}: {values[-5:]} {found[-5:]}")

    def _check_told(self, topic: Topic) -> None:
        partition = self.host.table.get(topic.name, 0)
        assert partition is not None
        found = _records_of(partition.log)[: len(topic.told)]
        rule = "what a leader was told to be on the disk is there, or the folder is another one"
        self.expect(rule, found == topic.told, f"{topic.name}: {found[-5:]} of {topic.told[-5:]}")

    def _end(self, lose: Any) -> None:
        self.host.die()
        lose(self.disk.operations)

    async def _crash(self) -> bool:
        """End this life, behind any operation of the last step."""
        kind = self.random.choice(("killed", "killed", "power", "power", "stop"))
        self.injected[kind] += 1
        self.note(kind)
        if kind == "stop":
            self._heal()
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
        elif self._before - self._failing_at < UNNOTED_STEPS:
            self._forget_what_was_lax()
        self._end(self.disk.lose_power if kind == "power" else self.disk.lose_process)
        return False

    def _heal(self) -> None:
        if self._is_failing:
            self.note("the disk is well")
        self.disk.heal()
        self.host.unreadable = set()
        self._is_failing = False

    # -- steps ----------------------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Do one thing; return whether this life goes on."""
        self._before += 1
        self.clock.advance(self.random.randrange(20))
        is_delicate = self._before - self._changed_at < DELICATE_STEPS
        if self.random.random() < (DELICATE_CRASHES if is_delicate else CRASHES):
            return await self._crash()
        actions = (
            (30, self._fetch),
            (18, self.host.round),
            (16, self.host.work),
            (14, self._produce_here),
            (8, self._produce_there),
            (2, self._elect),
            (2, self._configure),
            (1, self._move),
            (0.3, self._make_again),
            (1, self._fail_reads),
            (0.7, self._fail_reads_of_all),
            (1, self._fail_disk),
            (2, self._heal),
        )
        [action] = self.random.choices([each for _, each in actions], [each for each, _ in actions])
        action()
        await wait_all_tasks_blocked()
        self._check_offline()
        self._look_at_life()
        return True

    def _look_at_life(self) -> None:
        if self._is_failing:
            self._failing_at = self._before
        if self.host.has_begun_anew:
            self.host.has_begun_anew = False
            self._forget_what_was_lax()
        self._directory_id = self.host.life.directory_id

    def _forget_what_was_lax(self) -> None:
        """Have other brokers count on nothing but what was synced: the folder is another one."""
        for topic in self.topics.values():
            topic.cut_told(topic.told_as_strict)
            topic.committed = min(topic.committed, len(topic.told))

    def _check_offline(self) -> None:
        for topic in self.topics.values():
            partition = self._partition(topic)
            if partition is None:
                continue
            if self._is_failing or topic.name in self.host.unreadable:
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

    def _partition(self, topic: Topic) -> Partition | None:
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
        topic = self._topic()
        for _ in range(1 + self.random.randrange(3)):
            if topic.leader.log_end_offset < RECORDS_MAX:
                self._values += 1
                topic.leader.append(Record(topic.leader_epoch, self._values))

    def _produce_here(self) -> None:
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
        topic = self._topic()
        kept = self.random.randint(topic.committed, topic.leader.log_end_offset)
        topic.leader.truncate(kept)
        topic.cut_told(kept)
        topic.leader_epoch += 1
        topic.leader.assign_epoch(topic.leader_epoch)
        self.injected["leader elected"] += 1
        self.note(f"{topic.name}: epoch {topic.leader_epoch} begins at {kept}")
        self._put(topic)

    def _configure(self) -> None:
        topic = self._topic()
        topic.settings = dict(self.random.choice(SETTINGS))
        self.injected["settings changed"] += 1
        self._changed_at = self._before
        self.note(f"{topic.name}: {topic.settings}")
        self._put(topic)

    def _move(self) -> None:
        """Take the replica from this broker, or give it back."""
        topic = self._topic()
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
        self._fail_reads_of(self._topic())

    def _fail_reads_of(self, topic: Topic) -> None:
        partition = self._partition(topic)
        if partition is not None and partition.serving_log is not None:
            self.injected["read failed"] += 1
            self.note(f"{topic.name}: a read fails")
            topic.may_be_offline = True
            partition.failed(StorageError(f"{topic.name}-0 cannot be read"))

    def _fail_reads_of_all(self) -> None:
        """Let reads of all logs fail at once; one of them stays as it is, and another is to be cut."""
        for topic in self.topics.values():
            self._fail_reads_of(topic)
        self.host.unreadable = {self._topic().name}
        self._elect()

    def _fail_disk(self) -> None:
        self._is_failing = True
        if self.random.random() < 0.5:
            self.injected["disk full"] += 1
            self.disk.fill(self.random.randrange(400))
        else:
            self.injected["sync failed"] += 1
            self.disk.fail_sync(self.random.randrange(4), 1 + self.random.randrange(3))
        self.note("the disk fails")

    # -- following ------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        topic = self._topic()
        if not topic.is_fetching:
            topic.is_fetching = True
            self._nursery.start_soon(self._fetch_once, topic)

    async def _fetch_once(self, topic: Topic) -> None:
        """Do what a fetcher does, and what its leader does."""
        try:
            await self._ask(topic)
        except StorageError as error:
            self.note(f"{topic.name}: {error}")
        finally:
            topic.is_fetching = False

    async def _ask(self, topic: Topic) -> None:
        partition = self._partition(topic)
        if partition is None or partition.following is None or partition.serving_log is None:
            return
        following, host = partition.following, self.host
        at = following.next_fetch()
        if at is None:
            host.appending.sync_what_is_waited_for(partition)
            topic.waits_since = topic.waits_since or self._before
            waited = self._before - topic.waits_since
            self.expect("a follower does not wait for a sync for ever", waited < WAITING_STEPS, topic.name)
            return
        topic.waits_since = 0
        if at.leader_epoch != topic.leader_epoch:
            return
        refused = answer_to(at, cast(Any, topic.leader))
        if isinstance(refused, Diverging):
            await host.appending.cut(partition, following, following.diverged(refused))
            self._changed_at = self._before
            return
        if refused is ErrorCode.OFFSET_OUT_OF_RANGE:
            cut = following.out_of_range(0, topic.leader.log_end_offset)
            if cut is not None:
                await host.appending.cut(partition, following, cut)
            return
        assert refused is None, refused
        self._tell(topic, partition, at.offset)
        following.answered(topic.committed, 0)
        records = _batches(topic.leader, at.offset)
        if records and await host.appending.append(partition, following, records):
            await host.appending.flush([partition])

    def _tell(self, topic: Topic, partition: Partition, offset: int) -> None:
        """See a leader find no difference before this offset."""
        found, known = _records_of(partition.log)[:offset], topic.leader.records[:offset]
        self.expect(
            "where a leader finds no difference the logs are the same",
            found == known,
            f"{topic.name}: {found[-5:]} {known[-5:]}",
        )
        if offset >= len(topic.told):
            topic.told = list(known)
            topic.committed = max(topic.committed, self.random.randint(0, offset))
        if partition.durable:
            topic.told_as_strict = max(topic.told_as_strict, offset)

    # -- the end --------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Let nothing go wrong any more, until all is caught up. Raises: Violation if that never is."""
        for number in range(SETTLE_STEPS):
            self.clock.advance(20)
            for action in (self._fetch, self.host.round, self.host.work):
                action()
                await wait_all_tasks_blocked()
            self._look_at_life()
            if number % 50 == 0 and not self._behind():
                break
        self.expect("in the end the follower has caught up", not self._behind(), self._behind())

    def _behind(self) -> list[str]:
        found = []
        for topic in self.topics.values():
            partition = self._partition(topic)
            has_all = (
                partition is not None
                and partition.serving_log is not None
                and _records_of(partition.log) == topic.leader.records
            )
            if not has_all:
                found.append(f"{topic.name}: {partition and (partition.offline, partition.following)}")
        return found


def _values_of(log: PartitionLog) -> list[tuple[bytes, int]]:
    """Return all values with their leader epochs."""
    return [
        (record.value or b"", read_header(batch).partition_leader_epoch)
        for batch in log.read_batches()
        for record in iterate_records(batch)
    ]


def _records_of(log: PartitionLog) -> list[Record]:
    return [Record(epoch, int(value.rstrip(b"."))) for value, epoch in _values_of(log)]


def _batches(leader: MemoryLog, offset: int) -> bytes:
    """Return what a leader gives from there on, a batch for each record."""
    found = bytearray()
    for place, record in enumerate(leader.records[offset : offset + FETCHED_MAX], offset):
        assert isinstance(record.value, int)
        batch = bytearray(build_batch([(0, None, b"%d" % record.value, ())]))
        batch[:8] = place.to_bytes(8, "big")
        batch[12:16] = record.epoch.to_bytes(4, "big")
        found += batch
    return bytes(found)


def _is_within(values: list[bytes], found: list[bytes]) -> bool:
    """Whether all values are found, in their order; others may stand between them."""
    rest = iter(found)
    return all(value in rest for value in values)
