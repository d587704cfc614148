"""The innocent client: a member of a group that commits, produces and reads back while others attack.

    echo HOST:PORT BROKER_PID | python -m tests.attacks.innocent

It runs in a process of its own, so that nobody else's work makes its clock lie. Every answer is compared
with the only right one, and timed. A round is a heartbeat, a commit, that commit read back, a record
produced, that record read back. After a calm stretch, which is the baseline, it prints `ready`; when its
standard input closes, it prints its report as JSON.

Waiting is what a `Stopwatch` calls so: what the machine's other work took is not the broker's fault.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kohort.protocol.records import build_batch, iterate_batches, iterate_records
from kohort.protocol.schema import Message
from tests.attacks.stopwatch import Stopwatch
from tests.attacks.wire import Line

GROUP, TOPIC = "innocent", "innocent"
BASELINE_S = 0.4
PAUSE_S = 0.01
SETTLED_WITHIN_S = 20.0
LOOK_EVERY_S = 0.5
GIVEN_UP_MS = 10_000.0  # of waiting for the broker,
GIVEN_UP_WALL_MS = 90_000.0  # however busy the machine is.
SESSION_MS = 120_000
RETRIABLE = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
CONFIGS = {  # Its own, so that what others set for the broker as a whole is no fault of the broker's.
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
VERSIONS = {  # Those that name topics instead of their ids.
    "CreateTopics": 5, "Fetch": 11, "Heartbeat": 4, "JoinGroup": 5, "OffsetCommit": 8,
    "OffsetFetch": 7, "Produce": 9, "SyncGroup": 4,
}  # fmt: skip


@dataclass
class Slowest:
    """The answer that kept the client waiting longest."""

    step: str = ""
    waited_ms: float = 0.0  # What the broker let it wait,
    took_ms: float = 0.0  # and what passed, the machine's other work with it.
    at_s: float = 0.0  # When it was asked, by the machine's monotonic clock.


@dataclass
class Report:
    """What the innocent client has seen."""

    answers: int = 0
    slowest: Slowest = field(default_factory=Slowest)
    baseline_ms: float = 0.0  # The longest wait before anybody attacked.
    p99_ms: float = 0.0  # What one of a hundred answers was waited for, and longer,
    baseline_p99_ms: float = 0.0  # and before anybody attacked.
    wrong: list[str] = field(default_factory=list)  # Answers that were wrong, or never came.

    def told(self) -> str:
        """Return it in one line."""
        slowest = self.slowest
        return (
            f"{self.answers} answers, slowest {slowest.waited_ms:.0f} ms ({slowest.step}; on the wall "
            f"{slowest.took_ms:.0f} ms), before the attack {self.baseline_ms:.0f} ms; "
            f"p99 {self.p99_ms:.0f} ms, before {self.baseline_p99_ms:.0f} ms"
        )


M = TypeVar("M", bound=Message)


class Wrong(Exception):
    """An answer is not the right one, or did not come."""


class Client:
    """The client itself; `report` grows with each answer."""

    def __init__(self, address: tuple[str, int], broker_pid: int) -> None:
        self.report = Report()
        self.waits_ms: list[float] = []
        self._line = Line(address, timeout_s=LOOK_EVERY_S, client_id="innocent")
        self._broker_pid = broker_pid
        self._member_id = ""
        self._generation_id = -1
        self._round = 0

    def settle(self) -> None:
        """Create the topic and become the group's only member. Raises: Wrong."""
        configs = tuple(CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items())
        topic = CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=configs
        )
        created = self._ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        self._expect("CreateTopics", [each.error_code for each in created.topics], [ErrorCode.NONE])
        self._join()

    def _join(self) -> None:
        deadline_s = time.monotonic() + SETTLED_WITHIN_S
        while True:
            joined = self._ask(self._join_request(), JoinGroupResponse)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
            elif joined.error_code not in RETRIABLE:
                break
            elif time.monotonic() > deadline_s:
                raise Wrong(f"no coordinator within {SETTLED_WITHIN_S} s")
            else:
                time.sleep(PAUSE_S)
        self._expect("JoinGroup", joined.error_code, ErrorCode.NONE)
        self._generation_id = joined.generation_id
        share = SyncGroupRequestAssignment(member_id=self._member_id, assignment=b"all of it")
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._generation_id,
            member_id=self._member_id,
            assignments=(share,),
        )
        synced = self._ask(request, SyncGroupResponse)
        self._expect("SyncGroup", (synced.error_code, synced.assignment), (ErrorCode.NONE, b"all of it"))

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )

    def round(self) -> None:
        """Ask everything once. Raises: Wrong."""
        number, self._round = self._round, self._round + 1
        beat = HeartbeatRequest(group_id=GROUP, generation_id=self._generation_id, member_id=self._member_id)
        self._expect("Heartbeat", self._ask(beat, HeartbeatResponse).error_code, ErrorCode.NONE)
        self._commit(number)
        self._read_commit(number)
        value = b"value %d" % number
        self._produce(number, value)
        self._fetch(number, value)

    def _commit(self, number: int) -> None:
        place = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=number, committed_metadata=f"round {number}"
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self._generation_id,
            member_id=self._member_id,
            topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(place,)),),
        )
        answer = self._ask(request, OffsetCommitResponse)
        found = [(t.name, p.partition_index, p.error_code) for t in answer.topics for p in t.partitions]
        self._expect("OffsetCommit", found, [(TOPIC, 0, ErrorCode.NONE)])

    def _read_commit(self, number: int) -> None:
        request = OffsetFetchRequest(
            group_id=GROUP, topics=(OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,)),)
        )
        answer = self._ask(request, OffsetFetchResponse)
        found = [
            (t.name, p.partition_index, p.committed_offset, p.metadata, p.error_code)
            for t in answer.topics
            for p in t.partitions
        ]
        self._expect("OffsetFetch", found, [(TOPIC, 0, number, f"round {number}", ErrorCode.NONE)])

    def _produce(self, number: int, value: bytes) -> None:
        batch = build_batch([(int(time.time() * 1000), None, value, ())])
        data = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=0, records=batch),))
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(data,))
        answer = self._ask(request, ProduceResponse)
        found = [(p.error_code, p.base_offset) for t in answer.responses for p in t.partition_responses]
        self._expect("Produce", found, [(ErrorCode.NONE, number)])

    def _fetch(self, number: int, value: bytes) -> None:
        wanted = FetchPartition(partition=0, fetch_offset=number, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=5_000,
            min_bytes=1,
            topics=(FetchTopic(topic=TOPIC, partitions=(wanted,)),),
            forgotten_topics_data=(),
        )
        answer = self._ask(request, FetchResponse)
        found = [
            (partition.error_code, read(partition.records))
            for topic in answer.responses
            for partition in topic.partitions
        ]
        self._expect("Fetch", found, [(ErrorCode.NONE, [(number, value)])])

    def _ask(self, message: Message, kind: type[M]) -> M:
        """Return the answer, timed. Raises: Wrong."""
        step = kind.__name__.removesuffix("Response")
        watch = Stopwatch(self._broker_pid)
        try:
            self._line.send(message, VERSIONS[step])
            while (answer := self._look_for(kind)) is None:
                if watch.waited_ms() > GIVEN_UP_MS or watch.took_ms() > GIVEN_UP_WALL_MS:
                    raise Wrong(f"{step}: no answer in {watch.waited_ms():.0f} ms")
        except (OSError, WireError, ValueError) as error:
            raise Wrong(f"{step}: {error!r}") from error
        finally:
            waited_ms = watch.waited_ms()
            self.waits_ms.append(waited_ms)
            if waited_ms > self.report.slowest.waited_ms:
                self.report.slowest = Slowest(step, waited_ms, watch.took_ms(), watch.began_s)
        self.report.answers += 1
        return answer

    def _look_for(self, kind: type[M]) -> M | None:
        """Return the answer, or None while there is none. Raises: OSError, WireError, ValueError."""
        try:
            return self._line.answer(kind)
        except TimeoutError:
            return None

    @staticmethod
    def _expect(step: str, found: object, right: object) -> None:
        if found != right:
            raise Wrong(f"{step}: {found!r} instead of {right!r}")


