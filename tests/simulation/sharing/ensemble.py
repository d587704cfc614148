"""Who uses share groups in a run: members of several groups, and what befalls them."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol
from uuid import UUID

from kohort.broker.coordination.dead_letter_records import (
    GROUP_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    TOPIC_HEADER,
)
from kohort.broker.coordination.shard import ShardState
from kohort.broker.metadata import (
    SHARE_STATE_TOPIC,
    ConfigResource,
    Mutation,
    ResourceType,
    TopicState,
)
from kohort.broker.share_state.state import ShareKey
from kohort.protocol.records import iterate_records
from kohort.testing.simulation.disk import VirtualDisk
from tests.simulation.books import Books
from tests.simulation.fault_steps import FaultSteps
from tests.simulation.metadata import Metadata, places
from tests.simulation.network import Host, Link
from tests.simulation.schedule import Action, Schedule
from tests.simulation.server import Server
from tests.simulation.sharing.ledger import Rules, SharingLedger
from tests.simulation.sharing.sharer import Sharer
from tests.simulation.transactions.ensemble import COUNTED, SHORTENED, TOPICS
from tests.simulation.transactions.ledger import Ledger, Place
from tests.simulation.transactions.truth import shown

SHARDS = 2
REST_MS_MAX = 30_000
HOLD_MS_MAX = 8_000
SLOW_DISK_MS = 1_000
LOOK_MS = 500
DONE_MS_MAX = 300_000
LETTERS = "dlq.letters"


@dataclass(frozen=True, slots=True)
class Plan:
    """A group, what it reads, and its settings."""

    group_id: str
    topics: tuple[str, ...]
    rules: Rules

    @property
    def settings(self) -> dict[str, str]:
        """The settings that differ from the defaults."""
        rules = self.rules
        return {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": str(rules.delivery_count_limit),
            "share.record.lock.duration.ms": str(rules.lock_ms),
            "share.isolation.level": "read_committed" if rules.is_committed else "read_uncommitted",
            "share.partition.max.record.locks": "100",
            **({"errors.deadletterqueue.topic.name": rules.dead_letters} if rules.dead_letters else {}),
        }


PLANS = (
    Plan("s0", (COUNTED, SHORTENED), Rules(3, 2_000, is_committed=True, dead_letters=LETTERS)),
    Plan("s1", (COUNTED,), Rules(5, 1_000, is_committed=False, dead_letters="")),
)


class World(Protocol):
    """What this has to do with."""

    schedule: Schedule
    books: Books
    metadata: Metadata
    disk: VirtualDisk
    server: Server | None

    def connect(self, host: Host, client_id: str, on_closed: Action) -> Link | None:
        """Return a connection to the broker, None where there is none to be had."""
        ...

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        ...


class SharingEnsemble:
    """All of them, moved by a random of their own."""

    def __init__(self, world: World, random: Random, members: int, transactions: Ledger) -> None:
        self.ledger = SharingLedger(world.books, transactions, world.schedule.now_ms)
        self.ledger.rules = {plan.group_id: plan.rules for plan in PLANS}
        self._world = world
        self._random = random
        self._serial = 0
        self._wanted = members
        self._sharers: list[Sharer] = []
        self._is_calm = False
        faults = [
            (5, self._kill),
            (3, self._leave),
            (5, self._rest),
            (5, self._hold),
            (5, self._lose_connection),
            (3, self._cut),
            (3, self._drop_shard),
        ]
        self._fault_steps = FaultSteps(world.schedule, random, faults)

    def states(self) -> list[TopicState]:
        """Return what the metadata begin with."""
        letters = {"errors.deadletterqueue.group.enable": "true"}
        return [
            TopicState(SHARE_STATE_TOPIC, UUID(int=97), places(SHARDS), {}),
            TopicState(LETTERS, UUID(int=96), places(1), letters),
        ]

    def configure(self, metadata: Metadata) -> None:
        """Give the groups their settings."""
        configs = {ConfigResource(ResourceType.GROUP, plan.group_id): plan.settings for plan in PLANS}
        metadata.apply(Mutation(configs=configs))

    # -- their life -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Act from now on."""
        self._replace_the_dead()
        self._fault_steps.later(self._step)

    def _replace_the_dead(self) -> None:
        """Have as many members as wanted, in each group by turns."""
        self._sharers = [each for each in self._sharers if not each.stopped]
        for number in range(self._wanted):
            plan = PLANS[number % len(PLANS)]
            there = sum(each.group_id == plan.group_id for each in self._sharers)
            if there <= number // len(PLANS):
                self._begin_one(plan)

    def _begin_one(self, plan: Plan) -> None:
        self._serial += 1
        random = Random(self._random.getrandbits(64))
        name = f"{plan.group_id}/{self._serial}"
        sharer = Sharer(self._world, name, random, group_id=plan.group_id, topics=plan.topics)
        self._sharers.append(sharer)
        if self._is_calm:
            sharer.calm()
        sharer.begin()

    def _step(self) -> None:
        self._fault_steps.later(self._step)
        if not self._is_calm:
            self._fault_steps.fault()
        self._replace_the_dead()

    # -- what befalls them ----------------------------------------------------------------------------------

    def _one(self) -> Sharer:
        return self._random.choice(self._sharers)

    def _kill(self) -> None:
        self._one().kill()

    def _leave(self) -> None:
        self._one().leave()

    def _rest(self) -> None:
        self._one().rest(self._fault_steps.span_ms(REST_MS_MAX))

    def _hold(self) -> None:
        self._one().hold(self._fault_steps.span_ms(HOLD_MS_MAX))

    def _lose_connection(self) -> None:
        self._one().lose_connection()

    def _cut(self) -> None:
        self._fault_steps.cut(self._one(), HOLD_MS_MAX)

    def _drop_shard(self) -> None:
        """Let a shard of share state drop what it knows, as a bug would make it, while much waits for it."""
        server = self._world.server
        if server is None or not server.serving:
            return
        self._world.disk.latency_ms = SLOW_DISK_MS
        self._world.schedule.after(2 * SLOW_DISK_MS, self._world.disk.heal)
        place = self._random.random()
        self._world.schedule.after(self._fault_steps.span_ms(SLOW_DISK_MS), lambda: _drop(server, place))

    # -- what must hold -------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Let nothing befall anybody any more, and everybody accept what it gets."""
        self._is_calm = True
        for each in self._sharers:
            each.calm()

    def check_done(self) -> None:
        """See every record done with, by the groups' starts, and look for what became of each."""
        deadline_ms = self._world.schedule.time_ms + DONE_MS_MAX
        while behind := self._behind():
            self._world.schedule.run_until(self._world.schedule.time_ms + LOOK_MS)
            rule = "share groups come to the end"
            in_time = self._world.schedule.time_ms < deadline_ms
            self._world.books.expect(rule, in_time, lambda behind=behind: f"{behind}")  # type: ignore[misc]  # a bound default
        server = self._world.server
        assert server is not None
        letters = set(_letters(server))
        for plan in PLANS:
            for key, place in self._keys(plan):
                partition = server.partitions.get(*place)
                assert partition is not None
                offsets = [each for each, _ in shown(partition.log, is_committed=plan.rules.is_committed)]
                self.ledger.check_complete(key, place[0], offsets, letters)

    def _keys(self, plan: Plan) -> Iterator[tuple[ShareKey, Place]]:
        topics = self._world.metadata.snapshot().topics
        for topic in plan.topics:
            for index in range(TOPICS[topic][0]):
                yield ShareKey(plan.group_id, topics[topic].topic_id, index), (topic, index)

    def _behind(self) -> list[object]:
        """Return which share partitions have not come to the end, and why."""
        server = self._world.server
        if server is None or not server.serving:
            return ["the broker"]
        found: list[object] = []
        for plan in PLANS:
            for key, place in self._keys(plan):
                partition, led = server.partitions.get(*place), server.sharing.shares.partitions.peek(key)
                if partition is None or partition.error_code is not None:
                    found.append(place)
                elif led is None or led.core is None:
                    found.append((place, "nobody reads it"))
                elif led.core.start_offset < led.end_offset or led._is_busy:
                    found.append((place, led.core.start_offset, led.end_offset, led.core.batches()[:3]))
        return found


def _drop(server: Server, place: float) -> None:
    """Let the shard at that place of the row fail, if any serves."""
    shards = server.sharing.shards() if server.alive else []
    serving = [each for each in shards if each.state is ShardState.ACTIVE]
    if serving:
        serving[int(place * len(serving))]._fail()


def _letters(server: Server) -> Iterator[tuple[str, str, int, int]]:
    """Yield of which group, topic, partition and offset there are dead letters."""
    partition = server.partitions.get(LETTERS, 0)
    assert partition is not None
    for batch in partition.log.read_batches():
        for record in iterate_records(batch):
            headers = {name: bytes(value or b"").decode() for name, value in record.headers}
            yield (
                headers[GROUP_HEADER],
                headers[TOPIC_HEADER],
                int(headers[PARTITION_HEADER]),
                int(headers[OFFSET_HEADER]),
            )
