"""Topics with records, beside the groups: produced, read, deleted and made again, under settings that change.

What is acknowledged while its topic has flush.messages=1 is promised, with all that lies before it; so is
what a reader is shown under that setting. The rules are stated here once more, from Kafka's documentation.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec

from kohort.broker.metadata import Mutation, TopicState
from kohort.broker.partitions import Partition
from kohort.protocol.records import build_batch, iterate_batches, iterate_records
from kohort.storage import PartitionLog, StorageError
from tests.simulation.books import Books
from tests.simulation.metadata import Metadata, places
from tests.simulation.schedule import Schedule
from tests.simulation.server import Server

TOPICS = 3
STEP_MS = 900
STRICT = "1"
FLUSH_MESSAGES = (STRICT, STRICT, STRICT, "3", "1000")
SEGMENT_BYTES = ("2048", "8192", "100000")
FLUSH_MS = ("9223372036854775807", "300")
READ_BYTES = 1 << 20
PAD_BYTES = (0, 0, 0, 20, 20, 200, 200, 2_000, 20_000)
AWAY_MS_MAX = 3_000


class Around(Protocol):
    """What this has to do with."""

    schedule: Schedule
    books: Books
    metadata: Metadata
    server: Server | None

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        ...


class Produced(NamedTuple):
    """A record on its way: where it was staged, and under which version of the settings."""

    log: PartitionLog
    offset: int
    token: str
    settings_version: int


class Topic:
    """A topic under one id, and what was promised of its only partition."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.topic_id = UUID(int=10_000 + number)
        self.settings: dict[str, str] = {}
        self.settings_version = 0  # Another with every change of how durable it is.
        self.tokens: dict[int, str] = {}  # What stands at an offset, as far as somebody was told.
        self.staged_under: dict[int, int] = {}  # The version of the settings, by offset.
        self.promised_end = 0
        self.asked_start = 0  # How far it was asked that records be deleted,
        self.promised_start = 0  # and how far that was answered.
        self.log: PartitionLog | None = None

    @property
    def is_strict(self) -> bool:
        """Whether what is acknowledged now is on the disk."""
        return self.settings.get("flush.messages", STRICT) == STRICT

    @property
    def state(self) -> TopicState:
        """What the metadata say of it."""
        return TopicState(self.name, self.topic_id, places(1), dict(self.settings))

    def look_at(self, log: PartitionLog) -> None:
        """Hear which log it has; with another one, what was not promised may be gone."""
        if log is not self.log:
            self.log = log
            self.tokens = {offset: each for offset, each in self.tokens.items() if offset < self.promised_end}
            self.staged_under = {}

    def was_strict_from(self, offset: int, end_offset: int) -> bool:
        """Whether all records there were staged under the settings of now, and these are strict."""
        version = self.settings_version
        return self.is_strict and all(
            self.staged_under.get(each) == version for each in range(offset, end_offset)
        )


