"""Producer and broker are killed at random moments within transactions: all of each counts, or none.

`ROUNDS` says how many kills (`make crash` runs 200), `SEED` repeats the moments of a run that failed. Kafka's
own producer, in Java, is killed by night; its consumer reads along then.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kohort.client import Admin, NewTopic
from kohort.storage import OsFileSystem
from kohort.storage.verify import verify_data
from tests.crash.counting import DEADLINE_S, READERS, TOPIC, Watch, committed, started
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool, jars
from tests.interop.waiting import wait_until
from tests.repetitions import NIGHTLY, only_by_night

ROUNDS = int(os.environ.get("ROUNDS", "8"))
SEED = int(os.environ.get("SEED") or random.randrange(2**32))
LIFE_S = (0.1, 1.0)
LIFE_OF_JAVA_S = (0.5, 4.0)  # A virtual machine takes a second to start.
SETTINGS = (
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "log.cleaner.backoff.ms=100",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.segment.delete.delay.ms=500",
)


def watching(library: str) -> list[str]:
    """Return who reads along: kohort and whoever writes, by night Java as well."""
    kinds = {"kohort", library}
    if library == "java" or NIGHTLY in os.environ:
        try:
            jars("clients")
        except MissingTool as missing:
            if library == "java":
                pytest.skip(str(missing))
        else:
            kinds.add("java")
    return sorted(kinds)


@pytest.mark.parametrize("library", ["confluent-kafka", "kohort", pytest.param("java", marks=only_by_night)])
def test_transactions_are_atomic(tmp_path: Path, library: str) -> None:
    print(f"SEED={SEED}")  # noqa: T201
    dice = random.Random(SEED)
    broker = BrokerProcess(tmp_path, *SETTINGS)
    broker.start()
    counter: subprocess.Popen[bytes] | None = None
    readers: list[Watch] = []
    life_s = LIFE_OF_JAVA_S if library == "java" else LIFE_S
    kinds = watching(library)
    try:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, partitions=2, configs={"segment.bytes": str(1024 * 1024)}))
        readers = [READERS[kind](broker.bootstrap, index) for kind in kinds for index in (0, 1)]
        counter = started(broker.bootstrap, library)
        wait_until(lambda: bool(readers[0].numbers), "the first number", DEADLINE_S)
        for _ in range(ROUNDS):
            time.sleep(dice.uniform(*life_s))
            victim = dice.choice(("broker", "counter", "both"))
            if victim != "broker":
                counter.kill()
                counter.wait()
            if victim != "counter":
                broker.restart(signal.SIGKILL)
            if victim != "broker":
                counter = started(broker.bootstrap, library)
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
