"""Members come and go all the time, and every record is read exactly once: nobody is killed."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from kohort.client import Consumer, Producer
from kohort.client.config import ConsumerOptions
from tests.interop.waiting import wait_until

SECONDS = float(os.environ.get("KOHORT_TEST_CHURN_S", "2"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
PARTITIONS = 8
MEMBERS_MAX = 4


class Reader:
    """A member that notes what it reads, a little slowly now and then."""

    def __init__(self, topic: str, options: ConsumerOptions, seed: int) -> None:
        self.values: list[bytes] = []
        self._random = Random(seed)
        self._consumer = Consumer(topic, **options)
        self._ends = threading.Event()
        self.problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Leave. Raises: what ended its thread early."""
        self._ends.set()
        self._thread.join()
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        try:
            with self._consumer:
                while not self._ends.is_set():
                    records = self._consumer.poll(timeout_ms=50, max_records=self._random.randint(1, 50))
                    self.values += [each.value or b"" for each in records]
                    if self._random.random() < 0.1:
                        self._ends.wait(self._random.random() * 0.3)
        except BaseException as error:  # noqa: BLE001  # It is raised again by close().
            self.problem = error


class Writer:
    """Produces numbers until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        self._bootstrap, self._topic = bootstrap, topic
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Return when everything is written."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            while not self._ends.wait(0.01):
                for _ in range(10):
                    producer.send(self._topic, value=b"%d" % self.count, partition=self.count % PARTITIONS)
                    self.count += 1


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.requirement("R14", "R22")
def test_every_record_is_read_once_while_members_join_and_leave(
    bootstrap: str, topic: Callable[[int], str], group: str, strategy: str
) -> None:
    random = Random(SEED)
    name = topic(PARTITIONS)
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": strategy,
        "heartbeat_interval_ms": 100,
        "auto_commit_interval_ms": 300,
    }
    everybody = [Reader(name, options, 0)]
    present = list(everybody)
    writer = Writer(bootstrap, name)
    ends_s = time.monotonic() + SECONDS
    while time.monotonic() < ends_s:
        if len(present) == 1 or (len(present) < MEMBERS_MAX and random.random() < 0.5):
            everybody.append(Reader(name, options, len(everybody)))
            present.append(everybody[-1])
        else:
            present.pop(random.randrange(len(present))).close()
        time.sleep(random.random() * 0.5)  # How often somebody comes or goes.
    writer.stop()

    def read() -> Counter[bytes]:
        return Counter(value for each in everybody for value in each.values)

    try:
        wait_until(lambda: len(read()) == writer.count, f"all {writer.count} are read (SEED={SEED})", 60)
    finally:
        for each in present:
            each.close()
    twice = {value: times for value, times in read().items() if times > 1}
    assert not twice, f"SEED={SEED}: {len(everybody)} members, {len(twice)} of {writer.count} read again"
