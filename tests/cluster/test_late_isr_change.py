"""A change of the in-sync replicas that etcd carries out late: what is acknowledged meanwhile is not lost."""

from __future__ import annotations

import json
import os
import signal
import time
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from threading import Event

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kohort.broker.etcd.messages import Json
from kohort.testing.metadata_server import MetadataServer
from tests.cluster.broker_cluster import BrokerCluster
from tests.interop.broker_process import BrokerProcess

TOPIC = "air"
PATIENCE_SECONDS = 60
SETTINGS = (
    "replica.lag.time.max.ms=1000",
    "replica.fetch.backoff.ms=100",
    "broker.session.timeout.ms=20000",
    "kohort.etcd.request.timeout.ms=1000",
    "auto.leader.rebalance.enable=false",
)


class HoldingEtcd(MetadataServer):
    """Once `joiner` is set, it holds back every transaction that puts that broker into an ISR."""

    def __init__(self) -> None:
        self.joiner: int | None = None
        self.asked_again = Event()
        self.held = 0
        self.made = 0
        self.ended = 0
        self._release = Event()
        super().__init__()

    @property
    def endpoints(self) -> str:
        return f"127.0.0.1:{self.port}"

    def release(self) -> None:
        """Carry out what is held."""
        self._release.set()

    def answer(self, path: str, form: Json) -> tuple[int, Json]:
        """Return the HTTP status and the answer of a call, late where it is held."""
        if path != "kv/txn" or self.joiner is None:
            return super().answer(path, form)
        if not any(map(self._lets_join, form.get("success", ()))):
            if self.held and any(
                "/partitions/" in _key(each, "request_range") for each in form.get("success", ())
            ):
                self.asked_again.set()  # It looks whether it was made.
            return super().answer(path, form)
        self.held += 1
        if self.held > 1:
            self.asked_again.set()
        is_late = not self._release.is_set()
        self._release.wait()
        status, answer = super().answer(path, form)
        self.made += bool(answer.get("succeeded")) and is_late
        self.ended += 1
        return status, answer

    def _lets_join(self, operation: Json) -> bool:
        if "/partitions/" not in _key(operation, "request_put"):
            return False
        return self.joiner in json.loads(b64decode(operation["request_put"]["value"]))["isr"]

    def partition(self) -> Json:
        """Return the one partition as it is in here."""
        with self._changed:
            values = [each.value for each in self._store.entries() if b"/partitions/" in each.key]
        (value,) = (each for each in values if each is not None)
        state: Json = json.loads(value)
        return state


def _key(operation: Json, kind: str) -> str:
    return b64decode(operation[kind]["key"]).decode() if kind in operation else ""


def until(what: str, holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not in {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.05)


def produced(broker: BrokerProcess, values: list[bytes]) -> list[bytes]:
    """Return those of the values that are acknowledged by every in-sync replica: all."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0, "enable.idempotence": True}
    )
    acknowledged: list[bytes] = []
    for value in values:
        producer.produce(
            TOPIC,
            value,
            partition=0,
            on_delivery=lambda error, message: (
                acknowledged.append(message.value()) if error is None else None
            ),
        )
    assert producer.flush(30) == 0
    assert acknowledged == values
    return acknowledged


def read(bootstrap: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            break
    consumer.close()
    return values


def test_a_replica_that_joins_late_lacks_no_acknowledged_record(tmp_path: Path) -> None:
    etcd = HoldingEtcd()
    try:
        with BrokerCluster(etcd, "late", tmp_path, 3, *SETTINGS) as cluster:
            _let_join_late(etcd, cluster)
    finally:
        etcd.release()
        etcd.close()


def _let_join_late(etcd: HoldingEtcd, cluster: BrokerCluster) -> None:
    one, two, three = (cluster.brokers[each] for each in (1, 2, 3))
    topic = NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]], config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": one.bootstrap})
    admin.create_topics([topic])[TOPIC].result(30)
    acknowledged = produced(one, [b"first-%d" % each for each in range(20)])
    two.kill()
    until("broker 2 leaves the ISR", lambda: sorted(etcd.partition()["isr"]) == [1, 3])
    etcd.joiner = 2
    two.start()
    until("the leader asks for broker 2 in the ISR", lambda: etcd.held)
    assert etcd.asked_again.wait(30), "the leader does not ask what has become of it"
    two.kill()
    acknowledged += produced(one, [b"second-%d" % each for each in range(10)])
    assert one.pid is not None
    os.kill(one.pid, signal.SIGSTOP)
    two.start()  # It can't fetch from its leader yet.
    etcd.release()
    until("what was held is carried out", lambda: etcd.ended == etcd.held)
    one.kill()
    until("another broker leads", lambda: etcd.partition()["leader"] not in (-1, 1))
    values = read(f"{two.bootstrap},{three.bootstrap}")
    assert [each for each in acknowledged if each not in values] == []
    assert etcd.made == 0
