"""How large `__consumer_offsets` is while a few groups commit millions of times, and after a restart.

python benchmarks/offsets.py [COMMITS] [--set NAME=VALUE]...     10000000 is what the project promises

All groups share one partition. The broker is a separate process, with its default settings; commits
are sent in requests of 100, with a few in flight at once.
"""

import argparse
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import deque
from pathlib import Path
from typing import NamedTuple

from kohort.protocol.headers import RequestHeader
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

TOPIC = "orders"
GROUPS = 10
PARTITIONS = 100
WINDOW = 8
VERSIONS = {"OffsetCommit": 8, "OffsetFetch": 8, "CreateTopics": 5, "FindCoordinator": 4}
SAMPLE_SECONDS = 0.5


class Process(NamedTuple):
    """A broker that serves."""

    process: subprocess.Popen[str]
    port: int
    http: str

    @classmethod
    def start(cls, data: str, settings: list[str]) -> "Process":
        """Return it once it is ready."""
        command = [sys.executable, "-m", "kohort.broker", "--listen", "127.0.0.1:0", "--data", data]
        command += ["--http", "127.0.0.1:0", "--log-level", "error"]
        command += ["--set", "offsets.topic.num.partitions=1"]
        for each in settings:
            command += ["--set", each]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        words = dict(word.split("=", 1) for word in process.stdout.readline().split() if "=" in word)
        return cls(process, int(words["kafka"].rpartition(":")[2]), words["http"])

    def stop(self) -> None:
        """End it cleanly."""
        self.process.terminate()
        self.process.wait(600)

    def metric(self, name: str) -> float:
        """Return the value of a metric without labels."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=10) as page:
            for line in page.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[1])
        raise LookupError(name)


class Client:
    """One connection; several requests may be in flight."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def send(self, message: Message) -> None:
        """Send a request."""
        name = type(message).__name__.removesuffix("Request")
        api, version = BY_NAME[name], VERSIONS[name]
        header = RequestHeader(
            request_api_key=api.api_key, request_api_version=version, correlation_id=0, client_id="bench"
        )
        frame = header.encode(api.request_header_version(version)) + message.encode(version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, header_bytes: int) -> bytes:
        """Return the body of the next answer."""
        (size,) = struct.unpack(">i", self._file.read(4))
        return self._file.read(size)[header_bytes:]


def commit_of(group: int, offset: int) -> OffsetCommitRequest:
    """Return a commit of the same offset in every partition."""
    places = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in range(PARTITIONS)
    )
    return OffsetCommitRequest(
        group_id=f"group-{group}", topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=places),)
    )


def prepare(client: Client) -> None:
    """Create the topic, and wait until every group has its coordinator."""
    topic = CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=()
    )
    client.send(CreateTopicsRequest(topics=(topic,), timeout_ms=30_000))
    client.receive(5)
    client.send(FindCoordinatorRequest(coordinator_keys=tuple(f"group-{each}" for each in range(GROUPS))))
    client.receive(5)
    while not committed_without_error(client):
        time.sleep(0.1)  # The coordinator is loading, and sends no notice when it is ready.


def committed_without_error(client: Client) -> bool:
    """Return whether commits work by now."""
    client.send(commit_of(0, 0))
    answer = OffsetCommitResponse.decode(client.receive(5), VERSIONS["OffsetCommit"])
    return not any(each.error_code for each in answer.topics[0].partitions)


def fetched(client: Client, group: int) -> set[int]:
    """Return the offsets of a group in all partitions; asked again while it is loaded."""
    while True:
        asked = OffsetFetchRequestGroup(group_id=f"group-{group}", topics=None)
        client.send(OffsetFetchRequest(groups=(asked,)))
        (answer,) = OffsetFetchResponse.decode(client.receive(5), VERSIONS["OffsetFetch"]).groups
        if not answer.error_code:
            return {each.committed_offset for topic in answer.topics for each in topic.partitions}
        time.sleep(0.05)  # A question takes time from the loading, which is measured.


def sizes(folder: Path) -> tuple[int, int]:
    """Return the bytes of the log, and of the files that wait for their removal."""
    found = [(path.name, path.stat().st_size) for path in folder.iterdir()]
    return (
        sum(size for name, size in found if name.endswith(".log")),
        sum(size for name, size in found if name.endswith(".deleted")),
    )


def main() -> int:
    """Run, and print the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("commits", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    rounds = arguments.commits // (GROUPS * PARTITIONS)
    with tempfile.TemporaryDirectory() as data:
        broker = Process.start(data, arguments.settings)
        client = Client(broker.port)
        prepare(client)
        folder = Path(data) / "__consumer_offsets-0"
        begun: deque[float] = deque()
        latencies: list[float] = []
        largest = largest_deleted = 0
        begin = next_sample = time.perf_counter()
        for number in range(1, rounds + 1):
            for group in range(GROUPS):
                client.send(commit_of(group, number))
                begun.append(time.perf_counter())
                if len(begun) >= WINDOW:
                    client.receive(5)
                    latencies.append(time.perf_counter() - begun.popleft())
            if time.perf_counter() >= next_sample:
                live, deleted = sizes(folder)
                largest, largest_deleted = max(largest, live), max(largest_deleted, deleted)
                next_sample = time.perf_counter() + SAMPLE_SECONDS
        for _ in begun:
            client.receive(5)
        seconds = time.perf_counter() - begin
        latencies.sort()
        print(f"{rounds * GROUPS * PARTITIONS:,} commits to {GROUPS * PARTITIONS:,} keys in {seconds:.0f} s")
        print(f"  {rounds * GROUPS * PARTITIONS / seconds:,.0f} a second, {WINDOW} requests of 100 under way")
        for share in (0.5, 0.99, 0.999):
            print(f"  p{share * 100:g} {latencies[int(len(latencies) * share)] * 1000:.1f} ms")
        print(f"  longest {latencies[-1] * 1000:.1f} ms")
        print(f"log at most {largest / 1e6:.0f} MB, old files at most {largest_deleted / 1e6:.0f} MB")
        print(f"log at the end {sizes(folder)[0] / 1e6:.0f} MB")
        for name in ("rounds", "read_bytes", "written_bytes", "seconds"):
            print(f"cleaner {name} {broker.metric(f'kohort_log_cleaner_{name}_total'):,.0f}")
        broker.stop()
        begin = time.perf_counter()
        broker = Process.start(data, arguments.settings)
        client = Client(broker.port)
        for group in range(GROUPS):
            offsets = fetched(client, group)
            assert offsets == {rounds}, (group, offsets)
        print(f"every offset there {time.perf_counter() - begin:.1f} s after a restart began")
        broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
