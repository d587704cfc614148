"""Systems that lack calls of Linux: these calls are taken away here, and a broker still works."""

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from kohort.broker.transport import file_range, plain
from kohort.client import Admin, NewTopic, Producer
from kohort.storage import filesystem, operating_system
from kohort.testing import Broker
from tests.interop.broker_process import COMMAND_VARIABLE, BrokerProcess
from tests.interop.waiting import wait_until

WINDOWS = Path(__file__).parent / "windows.py"
WITHIN_S = 120.0


@pytest.fixture
def without_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what some POSIX systems do not have."""

    def missing(*_: object) -> None:
        raise AssertionError("this system does not have it")

    monkeypatch.setenv("KOHORT_POLLER", "select")  # trio itself needs what there is.
    for name in ("sendfile", "pwritev", "preadv", "posix_fadvise", "posix_fallocate", "fdatasync"):
        monkeypatch.setattr(os, name, missing, raising=False)
    monkeypatch.setattr(plain, "HAS_SENDFILE", False)
    monkeypatch.setattr(filesystem, "HAS_PWRITEV", False)
    monkeypatch.setattr(filesystem, "pread", operating_system.read_at)
    monkeypatch.setattr(filesystem, "pwrite", operating_system.write_at)
    monkeypatch.setattr(plain, "pread", operating_system.read_at)
    monkeypatch.setattr(file_range, "_NOWAIT", None)


def test_a_broker_writes_and_sends_records_without_calls_of_linux(without_linux: None) -> None:
    values = [bytes([65 + number]) * 300_000 for number in range(8)]
    with Broker(topics={"orders": 1}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap, linger_ms=50) as producer:
            for value in values:
                producer.send("orders", value=value)
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "kitchen",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe(["orders"])
        found: list[object] = []
        while len(found) < len(values):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value())
        assert found == values
        consumer.commit(asynchronous=False)
        broker.expect_no_lag(group="kitchen", topic="orders")
        consumer.close()
        broker.restart()
        assert [each.value for each in broker.records("orders")] == values


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "kitchen",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < count:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it looks at /proc for what is open")
def test_a_broker_without_what_windows_lacks_keeps_and_removes_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMMAND_VARIABLE, shlex.join([sys.executable, str(WINDOWS), "serve"]))
    broker = BrokerProcess(
        tmp_path,
        "group.initial.rebalance.delay.ms=0",
        "log.retention.check.interval.ms=100",
        "log.initial.task.delay.ms=0",
    )
    values = [bytes([65 + number % 26]) * 100_000 for number in range(30)]
    broker.start()
    try:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            short = {"segment.bytes": "1048576", "retention.bytes": "1048576", "file.delete.delay.ms": "0"}
            admin.create_topics(
                NewTopic("orders", partitions=1), NewTopic("short", partitions=1, configs=short)
            )
            with Producer(bootstrap_servers=broker.bootstrap) as producer:
                for value in values:
                    producer.send("orders", value=value)
                    producer.send("short", value=value)
            assert read_all(broker.bootstrap, "orders", len(values)) == values
            logs = broker.data / "short-0"
            wait_until(lambda: len(list(logs.glob("*.log"))) < 3, "old segments are removed", WITHIN_S)
            admin.delete_topics("short")
        wait_until(lambda: not list(broker.data.glob("short-0*")), "the topic's folder is removed", WITHIN_S)
        for how in (signal.SIGTERM, signal.SIGKILL):
            broker.restart(how)
            assert read_all(broker.bootstrap, "orders", len(values)) == values
        assert "Traceback" not in broker.log_path.read_text()
    finally:
        broker.kill()
