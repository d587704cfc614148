"""The examples, run as their readers would."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.client import Consumer, Producer, TopicPartition
from tests.interop.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
RECORDS = 300


@pytest.mark.parametrize("name", ["consumer_per_thread", "worker_pool"])
def test_an_example_reads_everything_once_and_ends_cleanly(
    bootstrap: str, topic: Callable[[int], str], group: str, name: str, tmp_path: Path
) -> None:
    read = topic(4)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(RECORDS):
            producer.send(read, value=b"%d" % number, key=b"%d" % (number % 10))
    printed = tmp_path / "printed"
    with printed.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, EXAMPLES / f"{name}.py", bootstrap, read, group], stdout=out
        )
    try:
        wait_until(lambda: len(printed.read_text().splitlines()) >= RECORDS, "all records are printed")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
    values = [line.split()[-1] for line in printed.read_text().splitlines()]
    assert sorted(values) == sorted(f"b'{number}'" for number in range(RECORDS))
    with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        kept = consumer.committed(*(TopicPartition(read, each) for each in range(4)))
    assert sum(each.offset for each in kept.values() if each is not None) == RECORDS
