"""Round after round the broker is killed at a random moment, while real clients produce and commit.

Meanwhile `flush.messages` of the topic changes between 1 and 1000, so that the same log is at times in the
journal, at times synced by itself, at times not synced at all.

`ROUNDS` says how many rounds (`make crash` runs 200), `SEED` repeats the moments of a run that failed.
"""

from __future__ import annotations

import os
import random
import statistics
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Their home says otherwise.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from kohort.storage import OsFileSystem
from kohort.storage.verify import verify_data
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

ROUNDS = int(os.environ.get("ROUNDS", "4"))
SEED = int(os.environ.get("SEED") or random.randrange(2**32))
TOPIC = "orders"
GROUP = "readers"
PARTITIONS = 3
BURST = 20
BURST_EVERY_S = 0.005
LIFE_S = (0.0, 1.0)
DIES_WHILE_STARTING = 0.2
START_S = 0.5
DEADLINE_S = 30.0
CHANGE_EVERY_S = (0.02, 0.2)
CHANGE_TIMEOUT_S = 1.0
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=3",
    "log.cleaner.backoff.ms=100",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.segment.delete.delay.ms=500",
)
# Commits fill a segment in a second or so: the cleaner is at work whenever the broker dies.
OFFSETS_CONFIG = {"internal.segment.bytes": "30000"}
# A megabyte is the least that Kafka allows: segments roll every few seconds.
TOPIC_CONFIG = {"segment.bytes": str(1024 * 1024)}
QUICK_TO_RETURN = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "log_level": 0}


class SteadyProducer:
    """An idempotent producer that never stops; it remembers which number was answered with which offset."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, list[tuple[int, int]]] = defaultdict(list)  # Offset and number.
        self.refused: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                **QUICK_TO_RETURN,
            }
        )
        self._number = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def count(self) -> int:
        """Return how many records were acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def finish(self) -> None:
        """Produce no more, and wait for the answers that are due."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE_S) == 0, "some records were never answered"

    def _run(self) -> None:
        while not self._stopping.is_set():
            if len(self._producer) < 50 * BURST:
                for _ in range(BURST):
                    self._produce(self._number)
                    self._number += 1
            self._producer.poll(BURST_EVERY_S)

    def _produce(self, number: int) -> None:
        def delivered(error: object, message: Message) -> None:
            if error is not None:
                self.refused.append(str(error))
                return
            self.acknowledged[message.partition() or 0].append((message.offset() or 0, number))

        value = str(number).encode()
        self._producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=delivered)


class SteadyCommitter:
    """Commits 1, 2, 3 ... one after the other, and again what was not answered."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "socket.timeout.ms": 2_000,
                **QUICK_TO_RETURN,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Commit no more."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            wanted = TopicPartition(TOPIC, 0, self.acknowledged + 1)
            try:
                answer = self._consumer.commit(offsets=[wanted], asynchronous=False)
            except KafkaException:
                continue
            if answer and answer[0].error is None:
                self.acknowledged += 1


class RestlessSettings:
    """Changes how durable the topic is, again and again; a broker that is dead just then is asked later."""

    def __init__(self, bootstrap: str, dice: random.Random) -> None:
        self.changes = 0
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK_TO_RETURN})
        self._dice = dice
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Leave the topic as it was made: every record is synced before it is acknowledged."""
        self._stopping.set()
        self._thread.join()
        self._set("1").result(DEADLINE_S)

    def _set(self, flush_messages: str) -> Future[None]:
        operation = AlterConfigOpType.SET
        entry = ConfigEntry("flush.messages", flush_messages, incremental_operation=operation)
        resource = ConfigResource("topic", TOPIC, incremental_configs=[entry])
        answers: dict[ConfigResource, Future[None]] = self._admin.incremental_alter_configs(
            [resource], request_timeout=CHANGE_TIMEOUT_S
        )
        return answers[resource]

    def _run(self) -> None:
        while not self._stopping.wait(self._dice.uniform(*CHANGE_EVERY_S)):
            try:
                self._set(self._dice.choice(("1", "1000"))).result(DEADLINE_S)
            except KafkaException:
                continue
            self.changes += 1


def committed_offset(bootstrap: str) -> int:
    """Return what the group has committed, as a client that knows nothing is told; 0 for nothing yet."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUICK_TO_RETURN})
    try:
        return max(0, consumer.committed([TopicPartition(TOPIC, 0)], DEADLINE_S)[0].offset)
    finally:
        consumer.close()