def read(records: object) -> list[tuple[int, bytes | None]]:
    """Return offset and value of the records that an answer brought. Raises: Wrong."""
    assert isinstance(records, bytes | memoryview | None)
    try:
        return [
            (record.offset, record.value)
            for batch in iterate_batches(records or b"", check_crcs=True)
            for record in iterate_records(batch)
        ]
    except WireError as error:
        raise Wrong(f"Fetch: records that cannot be read: {error}") from error


def watch(client: Client) -> Report:
    """Go round until standard input closes, or something is wrong; return what was seen."""
    try:
        client.settle()
        client.report, client.waits_ms = Report(), []  # How long the group took to form is not the question.
        baseline_ends_s = time.monotonic() + BASELINE_S
        while time.monotonic() < baseline_ends_s:
            client.round()
            time.sleep(PAUSE_S)
        client.report = Report(
            baseline_ms=client.report.slowest.waited_ms, baseline_p99_ms=percentile_99(client.waits_ms)
        )
        client.waits_ms = []
        print("ready", flush=True)  # noqa: T201  # It is what its parent waits for.
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            client.round()
    except Wrong as wrong:
        client.report.wrong.append(str(wrong))
    client.report.p99_ms = percentile_99(client.waits_ms)
    return client.report


def percentile_99(waits_ms: list[float]) -> float:
    """Return what one of a hundred took, or longer."""
    return sorted(waits_ms)[len(waits_ms) * 99 // 100] if waits_ms else 0.0


class Innocent:
    """The client's process, as the one who attacks sees it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.attacks.innocent"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )

    def visit(self, bootstrap: str, broker_pid: int) -> None:
        """Return once it goes round there, and knows its baseline. Raises: AssertionError with its report."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{bootstrap} {broker_pid}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line == "ready\n", f"the innocent client is wronged before anybody attacks: {line}"

    def goes_round(self) -> bool:
        """Return whether it still asks: it stops at the first wrong answer."""
        return self._process.poll() is None

    def report(self) -> Report:
        """Let it end; return what it has seen."""
        told, _ = self._process.communicate(timeout=GIVEN_UP_WALL_MS / 500)
        values = json.loads(told)
        return Report(**{**values, "slowest": Slowest(**values["slowest"])})

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Run from the command line."""
    bootstrap, broker_pid = sys.stdin.readline().split()
    host, port = bootstrap.rsplit(":", 1)
    report = watch(Client((host, int(port)), int(broker_pid)))
    print(json.dumps(asdict(report)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
