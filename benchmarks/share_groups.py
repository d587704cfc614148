"""Records of a share group (KIP-932) taken and acknowledged: one by one, and a batch at a time.

    python benchmarks/share_groups.py [--records 20000] [--singles 2000] [--repeats 3] [--warm-up 2]

kohort and Apache Kafka, each alone, with its default settings except for one replica; a member for each of
four partitions over its own bare socket; all send a request at once, and send the next when all have an
answer. Members acquire five hundred records at a time. `one by one`: each record is acknowledged by a
separate request. `batches`: all records of a fetch are acknowledged by one request. Both are in records a
second, and in records a second of the broker's CPU, with the fetches. Every run uses a new group, from the
beginning of the same records. The table is Markdown, for docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    is_produced,
    produce_frame,
    topic_of,
    until,
)

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.messages.share_acknowledge import (
    ShareAcknowledgeBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopic,
)
from kohort.protocol.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.interop.broker_process import BrokerProcess

VERSIONS.update(ShareGroupHeartbeat=1, ShareFetch=1, ShareAcknowledge=1, IncrementalAlterConfigs=1)
TOPIC = "work"
PARTITIONS = 4
RECORDS_PER_BATCH = 100
VALUE_BYTES = 100
RECORDS_PER_FETCH = 500
FETCH_BYTES = 1 << 20
GROUP_RESOURCE = 32
ACCEPT = 1
HEARTBEAT_SECONDS = 0.2
ROWS = ("one by one", "batches")
SETTINGS = (
    "offsets.topic.replication.factor=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)


class Figure(NamedTuple):
    """Records a second, and a second of the broker's CPU."""

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
    """A member of a share group, with a session for the one partition that it is to have."""

    def __init__(self, address: Address, group_id: str, topic_id: UUID) -> None:
        self.connection = Connection(address)
        self.member_id = str(uuid4())
        self.index = -1
        self.taken: list[tuple[int, int]] = []
        self._group_id = group_id
        self._topic_id = topic_id
        self._epoch = 0
        self._session_epoch = 0

    def heartbeat(self) -> None:
        """Send a heartbeat, and take over the assigned partition."""
        answer = self.connection.ask(
            ShareGroupHeartbeatRequest(
                group_id=self._group_id,
                member_id=self.member_id,
                member_epoch=self._epoch,
                subscribed_topic_names=(TOPIC,),
            ),
            ShareGroupHeartbeatResponse,
        )
        if answer.error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            return
        assert not answer.error_code, answer
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            indexes = [each for topic in answer.assignment.topic_partitions for each in topic.partitions]
            self.index = indexes[0] if len(indexes) == 1 else -1

    def ask_for_records(self) -> None:
        """Send a fetch."""
        partition = ShareFetchPartition(partition_index=self.index, acknowledgement_batches=())
        topics = (ShareFetchTopic(topic_id=self._topic_id, partitions=(partition,)),)
        self.connection.send(
            frame_of(
                ShareFetchRequest(
                    group_id=self._group_id,
                    member_id=self.member_id,
                    share_session_epoch=self._session_epoch,
                    max_wait_ms=500,
                    min_bytes=1,
                    max_bytes=FETCH_BYTES,
                    max_records=RECORDS_PER_FETCH,
                    batch_size=RECORDS_PER_FETCH,
                    topics=topics if not self._session_epoch else (),
                    forgotten_topics_data=(),
                )
            )
        )
        self._session_epoch += 1

    def take_records(self) -> int:
        """Hear which records it has got; return how many."""
        answer = decoded(self.connection.receive(), ShareFetchResponse)
        assert not answer.error_code, answer
        self.taken = []
        for topic in answer.responses:
            for partition in topic.partitions:
                assert not partition.error_code, partition
                self.taken += [(each.first_offset, each.last_offset) for each in partition.acquired_records]
        return sum(last + 1 - first for first, last in self.taken)

    def accept(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Send that all of these were worked on."""
        batches = tuple(
            ShareAcknowledgeBatch(first_offset=first, last_offset=last, acknowledge_types=(ACCEPT,))
            for first, last in ranges
        )
        partition = ShareAcknowledgePartition(partition_index=self.index, acknowledgement_batches=batches)
        self.connection.send(
            frame_of(
                ShareAcknowledgeRequest(
                    group_id=self._group_id,
                    member_id=self.member_id,
                    share_session_epoch=self._session_epoch,
                    topics=(ShareAcknowledgeTopic(topic_id=self._topic_id, partitions=(partition,)),),
                )
            )
        )
        self._session_epoch += 1

    def accepted(self) -> None:
        """Hear that the broker has kept it."""
        answer = decoded(self.connection.receive(), ShareAcknowledgeResponse)
        assert not answer.error_code, answer
        assert not answer.responses[0].partitions[0].error_code, answer


class Group:
    """A member for each partition."""

    def __init__(self, address: Address) -> None:
        group_id = f"group-{uuid4()}"
        _begin_at_the_start(address, group_id)
        until(lambda: coordinator(address, group_id) is not None)
        topic_id = topic_of(address, TOPIC).topic_id
        self.members = [Member(address, group_id, topic_id) for _ in range(PARTITIONS)]
        while {each.index for each in self.members} != set(range(PARTITIONS)):
            for each in self.members:
                each.heartbeat()
            time.sleep(HEARTBEAT_SECONDS)  # A member learns its partitions by a heartbeat.

    def worked(self, records: int, *, one_by_one: bool) -> int:
        """Acquire so many records and acknowledge them.

        Return how many they were: all records of a fetch are used.
        """
        count = 0
        deadline = time.monotonic() + 120
        while count < records:
            assert time.monotonic() < deadline, f"{count} records of {records}"
            for each in self.members:
                each.ask_for_records()
            count += sum([each.take_records() for each in self.members])
            self._acknowledge(one_by_one=one_by_one)
        return count

    def _acknowledge(self, *, one_by_one: bool) -> None:
        if one_by_one:
            owed = {
                each: [(offset, offset) for first, last in each.taken for offset in range(first, last + 1)]
                for each in self.members
            }
            for number in range(max(map(len, owed.values()))):
                asking = [each for each, offsets in owed.items() if number < len(offsets)]
                for each in asking:
                    each.accept(owed[each][number : number + 1])
                for each in asking:
                    each.accepted()
            return
        asking = [each for each in self.members if each.taken]
        for each in asking:
            each.accept(each.taken)
        for each in asking:
            each.accepted()

    def close(self) -> None:
        """Close the connections: the broker forgets the sessions."""
        for each in self.members:
            each.connection.close()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=20_000, help="of each partition")
    parser.add_argument("--singles", type=int, default=2_000, help="of each partition, one by one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2, help="runs before that, for who compiles itself")
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
    print("\n".join(table(found)))


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
    broker = ApacheKafka(folder, *SETTINGS, options=KAFKA_JVM)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def figures(server: Server, options: argparse.Namespace) -> dict[str, list[Figure]]:
    """Return the result of each row, each time."""
    _fill(server.address, options.records)
    found: dict[str, list[Figure]] = {each: [] for each in ROWS}
    for number in range(options.warm_up + options.repeats):
        run = {}
        for row in ROWS:
            one_by_one = row == ROWS[0]
            group = Group(server.address)
            records = PARTITIONS * (options.singles if one_by_one else options.records)
            cpu, began = cpu_seconds(server.pid), time.monotonic()
            count = group.worked(records, one_by_one=one_by_one)
            cpu, wall = cpu_seconds(server.pid) - cpu, time.monotonic() - began
            group.close()
            run[row] = Figure(count / wall, count / cpu)
        warms_up = number < options.warm_up
        print(f"{server.pid}: {run}{' (warming up)' if warms_up else ''}", file=sys.stderr)
        if not warms_up:
            for row, figure in run.items():
                found[row].append(figure)
    return found


def _fill(address: Address, records: int) -> None:
    topic = CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=()
    )
    connection = Connection(address)
    answer = connection.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), CreateTopicsResponse)
    assert not answer.topics[0].error_code, answer
    until(lambda: len(topic_of(address, TOPIC).partitions) == PARTITIONS)
    for index in range(PARTITIONS):
        batch = produce_frame(TOPIC, index, RECORDS_PER_BATCH, VALUE_BYTES)

        def is_taken(batch: bytes = batch) -> bool:
            connection.send(batch)
            return is_produced(connection.receive())

        for _ in range(-(-records // RECORDS_PER_BATCH)):
            until(is_taken)
    connection.close()


def _begin_at_the_start(address: Address, group_id: str) -> None:
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name="share.auto.offset.reset", config_operation=0, value="earliest"
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group_id, configs=(config,)
    )
    connection = Connection(address)
    answer = connection.ask(
        IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False),
        IncrementalAlterConfigsResponse,
    )
    connection.close()
    assert [each.error_code for each in answer.responses] == [0], answer


def table(found: dict[str, dict[str, list[Figure]]]) -> Iterator[str]:
    """Yield the table as Markdown: medians, and how many times as much kohort does in its CPU time."""
    yield "| records a second, and a second of CPU | " + " | ".join(found) + " | by CPU |"
    yield "| --- |" + " ---: |" * (len(found) + 1)
    for row in ROWS:
        medians = [
            Figure(
                statistics.median(each.wall for each in of[row]),
                statistics.median(each.cpu for each in of[row]),
            )
            for of in found.values()
        ]
        ratio = f"{medians[0].cpu / medians[1].cpu:.2f}" if len(medians) == 2 else ""
        cells = " | ".join(f"{each.wall:,.0f}, {each.cpu:,.0f}" for each in medians)
        yield f"| acknowledged {row if row == ROWS[0] else 'in ' + row} | {cells} | {ratio} |"
    yield f"\n{PARTITIONS} partitions; broker and client on {os.cpu_count()} cores."


if __name__ == "__main__":
    main()
