"""What the broker has acknowledged outlives kill -9: records once and in order, commits as they stood."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import CLIENTS, ConsumerOptions, Place
from tests.interop.members import Member
from tests.interop.waiting import wait_until

ROUNDS = int(os.environ.get("ROUNDS", "4"))
PARTITIONS = 3
ACKNOWLEDGED_PER_ROUND = 2_000
QUEUED_MAX = 2_000
DEADLINE_S = 30.0
OFFSET_COMMIT = 8
COMMIT_VERSION = 9  # The newest that names topics instead of their ids.
SMALL_BATCHES = {"linger.ms": 0, "batch.num.messages": 20}  # So that several are on their way at once.
NO_TAGS = b"\x00"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("crash"), "group.initial.rebalance.delay.ms=0")
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"crash-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(15)
    return name


class SteadyProducer:
    """Produces numbers with acks=all from a thread of its own, whatever happens to the broker."""

    def __init__(self, bootstrap: str, topic: str, **config: object) -> None:
        self.acknowledged: dict[int, list[tuple[int, int]]] = defaultdict(
            list
        )  # (offset, number), as answered
        self.refused: list[KafkaError] = []
        self.answers = 0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "acks": "all", **config})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Produce no more, and wait for the answers that are due."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE_S) == 0, "some records were never answered"

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            while len(self._producer) < QUEUED_MAX:
                self._produce(number)
                number += 1
            self._producer.poll(0.01)

    def _produce(self, number: int) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.refused.append(error)
                return
            self.acknowledged[message.partition() or 0].append((message.offset() or 0, number))
            self.answers += 1

        self._producer.produce(
            self._topic, str(number).encode(), partition=number % PARTITIONS, on_delivery=delivered
        )


def read_partition(bootstrap: str, topic: str, partition: int) -> list[tuple[int, int]]:
    """Return every (offset, number) in the partition, from its start to its end."""
    member = Member(
        CLIENTS["confluent-kafka"], bootstrap, ConsumerOptions(assigned=[Place(topic, partition)])
    )
    try:
        end = member.call(lambda consumer: consumer.bounds(Place(topic, partition)))[1]
        wait_until(lambda: member.records and member.records[-1].offset == end - 1, "the end", DEADLINE_S)
    finally:
        member.close()
    return [(record.offset, int(record.value or b"-1")) for record in member.records]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda each: each.name)
def test_acknowledged_records_are_there_once_and_in_order(
    broker: BrokerProcess, topic: str, how: signal.Signals
) -> None:
    """End it while an idempotent producer, the client's default kind, keeps it busy."""
    producer = SteadyProducer(broker.bootstrap, topic, **{"enable.idempotence": True, **SMALL_BATCHES})
    for round_number in range(ROUNDS):
        enough = producer.answers + ACKNOWLEDGED_PER_ROUND
        wait_until(lambda enough=enough: producer.answers >= enough, f"round {round_number}", DEADLINE_S)  # type: ignore[misc]
        broker.restart(how)
    producer.finish()
    assert producer.refused == []
    for partition in range(PARTITIONS):
        stored = read_partition(broker.bootstrap, topic, partition)
        assert [offset for offset, _ in stored] == list(range(len(stored)))
        numbers = [number for _, number in stored]
        assert numbers == sorted(set(numbers)), "in order, and none twice"
        assert set(producer.acknowledged[partition]) <= set(stored), "each where its answer said"
        assert numbers == [number for _, number in producer.acknowledged[partition]], "and nothing else"


@pytest.mark.requirement("R15")
def test_acknowledged_commits_survive_a_kill(broker: BrokerProcess, topic: str) -> None:
    """Kill it at a random moment while a simple consumer commits ever higher offsets."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # Shown with a failure.
    dice = random.Random(seed)
    group = f"commits-{uuid.uuid4().hex[:8]}"
    partition = TopicPartition(topic, 0)
    acknowledged = 0
    for _ in range(ROUNDS):
        committed_offset(
            broker.bootstrap, group, partition
        )  # Finds the coordinator, which then has the group.
        committer = SteadyCommitter(broker.address, group, topic, first=acknowledged + 1)
        enough = acknowledged + dice.randrange(50, 500)
        wait_until(lambda each=committer, enough=enough: each.acknowledged >= enough, "commits", DEADLINE_S)  # type: ignore[misc]
        broker.kill()
        acknowledged = committer.finish()
        broker.start()
        stands = committed_offset(broker.bootstrap, group, partition)
        assert stands in (acknowledged, acknowledged + 1), "the newest, or the one that was under way"
        acknowledged = stands


class SteadyCommitter:
    """Commits 1, 2, 3 ... one after the other until the broker is gone, over a bare connection.

    A client library would repeat the commit under way after the restart, and so hide that one was lost.
    """

    def __init__(self, address: tuple[str, int], group: str, topic: str, first: int) -> None:
        self.acknowledged = first - 1
        self._group = group
        self._topic = topic
        self._connection = socket.create_connection(address, timeout=DEADLINE_S)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> int:
        """Return the newest acknowledged offset; the broker has to be gone."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        return self.acknowledged

    def _run(self) -> None:
        with self._connection:
            while self._commit(self.acknowledged + 1):
                self.acknowledged += 1

    def _commit(self, offset: int) -> bool:
        """Return whether this offset was acknowledged; not if the connection is gone."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None
        )
        topics = (OffsetCommitRequestTopic(name=self._topic, partitions=(partition,)),)
        body = OffsetCommitRequest(group_id=self._group, topics=topics).encode(COMMIT_VERSION)
        header = struct.pack(">hhih", OFFSET_COMMIT, COMMIT_VERSION, offset, -1) + NO_TAGS
        try:
            self._connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
            answer = self._receive(struct.unpack(">i", self._receive(4))[0])
        except (ConnectionError, EOFError):
            return False
        decoded = OffsetCommitResponse.decode(answer[4 + len(NO_TAGS) :], COMMIT_VERSION)
        assert decoded.topics[0].partitions[0].error_code == 0
        return True

    def _receive(self, count: int) -> bytes:
        data = self._connection.recv(count, socket.MSG_WAITALL)
        if len(data) < count:
            raise EOFError
        return data


def committed_offset(bootstrap: str, group: str, partition: TopicPartition) -> int:
    """Return what the group has committed, as a new client is told."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        return consumer.committed([partition], DEADLINE_S)[0].offset
    finally:
        consumer.close()
