"""How fast `kohort observe` is: 1,000 groups, 10,000 partitions, 50,000 commits a second, on Apache Kafka.

    python benchmarks/observe.py [--rate 50000] [--backlog 2000000] [--seconds 20]

Commits are written to `__consumer_offsets` as a coordinator writes them: one batch of ten a group.
First the observer reads a backlog. Then it follows at the rate, is killed, and reads what was
written meanwhile. It prints records a second, CPU, memory and the requests to the cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from kohort.client import Admin, NewTopic
from kohort.observe.topics import partition_of
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from tests.differential.apache_kafka import ApacheKafka

TOPICS, GROUPS, OF_EACH, OFFSETS_PARTITIONS = 10, 1_000, 10, 50
READY = "kohort observe ready http="
TICKS = os.sysconf("SC_CLK_TCK")
WAIT_SECONDS_MAX = 240.0
START_SECONDS = 5.0
ADMIN_CLIENT = "__admin_client"
"""Kafka lets clients of this name write to internal topics."""


def write(bootstrap: str, rate: int, count: int) -> None:
    """Write `count` commits, or with 0 without end; `rate` a second, or with 0 as fast as possible."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "client.id": ADMIN_CLIENT, "batch.num.messages": OF_EACH}
    settings |= {"linger.ms": 5, "queue.buffering.max.messages": 400_000, "acks": 1, "max.in.flight": 1_000}
    producer = Producer(settings)
    places = []
    for group in range(GROUPS):
        name = f"group-{group}"
        place = partition_of(name, OFFSETS_PARTITIONS)
        told = GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol=None,
            leader=None,
            current_state_timestamp=0,
            members=(),
        )
        producer.produce(
            "__consumer_offsets",
            encode_value(told),
            encode_key(GroupMetadataKey(group=name)),
            partition=place,
        )
        for each in range(OF_EACH):
            key = OffsetCommitKey(group=name, topic=f"topic-{each}", partition=group)
            value = bytearray(
                encode_value(
                    OffsetCommitValue(offset=0, metadata="", commit_timestamp=time.time_ns() // 1_000_000)
                )
            )
            places.append((encode_key(key), value, place))
    began, written, offset = time.monotonic(), 0, 0
    while not count or written < count:
        offset += 1
        for index, (key, value, place) in enumerate(places):
            struct.pack_into(">q", value, 2, offset)
            while True:
                try:
                    producer.produce("__consumer_offsets", bytes(value), key, partition=place)
                except BufferError:
                    producer.poll(0.05)
                else:
                    break
            if index % 1_000 == 0:
                producer.poll(0)
                ahead = (written + index) / rate - (time.monotonic() - began) if rate else 0
                if ahead > 0:
                    time.sleep(ahead)
        written += len(places)
    producer.flush()


class Observed:
    """The observer's process, and what it costs."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        command = [sys.executable, "-m", "kohort.cli", "observe", "-b", bootstrap, "--http", "127.0.0.1:0"]
        command += ["--store", str(folder / "observe.db"), "--quiet"]
        self._began = time.monotonic()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._http = self._process.stdout.readline().removeprefix(READY).split()[0]

    def status(self) -> dict[str, object]:
        """Return what it says of itself."""
        with urllib.request.urlopen(f"http://{self._http}/api/v1/cluster", timeout=30) as answer:
            found: dict[str, object] = json.loads(answer.read())
            return found

    def records(self) -> int:
        """Return how many records it has read."""
        with urllib.request.urlopen(f"http://{self._http}/metrics", timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("kohort_observe_records_total"):
                    return int(float(line.split()[1]))
        return 0

    def cpu_seconds(self) -> float:
        """Return the CPU time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_mib(self) -> float:
        """Return the most memory that it had."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) / 1_024

    def kill(self) -> None:
        """Kill it."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def catch_up(self) -> tuple[float, float]:
        """Wait until all is read; return the time and the CPU time that it took."""
        wait(lambda: bool(self.status()["is_caught_up"]))
        return time.monotonic() - self._began, self.cpu_seconds()


def wait(condition: Callable[[], bool]) -> None:
    """Return once the condition holds. Raises: TimeoutError."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (OSError, urllib.error.URLError):
            pass  # It is not up yet.
        time.sleep(0.1)  # The observer does not tell when it has caught up.
    raise TimeoutError("it has not caught up")


def measure(bootstrap: str, folder: Path, rate: int, backlog: int, seconds: float) -> None:
    """Print the figures."""
    writer = [sys.executable, __file__, "--write", bootstrap]
    subprocess.run([*writer, "--rate", "0", "--backlog", str(backlog)], check=True)
    observer = Observed(bootstrap, folder)
    took, cpu = observer.catch_up()
    read = observer.records()
    print(f"backlog: {read:,} records in {took:.1f} s, {read / took:,.0f}/s, {read / cpu:,.0f}/s of CPU")
    live = subprocess.Popen([*writer, "--rate", str(rate), "--backlog", "0"])
    try:
        time.sleep(START_SECONDS)  # The writer starts, and comes to its rate.
        read, cpu, calls = observer.records(), observer.cpu_seconds(), _calls(observer)
        began = time.monotonic()
        time.sleep(seconds)  # The time that is measured.
        passed = time.monotonic() - began
        share = (observer.cpu_seconds() - cpu) / passed
        status = observer.status()
        print(
            f"live: {(observer.records() - read) / passed:,.0f}/s read of {rate:,}/s, {share:.0%} of a core, "
            f"{status['behind']} behind, {observer.peak_mib():.0f} MiB at most, "
            f"{(_calls(observer) - calls) / passed:.1f} requests/s"
        )
        observer.kill()
        time.sleep(seconds / 2)  # What is written meanwhile is read after the restart.
        observer = Observed(bootstrap, folder)
        took, cpu = observer.catch_up()
        read = observer.records()
        print(f"restart: {read:,} records in {took:.1f} s, {read / took:,.0f}/s, {read / cpu:,.0f}/s of CPU")
    finally:
        live.kill()
        live.wait()
        observer.kill()


def _calls(observer: Observed) -> int:
    return int(str(observer.status()["calls"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--backlog", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(given.write, given.rate, given.backlog)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kafka = ApacheKafka(
            folder, f"offsets.topic.num.partitions={OFFSETS_PARTITIONS}", options=("-Xmx1500m",)
        )
        kafka.start()
        try:
            bootstrap = "{}:{}".format(*kafka.address)
            with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=120_000) as admin:
                admin.list_group_offsets("any")  # The cluster makes its topic for groups.
                for each in range(TOPICS):
                    admin.create_topics(NewTopic(f"topic-{each}", partitions=GROUPS * OF_EACH // TOPICS))
            measure(bootstrap, folder, given.rate, given.backlog, given.seconds)
        finally:
            kafka.stop()


if __name__ == "__main__":
    main()
