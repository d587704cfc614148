"""The same load for long: memory, CPU time a request and latencies are in the end what they were before.

KOHORT_TEST_LOAD_S=600 (`make nightly`) has ten minutes of it. In a few seconds, as `make test` has it, every
answer is looked at, and that memory does not run away.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.parts import conversations as say
from benchmarks.parts.in_process import decoded, frame
from benchmarks.parts.raw_client import Connection

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.protocol.messages.offset_commit import OffsetCommitResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchResponse
from kohort.protocol.messages.produce import ProduceResponse
from kohort.protocol.messages.sync_group import SyncGroupResponse
from tests.interop.broker_process import BrokerProcess

SECONDS = float(os.environ.get("KOHORT_TEST_LOAD_S", "5"))
LONG_SECONDS = 60.0
"""From here on a run is long enough to compare its quarters."""
GROUPS = 20
CHURNING = 50
ROUND_SECONDS = 0.05
PROBE_SECONDS = 0.02
SAMPLE_SECONDS = 0.25
PATIENCE_SECONDS = 60.0
GROWTH_BYTES_MAX = 6 * 2**20
GROWTH_BYTES_MAX_SHORT = 40 * 2**20  # A broker that has just started has much to load yet.
CPU_RATIO_MAX = 1.3
LATENCY_RATIO_MAX = 2.0
LATENCY_SECONDS_MAX = 0.005  # By which a median may grow anyway, where others keep the machine busy.
SETTINGS = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=8")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path, *SETTINGS)
    process.start()
    yield process
    process.kill()


class Asking:
    """A connection that asks, and looks at every answer."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._line = Connection(broker.address, PATIENCE_SECONDS)
        self.requests = 0

    def ask(self, frames: list[bytes], code: Callable[[bytes], int]) -> list[bytes]:
        """Return the answers to requests that are sent together; none has an error."""
        self._line.send(b"".join(frames))
        answers = [self._line.receive() for _ in frames]
        self.requests += len(frames)
        for each in answers:
            assert code(each) == ErrorCode.NONE, ErrorCode(code(each)).name
        return answers

    def until_ready(self, request: bytes, code: Callable[[bytes], int]) -> bytes:
        """Return the answer to a request, sent again while the broker loads what it is about."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self._line.send(request)
            answer = self._line.receive()
            if code(answer) not in say.LOADING:
                assert code(answer) == ErrorCode.NONE, ErrorCode(code(answer)).name
                return answer
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def joined(self, group_id: str) -> JoinGroupResponse:
        """Return what the only member of a group was told, which is stable then."""
        first = decoded(self.until_ready(frame(say.join(group_id, "")), told_an_id), JoinGroupResponse)
        (answer,) = self.ask([frame(say.join(group_id, first.member_id))], joined_code)
        found = decoded(answer, JoinGroupResponse)
        self.ask([frame(say.sync(group_id, found))], lambda each: decoded(each, SyncGroupResponse).error_code)
        return found

    def leave(self, group_id: str, member_id: str) -> None:
        """Have a member leave."""
        request = LeaveGroupRequest(group_id=group_id, members=(MemberIdentity(member_id=member_id),))
        self.ask([frame(request)], lambda each: decoded(each, LeaveGroupResponse).error_code)

    def close(self) -> None:
        self._line.close()


class Load(threading.Thread):
    """Members that live, commit and ask; records written and read; members that come and go."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        super().__init__(daemon=True)
        self._asking = Asking(broker)
        self._topic = topic
        self.failure: Exception | None = None
        self.ends = threading.Event()

    @property
    def requests(self) -> int:
        """How many have been answered."""
        return self._asking.requests

    def run(self) -> None:
        try:
            self._run()
        except Exception as failure:  # noqa: BLE001  # The test tells of it.
            self.failure = failure
        finally:
            self._asking.close()

    def _run(self) -> None:
        asking, topic = self._asking, self._topic
        groups = [f"steady-{number}" for number in range(GROUPS)]
        beats = [frame(say.heartbeat(each, asking.joined(each))) for each in groups]
        others = [f"alone-{number}" for number in range(GROUPS)]
        commits = [frame(say.commit(each, topic)) for each in others]
        for each in commits:
            asking.until_ready(each, taken)
        fetches = [frame(say.offset_fetch(each, topic)) for each in others]
        written = frame(record(topic))
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=16_384)
        read = frame(
            FetchRequest(
                max_wait_ms=0, min_bytes=1, topics=(FetchTopic(topic=topic, partitions=(partition,)),)
            )
        )
        turn = 0
        while not self.ends.wait(ROUND_SECONDS):
            asking.ask(beats, heard)
            asking.ask(commits, taken)
            asking.ask(fetches, fetched_offset)
            asking.ask([written] * 5, produced)
            asking.ask([read] * 5, lambda answer: ErrorCode.NONE)
            group_id = f"churning-{turn % CHURNING}"
            asking.leave(group_id, asking.joined(group_id).member_id)
            turn += 1


