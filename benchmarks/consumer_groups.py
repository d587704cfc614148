"""A large group of the consumer protocol (KIP-848): how it is assembled, rebalanced, and kept alive.

    python benchmarks/consumer_groups.py [--members 500] [--alive 1000] [--seconds 5] [--repeats 3]

kohort and Apache Kafka, each alone, with its default settings; the members share a few bare
sockets, and send the next heartbeat as soon as all have an answer, so that nothing waits for an
interval. `assembled`: from the first heartbeat until every partition is owned by its target
member. `rebalanced`: the same from a member's leave on. Both are in ms, and in ms of the
broker's CPU. `heartbeats`: of members of a stable group, per second, and per second of the broker's CPU.
Kafka is warmed up by the same work. The table is Markdown, for docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import UUID, uuid4

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.clusters import KAFKA_JVM, cpu_seconds
from benchmarks.parts.raw_client import (
    VERSIONS,
    Address,
    Connection,
    coordinator,
    decoded,
    frame_of,
    topic_of,
    until,
)

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.interop.broker_process import BrokerProcess

VERSIONS["ConsumerGroupHeartbeat"] = 1
TOPIC = "air"
PARTITIONS = 1_000
CONNECTIONS = 8
ROUNDS_MAX = 2_000
REST_SECONDS = 2.5  # group.consumer.assignment.interval.ms is a second.
LEAVE = -1
LOADING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
REBALANCE_TIMEOUT_MS = 300_000
ROWS = ("assembled", "rebalanced", "heartbeats")


class Figure(NamedTuple):
    """Wall time and CPU time in ms, or operations a second of each."""

    wall: float
    cpu: float


class Server(Protocol):
    """A broker."""

    @property
    def pid(self) -> int:
        """Of its process."""
        ...

    @property
    def address(self) -> Address:
        """Where it listens."""
        ...


class Member:
    """The state of one member: its last request and its assignment."""

    def __init__(self, group_id: str, topic_id: UUID) -> None:
        self.member_id = str(uuid4())
        self.epoch = 0
        self.owned: frozenset[int] = frozenset()
        self.frame = b""
        self._group_id = group_id
        self._topic_id = topic_id
        self._say(
            ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id=self.member_id,
                member_epoch=0,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=(TOPIC,),
                topic_partitions=(),
            )
        )

    def _say(self, message: ConsumerGroupHeartbeatRequest) -> None:
        self.frame = frame_of(message)

    def hear(self, answer: bytes) -> None:
        """Do at once what the broker requests, and report it in the next heartbeat."""
        found = decoded(answer, ConsumerGroupHeartbeatResponse)
        assert not found.error_code, found
        owned = None
        if found.assignment is not None:
            self.owned = frozenset(
                index for topic in found.assignment.topic_partitions for index in topic.partitions
            )
            owned = self.owned
        if owned is not None or found.member_epoch != self.epoch:
            self.epoch = found.member_epoch
            partitions = ConsumerGroupHeartbeatTopicPartitions(
                topic_id=self._topic_id, partitions=tuple(sorted(self.owned))
            )
            self._say(self._heartbeat((partitions,) if self.owned else ()))
        elif self.has_more_to_say:
            self._say(self._heartbeat(None))
        self.has_more_to_say = owned is not None

    has_more_to_say = True

    def _heartbeat(
        self, owned: tuple[ConsumerGroupHeartbeatTopicPartitions, ...] | None
    ) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=owned,
        )

    def leave(self) -> bytes:
        """Return the last heartbeat."""
        return frame_of(
            ConsumerGroupHeartbeatRequest(
                group_id=self._group_id, member_id=self.member_id, member_epoch=LEAVE
            )
        )


class Group:
    """Members spread over a few connections."""

    def __init__(self, address: Address, count: int) -> None:
        self.group_id = f"group-{uuid4()}"
        topic_id = topic_of(address, TOPIC).topic_id
        until(lambda: coordinator(address, self.group_id) is not None)
        self.members = [Member(self.group_id, topic_id) for _ in range(count)]
        self._connections = [Connection(address) for _ in range(CONNECTIONS)]
        until(self._is_loaded)

    def _is_loaded(self) -> bool:
        """Return whether the coordinator knows the group by now, and its first member with it."""
        self._connections[0].send(self.members[0].frame)
        answer = self._connections[0].receive()
        if decoded(answer, ConsumerGroupHeartbeatResponse).error_code in LOADING:
            return False
        self.members[0].hear(answer)
        return True

    def heartbeat(self) -> None:
        """Send one heartbeat for every member, and handle the answers."""
        shares = [self.members[place::CONNECTIONS] for place in range(CONNECTIONS)]
        for connection, share in zip(self._connections, shares, strict=True):
            connection.send(b"".join(each.frame for each in share))
        for connection, share in zip(self._connections, shares, strict=True):
            for each in share:
                each.hear(connection.receive())

    def settle(self) -> None:
        """Return once every partition has one owner, and no member has more to report."""
        for _ in range(ROUNDS_MAX):
            self.heartbeat()
            owned = sum(len(each.owned) for each in self.members)
            epochs = {each.epoch for each in self.members}
            quiet = not any(each.has_more_to_say for each in self.members)
            if owned == PARTITIONS and len(epochs) == 1 and quiet:
                assert len(frozenset().union(*(each.owned for each in self.members))) == PARTITIONS
                return
        raise AssertionError(f"{self.group_id} does not come to rest")

    def rest(self) -> None:
        """Return once nothing has changed for long enough."""
        began, epochs = time.monotonic(), [each.epoch for each in self.members]
        while time.monotonic() - began < REST_SECONDS:
            self.settle()
            now = [each.epoch for each in self.members]
            if now != epochs:
                began, epochs = time.monotonic(), now

    def let_one_go(self) -> None:
        """Let one member leave."""
        gone = self.members.pop()
        self._connections[0].send(gone.leave())
        self._connections[0].receive()

    def alive(self, seconds: float) -> int:
        """Return how many heartbeats were answered in that time; a few of the answers are checked."""
        frames = [[each.frame for each in self.members[place::CONNECTIONS]] for place in range(CONNECTIONS)]
        count, deadline = 0, time.monotonic() + seconds
        while time.monotonic() < deadline:
            for connection, share in zip(self._connections, frames, strict=True):
                connection.send(b"".join(share))
            for connection, share in zip(self._connections, frames, strict=True):
                for number, _ in enumerate(share):
                    answer = connection.receive()
                    if not number:
                        found = decoded(answer, ConsumerGroupHeartbeatResponse)
                        assert not found.error_code, found
            count += len(self.members)
        return count

    def close(self) -> None:
        """Let all members leave."""
        while self.members:
            with suppress(OSError):
                self.let_one_go()
        for each in self._connections:
            each.close()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=500, help="of the group that is assembled")
    parser.add_argument("--alive", type=int, default=1_000, help="members of the group at rest")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=3, help="runs before that, for who compiles itself")
    parser.add_argument("--brokers", default="kohort,kafka")
    options = parser.parse_args()
    found: dict[str, dict[str, list[Figure]]] = {}
    for name, start in {"kohort": kohort, "kafka": kafka}.items():
        if name not in options.brokers.split(","):
            continue
        with tempfile.TemporaryDirectory(prefix="kohort-bench-") as folder:
            try:
                with start(Path(folder)) as server:
                    found[name] = figures(server, options)
            except MissingTool as missing:
                print(f"without Apache Kafka: {missing}", file=sys.stderr)
    print("\n".join(table(found, options)))


@contextmanager
def kohort(folder: Path) -> Iterator[Server]:
    """Run a kohort broker during the `with` block."""
    broker = BrokerProcess(folder)
    broker.options = ("--log-level", "warning")
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@contextmanager
def kafka(folder: Path) -> Iterator[Server]:
    """Run an Apache Kafka broker during the `with` block. Raises: MissingTool."""
    broker = ApacheKafka(folder, options=KAFKA_JVM)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def figures(server: Server, options: argparse.Namespace) -> dict[str, list[Figure]]:
    """Return the result of each row, each time."""
    create_topic(server.address)
    found: dict[str, list[Figure]] = {each: [] for each in ROWS}
    for number in range(options.warm_up + options.repeats):
        group = Group(server.address, options.members)
        run = {"assembled": timed(server, group.settle)}
        group.let_one_go()
        run["rebalanced"] = timed(server, group.settle)
        group.close()
        idle_group = Group(server.address, options.alive)
        idle_group.rest()
        cpu, began = cpu_seconds(server.pid), time.monotonic()
        count = idle_group.alive(options.seconds)
        cpu, wall = cpu_seconds(server.pid) - cpu, time.monotonic() - began
        run["heartbeats"] = Figure(count / wall, count / cpu)
        idle_group.close()
        warms_up = number < options.warm_up
        print(f"{server.pid}: {run}{' (warming up)' if warms_up else ''}", file=sys.stderr)
        if not warms_up:
            for row, figure in run.items():
                found[row].append(figure)
    return found


def create_topic(address: Address) -> None:
    """Create the topic that all members read, with one replica."""
    topic = CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=()
    )
    connection = Connection(address)
    answer = connection.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), CreateTopicsResponse)
    connection.close()
    assert not answer.topics[0].error_code, answer
    until(lambda: len(topic_of(address, TOPIC).partitions) == PARTITIONS)


def timed(server: Server, work: Callable[[], None]) -> Figure:
    """Return how many ms it took, and how many of the broker's CPU."""
    cpu, began = cpu_seconds(server.pid), time.monotonic()
    work()
    return Figure((time.monotonic() - began) * 1_000, (cpu_seconds(server.pid) - cpu) * 1_000)