class Records:
    """Producers, readers and an administrator of some topics of their own."""

    def __init__(self, world: Around, random: Random) -> None:
        self._world = world
        self._random = random
        self._numbers = 0
        self._tokens = 0
        self._topics: list[Topic] = [self._new_topic(f"d{place}") for place in range(TOPICS)]
        self._actions: list[tuple[int, Callable[[Topic], None]]] = [
            (24, self._produce),
            (12, self._read),
            (3, self._configure),
            (1, self._delete_records),
            (1, self._make_again),
        ]
        self._stopped = False

    def states(self) -> list[TopicState]:
        """Return what the metadata begin with."""
        return [topic.state for topic in self._topics]

    def begin(self) -> None:
        """Act from now on."""
        self._world.schedule.after(STEP_MS, self._step)

    def stop(self) -> None:
        """Change nothing any more."""
        self._stopped = True

    def act(self) -> None:
        """Do one thing, or some at once."""
        weights = [weight for weight, _ in self._actions]
        for _ in range(self._random.choice((1, 1, 2, 5))):
            [(_, action)] = self._random.choices(self._actions, weights)
            action(self._random.choice(self._topics))

    def hurry(self) -> None:
        """Produce and read while a worker writes."""
        if self._random.random() < 0.3:
            self._produce(self._random.choice(self._topics))
            self._read(self._random.choice(self._topics))

    def _step(self) -> None:
        if not self._stopped:
            self._world.schedule.after(1 + int(self._random.random() * 2 * STEP_MS), self._step)
            self.act()

    def _new_topic(self, name: str) -> Topic:
        self._numbers += 1
        return Topic(name, self._numbers)

    @property
    def _is_serving(self) -> bool:
        return self._world.server is not None and self._world.server.serving

    def _partition(self, topic: Topic) -> Partition | None:
        """Return the partition where it serves."""
        server = self._world.server
        if server is None or not server.serving:
            return None
        partition = server.partitions.get(topic.name, 0)
        if partition is None or partition.topic_id != topic.topic_id or partition.error_code is not None:
            return None
        topic.look_at(partition.log)
        return partition

    def begin_anew(self) -> None:
        """Make every topic again."""
        for topic in list(self._topics):
            self._make_again(topic)

    def produce_to_all(self) -> None:
        """Write a record to each topic that serves."""
        for topic in self._topics:
            self._produce(topic)

    # -- producing --------------------------------------------------------------------------------------

    def _produce(self, topic: Topic) -> None:
        partition, server = self._partition(topic), self._world.server
        if partition is None or server is None:
            return
        self._tokens += 1
        token = f"{topic.number}:{self._tokens}:"
        value = token.encode() + bytes(self._random.choice(PAD_BYTES))
        try:
            offset = partition.append_own(build_batch([(self._world.schedule.time_ms, None, value, ())]))
        except StorageError:
            return
        topic.staged_under[offset] = topic.settings_version
        produced = Produced(partition.log, offset, token, topic.settings_version)
        server.flusher.request(partition, partial(self._acknowledged, topic, produced))

    def _acknowledged(self, topic: Topic, produced: Produced, error: StorageError | None) -> None:
        if error is not None:
            return
        log, offset, token, version = produced
        topic.look_at(log)
        known = topic.tokens.get(offset, token) if offset < topic.promised_end else token
        rule = "an offset is given once"
        self._world.books.expect(rule, known == token, lambda: f"{offset}: {known} {token}")
        topic.tokens[offset] = token
        if topic.is_strict and version == topic.settings_version:
            topic.promised_end = max(topic.promised_end, offset + 1)

    # -- reading ----------------------------------------------------------------------------------------

    def _read(self, topic: Topic) -> None:
        """Read what is new, or all, and count on what is shown."""
        partition = self._partition(topic)
        if partition is None:
            return
        begin, end_offset = partition.log.log_start_offset, partition.high_watermark
        self._check_bounds(topic, begin, end_offset)
        was_strict = topic.was_strict_from(topic.promised_end, end_offset)
        on_disk = partition.log.flushed_offset if was_strict else partition.log.written_offset
        rule = "nothing is shown before it is on the disk"
        self._world.books.expect(rule, end_offset <= on_disk, lambda: f"{end_offset}, {on_disk} is")
        if self._random.random() < 0.95:
            begin = max(begin, min(topic.promised_end, end_offset) - 5)
        try:
            shown = _records(partition.log, begin, end_offset)
        except StorageError:
            return
        self._check_shown(topic, begin, shown)
        if end_offset > topic.promised_end and was_strict:
            topic.tokens |= {offset: each for offset, each in shown.items() if offset >= topic.promised_end}
            topic.promised_end = end_offset

    def _check_bounds(self, topic: Topic, log_start_offset: int, high_watermark: int) -> None:
        expect = self._world.books.expect
        rule = "what was acknowledged as durable survives"
        holds = high_watermark >= topic.promised_end
        expect(rule, holds, lambda: f"{topic.name}: {high_watermark} of {topic.promised_end}")
        rule = "a log begins where it was asked to"
        holds = topic.promised_start <= log_start_offset <= topic.asked_start
        expect(rule, holds, lambda: f"{topic.name}: {log_start_offset}, not {topic.asked_start}")

    def _check_shown(self, topic: Topic, begin: int, shown: dict[int, str]) -> None:
        expect = self._world.books.expect
        strange = [each for each in shown.values() if not each.startswith(f"{topic.number}:")]
        expect(
            "a topic shows its own records", not strange, lambda: f"{topic.name} {topic.number}: {strange}"
        )
        for offset in range(begin, topic.promised_end):
            wanted, found = topic.tokens.get(offset), shown.get(offset)
            holds = found is not None and found == (wanted or found)
            rule = "what was acknowledged as durable survives"
            expect(rule, holds, lambda o=offset, w=wanted, f=found: f"{topic.name}-0 at {o}: {f}, not {w}")  # type: ignore[misc]  # bound defaults

    def check_all(self) -> None:
        """Read every topic from its beginning."""
        for topic in self._topics:
            partition = self._partition(topic)
            rule = "every topic serves again"
            self._world.books.expect(rule, partition is not None, partial(str, topic.name))
            assert partition is not None
            begin, end_offset = partition.log.log_start_offset, partition.high_watermark
            self._check_bounds(topic, begin, end_offset)
            self._check_shown(topic, begin, _records(partition.log, begin, end_offset))

    # -- administering ----------------------------------------------------------------------------------

    def _configure(self, topic: Topic) -> None:
        if topic.name not in self._world.metadata.snapshot().topics or not self._is_serving:
            return
        choose = self._random.choice
        settings = {
            "flush.messages": choose(FLUSH_MESSAGES),
            "flush.ms": choose(FLUSH_MS),
            "internal.segment.bytes": choose(SEGMENT_BYTES),
        }
        if settings["flush.messages"] != topic.settings.get("flush.messages", STRICT):
            topic.settings_version += 1
        topic.settings = settings
        known = self._world.metadata.snapshot().topics[topic.name]
        self._world.metadata.apply(Mutation(put=(msgspec.structs.replace(known, configs=settings),)))

    def _delete_records(self, topic: Topic) -> None:
        partition, server = self._partition(topic), self._world.server
        if partition is None or server is None:
            return
        offset = self._random.randint(partition.log.log_start_offset, partition.high_watermark)
        topic.asked_start = max(topic.asked_start, offset)
        server.tasks.start_soon(self._move_start, server, topic, partition, offset)

    async def _move_start(self, server: Server, topic: Topic, partition: Partition, offset: int) -> None:
        log = partition.log

        def move() -> None:
            if partition.serving_log is log and not partition.deleted:
                log.delete_records_before(offset, self._world.schedule.time_ms)
                moved.append(offset)

        moved: list[int] = []
        try:
            await server.partitions.between_writes(partition, move)
            await server.partitions.folder.save_log_starts()
        except StorageError:
            return
        if moved:
            topic.promised_start = max(topic.promised_start, offset)

    def _make_again(self, topic: Topic) -> None:
        """Delete a topic, and make another of its name, at once or in a while."""
        metadata = self._world.metadata
        if topic.name not in metadata.snapshot().topics or not self._is_serving:
            return
        successor = self._new_topic(topic.name)
        self._world.note(f"{topic.name} is deleted, and made again as {successor.number}")
        self._topics[self._topics.index(topic)] = successor
        metadata.apply(Mutation(delete=(topic.name,)))
        delay_ms = self._random.choice((0, 0, 1, int(self._random.random() * AWAY_MS_MAX)))
        self._world.schedule.after(delay_ms, partial(self._make, successor))

    def _make(self, topic: Topic) -> None:
        """Put a new topic into the metadata, which one broker's own store changes while it serves."""
        if self._is_serving:
            self._world.metadata.apply(Mutation(put=(topic.state,)))
        else:
            self._world.schedule.after(AWAY_MS_MAX, partial(self._make, topic))


def _records(log: PartitionLog, begin: int, end_offset: int) -> dict[int, str]:
    """Return the tokens by offset, as fetches read them. Raises: StorageError."""
    found: dict[int, str] = {}
    offset = begin
    while offset < end_offset:
        try:
            data = log.read(offset, READ_BYTES, end_offset).read()
        except OSError as error:
            raise StorageError(str(error)) from error
        if not data:
            break
        for batch in iterate_batches(data, check_crcs=True):
            for record in iterate_records(batch):
                text = (record.value or b"").decode()
                found[record.offset] = text.rstrip("\0")
                offset = record.offset + 1
    return found