def read_everything(bootstrap: str) -> dict[int, list[tuple[int, int]]]:
    """Return offset and number of every record, by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "proof", **QUICK_TO_RETURN})
    places = [TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)]
    ends = {each.partition: consumer.get_watermark_offsets(each, DEADLINE_S)[1] for each in places}
    consumer.assign(places)
    found: dict[int, list[tuple[int, int]]] = {each.partition: [] for each in places}
    deadline_s = time.monotonic() + DEADLINE_S
    try:
        while any(not found[index] or found[index][-1][0] < end - 1 for index, end in ends.items()):
            messages = consumer.consume(1_000, 1)  # It waits for all of them, or for so many seconds.
            assert time.monotonic() < deadline_s, "nothing came"
            deadline_s = time.monotonic() + DEADLINE_S if messages else deadline_s
            for message in messages:
                assert message.error() is None, message.error()
                found[message.partition() or 0].append((message.offset() or 0, int(message.value() or b"-1")))
    finally:
        consumer.close()
    return found


@dataclass(slots=True)
class Moments:
    """When the broker was killed: so long after it was ready, or so long after it was begun to be started."""

    lives_s: list[float] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{_spread('while it served', self.lives_s)}; {_spread('while it started', self.starts_s)}"


def _spread(when: str, moments_s: list[float]) -> str:
    if not moments_s:
        return f"never {when}"
    least, middle, most = min(moments_s), statistics.median(moments_s), max(moments_s)
    return f"{len(moments_s)} times {when} ({least:.3f} / {middle:.3f} / {most:.3f} s after its begin)"


def kill_at_a_random_moment(broker: BrokerProcess, dice: random.Random, moments: Moments) -> None:
    """Let the broker live for a while, then kill it; sometimes kill the next one while it starts, too."""
    moments.lives_s.append(dice.uniform(*LIFE_S))
    time.sleep(moments.lives_s[-1])
    broker.kill()
    while dice.random() < DIES_WHILE_STARTING:
        moments.starts_s.append(dice.uniform(0, START_S))
        broker.start_and_kill(moments.starts_s[-1])


def test_no_acknowledged_record_is_lost_or_duplicated(tmp_path: Path) -> None:
    print(f"SEED={SEED} ROUNDS={ROUNDS}")  # noqa: T201  # Shown with a failure.
    dice, moments = random.Random(SEED), Moments()
    broker = BrokerProcess(tmp_path, *SETTINGS)
    broker.start()
    prepare(broker.bootstrap)
    producer, committer = SteadyProducer(broker.bootstrap), SteadyCommitter(broker.bootstrap)
    settings = RestlessSettings(broker.bootstrap, random.Random(SEED + 1))
    try:
        for round_number in range(ROUNDS):
            kill_at_a_random_moment(broker, dice, moments)
            broker.start()
            before = committer.acknowledged
            found = committed_offset(broker.bootstrap)
            assert found >= before, f"round {round_number}: a commit was lost"
            assert producer.refused == [], f"round {round_number}"
            enough = producer.count() + BURST
            wait_until(lambda enough=enough: producer.count() >= enough, f"round {round_number}", DEADLINE_S)  # type: ignore[misc]
        settings.finish()
        committer.finish()
        producer.finish()
        assert settings.changes >= ROUNDS / 2, "the settings hardly changed"
        check(broker, producer, committer)
        assert broker.stop() == 0
    finally:
        broker.kill()
    assert verify_data(OsFileSystem(), broker.data).problems == []
    cleanings = sum("a log was compacted" in line for line in broker.log_lines())
    print(  # noqa: T201
        f"{ROUNDS} rounds: {producer.count():,} records and {committer.acknowledged:,} commits acknowledged, "
        f"{cleanings} rounds of the cleaner, {settings.changes} changes of flush.messages\nkilled {moments}"
    )


def prepare(bootstrap: str) -> None:
    """Make the topic, and let the segments of commits be small."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=TOPIC_CONFIG)])[TOPIC].result(DEADLINE_S)
    committed_offset(bootstrap)  # Which makes the topic of commits.
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in OFFSETS_CONFIG.items()
    ]
    resource = ConfigResource("topic", "__consumer_offsets", incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)


def check(broker: BrokerProcess, producer: SteadyProducer, committer: SteadyCommitter) -> None:
    """Compare what is stored with what was acknowledged."""
    assert producer.refused == []
    for partition, stored in read_everything(broker.bootstrap).items():
        assert [offset for offset, _ in stored] == list(range(len(stored)))
        assert stored == producer.acknowledged[partition], "each record once, where its answer said"
    assert committed_offset(broker.bootstrap) in (committer.acknowledged, committer.acknowledged + 1)