def table(found: dict[str, dict[str, list[Figure]]], options: argparse.Namespace) -> Iterator[str]:
    """Yield the table as Markdown: medians, and how many times as good kohort is by the broker's CPU."""
    names = {
        "assembled": f"a group of {options.members} assembled, ms, and ms of CPU",
        "rebalanced": "one of them leaves, ms, and ms of CPU",
        "heartbeats": f"heartbeats of {options.alive:,} members, a second, and a second of CPU",
    }
    yield "| | " + " | ".join(found) + " | by CPU |"
    yield "| --- |" + " ---: |" * (len(found) + 1)
    for row in ROWS:
        medians = [
            Figure(
                statistics.median(each.wall for each in of[row]),
                statistics.median(each.cpu for each in of[row]),
            )
            for of in found.values()
        ]
        ratio = ""
        if len(medians) == 2:  # kohort and Kafka.
            more_is_better = row == "heartbeats"
            one, other = medians[0].cpu, medians[1].cpu
            ratio = f"{(one / other if more_is_better else other / one):.2f}"
        cells = " | ".join(f"{each.wall:,.0f}, {each.cpu:,.0f}" for each in medians)
        yield f"| {names[row]} | {cells} | {ratio} |"
    yield f"\n{PARTITIONS:,} partitions; broker and client on {os.cpu_count()} cores."


if __name__ == "__main__":
    main()
