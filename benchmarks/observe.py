"""How fast `kohort observe` is: 1,000 groups, 10,000 partitions, 50,000 commits a second.

    python benchmarks/observe.py [--on kafka|kohort] [--by batches|requests] [--rate 50000] [--seconds 60]

Commits come as the batches that a coordinator writes (Apache Kafka alone takes these), or as real
OffsetCommit requests. First the observer reads a backlog. Then it follows at the rate, is killed, a backlog
is written, and it is started again. It prints records a second, CPU, memory, and requests to the cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.commit_load import OFFSETS_PARTITIONS, CommitRequests, CoordinatorBatches, write

from kohort.client import Admin, NewTopic
from tests.differential.apache_kafka import ApacheKafka
from tests.interop.broker_process import BrokerProcess

TOPICS, GROUPS = 10, 1_000
READY = "kohort observe ready http="
TICKS = os.sysconf("SC_CLK_TCK")
WAIT_SECONDS_MAX = 240.0
START_SECONDS = 5.0


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

    def requests(self) -> int:
        """Return the number of requests that it has sent, fetches included."""
        status = self.status()
        return int(str(status["calls"])) + int(str(status["fetches"]))

    def kill(self) -> None:
        """Kill it."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def catch_up(self) -> tuple[float, float]:
        """Wait until all is read; return the time and the CPU time that it took since it was started."""
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


class Writer:
    """Writes commits, in a process for each call; its offsets begin after those of the call before."""

    def __init__(self, bootstrap: str, by: str) -> None:
        self._command = [sys.executable, __file__, "--write", bootstrap, "--by", by]
        self._offset = 0

    def write(self, count: int) -> None:
        """Write so many as fast as possible."""
        subprocess.run(self._next(count, rate=0), check=True)

    def start(self, rate: int, seconds: float) -> subprocess.Popen[str]:
        """Write at this rate for so long."""
        return subprocess.Popen(self._next(int(rate * seconds), rate), stdout=subprocess.PIPE, text=True)

    def _next(self, count: int, rate: int) -> list[str]:
        begin = self._offset
        self._offset += -(-count // (GROUPS * TOPICS))  # Each partition has one commit for an offset.
        return [*self._command, f"--backlog={count}", f"--begin={begin}", f"--rate={rate}"]


def measure(bootstrap: str, folder: Path, given: argparse.Namespace) -> None:
    """Print the figures."""
    rate, seconds = given.rate, given.seconds
    writer = Writer(bootstrap, given.by)
    writer.write(given.backlog)
    observer = Observed(bootstrap, folder)
    _print_caught_up("backlog", observer, 0)
    live = writer.start(rate, 2 * START_SECONDS + seconds)
    try:
        time.sleep(START_SECONDS)  # The writer starts, and comes to its rate.
        read, cpu, asked = observer.records(), observer.cpu_seconds(), observer.requests()
        began = time.monotonic()
        time.sleep(seconds)  # The time that is measured.
        passed = time.monotonic() - began
        share = (observer.cpu_seconds() - cpu) / passed
        told = (observer.records() - read) / passed
        print(
            f"live: {told:,.0f}/s read of {rate:,}/s for {seconds:.0f} s, {share:.0%} of a core, "
            f"{observer.status()['behind']} behind at the last look, {observer.peak_mib():.0f} MiB at most, "
            f"{(observer.requests() - asked) / passed:.1f} requests/s, fetches included",
            flush=True,
        )
        wrote, _ = live.communicate()
        print(f"      the writer: {wrote.strip()}")
        observer.kill()
        writer.write(given.backlog)
        observer = Observed(bootstrap, folder)
        _print_caught_up("restart after kill -9", observer, given.backlog)
        print(f"      {observer.peak_mib():.0f} MiB at most")
    finally:
        live.kill()
        live.wait()
        observer.kill()


def _print_caught_up(what: str, observer: Observed, least: int) -> None:
    took, cpu = observer.catch_up()
    read = observer.records()
    assert read >= least, (read, least)
    print(
        f"{what}: {read:,} records in {took:.1f} s with its start, {read / took:,.0f}/s, "
        f"{read / cpu:,.0f} in a second of CPU time",
        flush=True,
    )


def _write(given: argparse.Namespace) -> None:
    topics = [f"topic-{each}" for each in range(TOPICS)]
    load = (CommitRequests if given.by == "requests" else CoordinatorBatches)(GROUPS, topics)
    host, _, port = given.write.rpartition(":")
    wrote = write((host, int(port)), load, given.rate, given.backlog, given.begin)
    print(f"{wrote:,.0f} commits/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", choices=("kafka", "kohort"), default="kafka")
    parser.add_argument("--by", choices=("batches", "requests"))
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--backlog", type=int, default=5_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--begin", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.by = given.by or ("batches" if given.on == "kafka" else "requests")
    if given.write:
        _write(given)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        setting = f"offsets.topic.num.partitions={OFFSETS_PARTITIONS}"
        kafka = ApacheKafka(folder, setting, options=("-Xmx1500m",))
        broker = kafka if given.on == "kafka" else BrokerProcess(folder, setting)
        broker.start()
        try:
            bootstrap = "{}:{}".format(*broker.address)
            with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=120_000) as admin:
                admin.list_group_offsets("any")  # The cluster makes its topic for groups.
                for each in range(TOPICS):
                    admin.create_topics(NewTopic(f"topic-{each}", partitions=GROUPS))
            measure(bootstrap, folder, given)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
