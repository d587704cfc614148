"""A start after kill -9 opens the logs that were written to of late, however many others there are."""

from __future__ import annotations

import signal
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from kohort.storage.resting import RESTING_LOGS, decode_resting_logs
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

TOPICS = 2_000
LATE = 5
SETTINGS = ("log.flush.offset.checkpoint.interval.ms=300", "log.retention.check.interval.ms=3600000")


def produce(broker: BrokerProcess, names: list[str], value: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    for name in names:
        producer.produce(name, value)
    assert producer.flush(60) == 0


def noted(broker: BrokerProcess) -> set[str]:
    """Return the topics whose logs are noted as at rest, with a record in them."""
    path = broker.data / RESTING_LOGS
    notes = decode_resting_logs(path.read_bytes() if path.exists() else None)
    return {topic for (topic, _), note in notes.items() if note.end_offset}


def open_logs(broker: BrokerProcess) -> int:
    """Return how many segments' files the broker has open: each that it has opened, up to 200 of them."""
    links = [Path(f"/proc/{broker.pid}/fd/{each.name}") for each in Path(f"/proc/{broker.pid}/fd").iterdir()]
    return sum(each.exists() and each.readlink().suffix == ".log" for each in links)


def last_value(broker: BrokerProcess, topic: str) -> str:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)
        consumer.assign([TopicPartition(topic, 0, end - 1)])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert value is not None
        return value.decode()
    finally:
        consumer.close()


def test_resting_logs_are_not_opened(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, *SETTINGS)
    try:
        broker.start()
        names = [f"resting-{number}" for number in range(TOPICS)]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            future.result(60)
        produce(broker, names, "early")
        wait_until(lambda: noted(broker) >= set(names), "all logs are noted", 120)
        late = names[-LATE:]
        produce(broker, late, "late")
        broker.restart(signal.SIGKILL)
        assert open_logs(broker) <= 2 * LATE, "200 are open where all were opened"
        assert [last_value(broker, name) for name in (names[0], late[0])] == ["early", "late"]
    finally:
        broker.stop()
