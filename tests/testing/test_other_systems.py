"""Systems that lack calls of Linux: these calls are taken away here, and a broker still works."""

import os

import pytest
from confluent_kafka import Consumer

from kohort.broker.transport import file_range, plain
from kohort.client import Producer
from kohort.storage import filesystem
from kohort.testing import Broker


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