class Samples:
    """What was seen, and when."""

    def __init__(self) -> None:
        self.memory_bytes: list[float] = []
        self.cpu_seconds: list[float] = []
        self.requests: list[int] = []
        self.latencies: list[float] = []

    def of_quarter(self, values: list[float], number: int) -> list[float]:
        """Return the values of a quarter, 0 to 3."""
        quarter = len(values) // 4
        return values[number * quarter : (number + 1) * quarter]

    def growth_bytes(self) -> float:
        """Return by how much the last quarter's memory is more than the second's."""
        last, before = (statistics.median(self.of_quarter(self.memory_bytes, each)) for each in (3, 1))
        return last - before

    def cpu_ratio(self) -> float:
        """Return how many times the second quarter's CPU time a request has taken in the last."""
        spent = []
        for number in (3, 1):
            seconds = self.of_quarter(self.cpu_seconds, number)
            requests = self.of_quarter([float(each) for each in self.requests], number)
            spent.append((seconds[-1] - seconds[0]) / (requests[-1] - requests[0]))
        return spent[0] / spent[1]

    def medians(self) -> tuple[float, float]:
        """Return the median latency of the second quarter and of the last."""
        return (
            statistics.median(self.of_quarter(self.latencies, 1)),
            statistics.median(self.of_quarter(self.latencies, 3)),
        )


def test_memory_and_latencies_are_flat_under_a_steady_load(
    broker: BrokerProcess, record_property: Callable[[str, object], None]
) -> None:
    probe, topic = Asking(broker), "steady"
    made = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=(), configs=())
    probe.ask(
        [frame(CreateTopicsRequest(topics=(made,), timeout_ms=30_000))],
        lambda answer: decoded(answer, CreateTopicsResponse).topics[0].error_code,
    )
    probe.until_ready(frame(record(topic)), produced)
    load = Load(broker, topic)
    load.start()
    commit = frame(say.commit("probe", topic))
    probe.until_ready(commit, taken)
    samples = Samples()
    ends = time.monotonic() + SECONDS
    next_sample = time.monotonic()
    while time.monotonic() < ends and load.failure is None:
        began = time.perf_counter()
        probe.ask([commit], taken)
        samples.latencies.append(time.perf_counter() - began)
        if time.monotonic() >= next_sample:
            next_sample += SAMPLE_SECONDS
            samples.memory_bytes.append(broker.resident_bytes())
            samples.cpu_seconds.append(cpu_seconds(broker.pid))
            samples.requests.append(load.requests + probe.requests)
        time.sleep(PROBE_SECONDS)  # The pace, not a wait.
    load.ends.set()
    load.join(PATIENCE_SECONDS)
    assert load.failure is None, load.failure
    probe.close()
    before_s, after_s = samples.medians()
    told = {
        "requests": load.requests,
        "memory, MiB": round(samples.memory_bytes[-1] / 2**20, 1),
        "grown, MiB": round(samples.growth_bytes() / 2**20, 2),
        "CPU a request, ratio": round(samples.cpu_ratio(), 3),
        "latency before, ms": round(before_s * 1e3, 2),
        "latency after, ms": round(after_s * 1e3, 2),
    }
    for name, value in told.items():
        record_property(name, value)
    print(told)  # noqa: T201  # With -s, as the nightly run has it.
    is_long = SECONDS >= LONG_SECONDS
    assert samples.growth_bytes() < (GROWTH_BYTES_MAX if is_long else GROWTH_BYTES_MAX_SHORT), told
    if is_long:
        assert samples.cpu_ratio() < CPU_RATIO_MAX, told
        assert after_s < before_s * LATENCY_RATIO_MAX + LATENCY_SECONDS_MAX, told


def cpu_seconds(pid: int) -> float:
    """Return what all threads of a process have used, by the scheduler's count."""
    nanoseconds = 0
    for each in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # A thread that has ended meanwhile.
            nanoseconds += int((each / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def record(topic: str) -> say.ProduceRequest:
    return say.produce(topic, timestamp_ms=int(time.time() * 1_000))


def heard(answer: bytes) -> int:
    return decoded(answer, HeartbeatResponse).error_code


def taken(answer: bytes) -> int:
    return say.committed(decoded(answer, OffsetCommitResponse))


def produced(answer: bytes) -> int:
    return say.produced(decoded(answer, ProduceResponse))


def fetched_offset(answer: bytes) -> int:
    return decoded(answer, OffsetFetchResponse).groups[0].error_code


def joined_code(answer: bytes) -> int:
    return decoded(answer, JoinGroupResponse).error_code


def told_an_id(answer: bytes) -> int:
    """Return NONE where a new member was given its id, as it has to be."""
    code = decoded(answer, JoinGroupResponse).error_code
    return ErrorCode.NONE if code == ErrorCode.MEMBER_ID_REQUIRED else code


def test_growth_is_detected() -> None:
    samples = Samples()
    for number in range(400):
        samples.memory_bytes.append(50e6 + number * 50_000)
        samples.cpu_seconds.append(number * 0.1 + number**2 * 0.001)
        samples.requests.append(number * 100)
        samples.latencies.append(0.001 + number * 0.001)
    assert samples.growth_bytes() > GROWTH_BYTES_MAX
    assert samples.cpu_ratio() > CPU_RATIO_MAX
    before_s, after_s = samples.medians()
    assert after_s > before_s * LATENCY_RATIO_MAX + LATENCY_SECONDS_MAX


def test_flat_measurements_pass() -> None:
    samples = Samples()
    for number in range(400):
        samples.memory_bytes.append(50e6 + (number % 7) * 100_000)
        samples.cpu_seconds.append(number * 0.1)
        samples.requests.append(number * 100)
        samples.latencies.append(0.001 + (number % 5) * 0.0001)
    assert samples.growth_bytes() < GROWTH_BYTES_MAX
    assert samples.cpu_ratio() == pytest.approx(1.0)
    before_s, after_s = samples.medians()
    assert after_s < before_s * LATENCY_RATIO_MAX + LATENCY_SECONDS_MAX
