"""10,000 groups and 1,000 topics: no page takes a second, and a flood of them costs groups little.

KOHORT_TEST_LARGE=1 (`make large`) runs it.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from kohort.client import Admin, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from tests.interop.broker_process import BrokerProcess

pytestmark = pytest.mark.skipif(
    os.environ.get("KOHORT_TEST_LARGE") != "1", reason="KOHORT_TEST_LARGE=1 runs it"
)

GROUPS, TOPICS = 10_000, 1_000
SECONDS_MAX = 1.0
PAGE_BYTES_MAX = 16 * 1024 * 1024
MEMORY_BYTES_MAX = 500 * 1024 * 1024
COMMITS = 400
WINDOWS = 9
STALL_SECONDS, STALL_EVERY_SECONDS = 0.05, 0.1
ROOT = Path(__file__).parents[2]
TIMES_MAX = 2.0
PATHS = (
    "/metrics",
    "/api/v1/groups",
    "/api/v1/live/groups",
    "/api/v1/live/topics",
    "/api/v1/live/health",
    "/api/v1/groups/group-00007",
)
MORE_PATHS = (
    "/api/v1/live/topic?name=topic-0000",
    "/api/v1/live/messages/topic-0000?partition=all",
    "/api/v1/live/transactions",
    "/api/v1/live/access",
)
"""What one looks at less often; a page of it takes no longer."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("many"), "offsets.topic.num.partitions=8")
    process.start()
    try:
        with Admin(bootstrap_servers=process.bootstrap) as admin:
            names = [f"topic-{number:04}" for number in range(TOPICS)]
            for begin in range(0, TOPICS, 100):
                admin.create_topics(*(NewTopic(name, partitions=1) for name in names[begin : begin + 100]))
        with Producer(bootstrap_servers=process.bootstrap) as producer:
            for name in names:
                producer.send(name, value=b"x")
        in_threads(lambda first: make_groups(process.bootstrap, first), 4)
        yield process
    finally:
        process.stop()


def make_groups(bootstrap: str, first: int) -> None:
    """Have a fourth of the groups commit."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        for number in range(first, GROUPS, 4):
            place = TopicPartition(f"topic-{number % TOPICS:04}", 0)
            admin.alter_group_offsets(f"group-{number:05}", {place: OffsetAndMetadata(0)})


def in_threads(work: object, count: int) -> None:
    """Call a function with 0, 1, ... in threads of their own, and return when all have ended."""
    assert callable(work)
    threads = [threading.Thread(target=work, args=(each,)) for each in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def get(broker: BrokerProcess, path: str) -> tuple[int, bytes]:
    host, port = broker.http.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def memory_bytes(pid: int) -> int:
    """Return what a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("path", [*PATHS, *MORE_PATHS])
def test_a_page_takes_less_than_a_second(broker: BrokerProcess, path: str) -> None:
    get(broker, path)  # What is imported at the first request is none of its work.
    times: list[float] = []
    for _ in range(3):
        time.sleep(1.1)  # Pages are kept for a second.
        began = time.perf_counter()
        status, body = get(broker, path)
        times.append(time.perf_counter() - began)
        assert status == 200
        assert 0 < len(body) < PAGE_BYTES_MAX
    assert min(times) < SECONDS_MAX, times


class Windows(NamedTuple):
    """How long commits took, in windows that follow one another: the 99th of 100, in seconds."""

    calm: list[float]
    flooded: list[float]

    @property
    def ratio(self) -> float:
        """How many times as long they take under the flood, by medians: one window does not move them."""
        return median(self.flooded) / median(self.calm)


def test_a_flood_on_http_leaves_commit_latency_and_memory_bounded(broker: BrokerProcess) -> None:
    with flood(broker) as told:
        windows = measured(broker, told)
        held = memory_bytes(broker.pid)
    sys.stdout.write(f"p99 of commits in ms: calm {in_ms(windows.calm)}, flooded {in_ms(windows.flooded)}\n")
    sys.stdout.write(f"{windows.ratio:.2f} times as long; {held / 1024**2:.0f} MB resident\n")
    assert held < MEMORY_BYTES_MAX
    assert windows.ratio < TIMES_MAX, windows


def test_a_stalling_broker_fails_the_latency_check(broker: BrokerProcess) -> None:
    """What the test above would say of pages made in one go, which takes longer than these stalls."""
    with stalls(broker) as told:
        windows = measured(broker, told)
    assert windows.ratio > TIMES_MAX, windows


@contextmanager
def flood(broker: BrokerProcess) -> Iterator[Callable[[str], None]]:
    """Yield what has a flood begin and rest.

    It is a process of its own: what it computes is none of the time that a commit takes.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.large.http_flood", broker.http, *PATHS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def tell(order: str) -> None:
        stdin.write(f"{order}\n")
        stdin.flush()
        assert stdout.readline() == f"{order}\n"

    try:
        yield tell
    finally:
        asked, _ = process.communicate(timeout=60)
        sys.stdout.write(f"{asked.strip()} pages were asked for\n")


def measured(broker: BrokerProcess, tell: Callable[[str], None]) -> Windows:
    """Return how long commits take, calm and flooded by turns, so that what others do meets both."""
    windows = Windows([], [])
    p99_of_commits(broker)  # What is imported and opened first is none of it.
    for _ in range(WINDOWS):
        tell("rest")
        windows.calm.append(p99_of_commits(broker))
        tell("flood")
        windows.flooded.append(p99_of_commits(broker))
    return windows


@contextmanager
def stalls(broker: BrokerProcess) -> Iterator[Callable[[str], None]]:
    """Yield what has a broker stand still again and again, and go on without."""
    is_wanted, is_ended = threading.Event(), threading.Event()

    def stall() -> None:
        while not is_ended.wait(STALL_EVERY_SECONDS):
            if is_wanted.is_set():
                os.kill(broker.pid, signal.SIGSTOP)
                time.sleep(STALL_SECONDS)
                os.kill(broker.pid, signal.SIGCONT)

    stalling = threading.Thread(target=stall)
    stalling.start()
    try:
        yield lambda order: is_wanted.set() if order == "flood" else is_wanted.clear()
    finally:
        is_ended.set()
        stalling.join()


def p99_of_commits(broker: BrokerProcess) -> float:
    """Return the time in seconds that 99 of 100 commits of one client take at most."""
    times: list[float] = []
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        for number in range(COMMITS):
            began = time.perf_counter()
            admin.alter_group_offsets(
                f"group-{number:05}", {TopicPartition("topic-0000", 0): OffsetAndMetadata(1)}
            )
            times.append(time.perf_counter() - began)
    return sorted(times)[COMMITS * 99 // 100]


def in_ms(times: list[float]) -> str:
    return " ".join(f"{1000 * each:.1f}" for each in sorted(times))
