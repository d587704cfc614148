"""Producer and broker are killed at random moments within transactions: all of each counts, or none.

`ROUNDS` says how many kills (`make crash` runs 200), `SEED` repeats the moments of a run that failed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kohort.client import Admin, NewTopic
from kohort.storage import OsFileSystem
from kohort.storage.verify import verify_data
from tests.crash.transactional_counter import QUICK_TO_RETURN, next_number
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

confluent_kafka = pytest.importorskip("confluent_kafka")

ROUNDS = int(os.environ.get("ROUNDS", "8"))
SEED = int(os.environ.get("SEED") or random.randrange(2**32))
TOPIC, GROUP, TRANSACTIONAL_ID = "counted", "counters", "counter"
LIFE_S = (0.1, 1.0)
DEADLINE_S = 60.0
SETTINGS = (
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "log.cleaner.backoff.ms=100",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.segment.delete.delay.ms=500",
)


class Reader:
    """Reads one partition's committed records as they come, over all kills, in a thread."""

    def __init__(self, bootstrap: str, index: int) -> None:
        self.numbers: list[int] = []
        self._stop = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"reader-{index}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                **QUICK_TO_RETURN,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(TOPIC, index, 0)])
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.numbers.append(int(message.value()))  # `never` is no number.

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()


def started(bootstrap: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.crash.transactional_counter"]
    return subprocess.Popen([*command, bootstrap, TOPIC, GROUP, TRANSACTIONAL_ID])


def committed(bootstrap: str) -> int:
    """Return how far the counter is, once its last transaction has ended: a new producer sees to that."""
    common = {"bootstrap.servers": bootstrap, **QUICK_TO_RETURN}
    producer = confluent_kafka.Producer({**common, "transactional.id": TRANSACTIONAL_ID})
    producer.init_transactions(DEADLINE_S)
    consumer = confluent_kafka.Consumer({**common, "group.id": GROUP})
    try:
        return next_number(consumer, TOPIC)
    finally:
        consumer.close()


def test_all_of_a_transaction_counts_or_none(tmp_path: Path) -> None:
    print(f"SEED={SEED}")  # noqa: T201
    dice = random.Random(SEED)
    broker = BrokerProcess(tmp_path, *SETTINGS)
    broker.start()
    counter: subprocess.Popen[bytes] | None = None
    readers: list[Reader] = []
    try:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, partitions=2, configs={"segment.bytes": str(1024 * 1024)}))
        readers = [Reader(broker.bootstrap, index) for index in (0, 1)]
        counter = started(broker.bootstrap)
        wait_until(lambda: bool(readers[0].numbers), "the first number", DEADLINE_S)
        for _ in range(ROUNDS):
            time.sleep(dice.uniform(*LIFE_S))
            victim = dice.choice(("broker", "counter", "both"))
            if victim != "broker":
                counter.kill()
                counter.wait()
            if victim != "counter":
                broker.restart(signal.SIGKILL)
            if victim != "broker":
                counter = started(broker.bootstrap)
        seen = len(readers[0].numbers)
        wait_until(lambda: len(readers[0].numbers) > seen, "a number after the last kill", DEADLINE_S)
        counter.kill()
        counter.wait()
        count = committed(broker.bootstrap)
        for reader in readers:
            wait_until(lambda reader=reader: len(reader.numbers) >= count, "all numbers", DEADLINE_S)
        time.sleep(0.3)  # Should anything come twice, it would come now.
    finally:
        if counter is not None and counter.poll() is None:
            counter.kill()
            counter.wait()
        for reader in readers:
            reader.stop()
        broker.stop()
    assert count > 0
    for reader in readers:
        assert reader.numbers == list(range(count)), SEED
    assert verify_data(OsFileSystem(), broker.data).problems == []
