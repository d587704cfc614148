"""Etcd is restored from a backup under brokers that run: what its metadata lack is set aside, not deleted."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kohort.broker.etcd.key_store import Entry
from kohort.client import Admin, Consumer, KohortError, OffsetAndMetadata, TopicPartition
from kohort.client import Producer as OwnProducer
from kohort.testing.etcd_store import EtcdStore
from kohort.testing.metadata_server import MetadataServer
from tests.cluster.broker_cluster import BrokerCluster
from tests.interop.broker_process import BrokerProcess

PATIENCE_SECONDS = 30
RECORDS = 20
BUMP = 1_000_000  # docs/cluster.md has etcdutl do it.


class RestoredEtcd(MetadataServer):
    """Etcd, whose backups can be restored while brokers watch it."""

    @property
    def endpoints(self) -> str:
        return f"127.0.0.1:{self.port}"

    def backup(self) -> list[Entry]:
        """Return what `etcdctl snapshot save` would keep."""
        with self._changed:
            return self._store.entries()

    def restore(self, backup: Sequence[Entry]) -> None:
        """Do what `etcdutl snapshot restore --bump-revision ... --mark-compacted` does; no lease is left."""
        with self._changed:
            store = EtcdStore([each for each in backup if not each.lease], self._store.revision + BUMP)
            store.compacted = store.revision
            self._store = store
            self._changed.notify_all()


@pytest.fixture
def etcd() -> Iterator[RestoredEtcd]:
    server = RestoredEtcd()
    yield server
    server.close()


def write(broker: BrokerProcess, *partitions: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    failed = []
    for number in range(RECORDS):
        for index in partitions:
            producer.produce(
                "air",
                b"%d" % number,
                partition=index,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not failed


def folders(broker: BrokerProcess) -> list[str]:
    """Return the topic's folders, a topic's id in them as ID."""
    names = (each.name for each in broker.data.iterdir() if each.name.startswith("air"))
    return sorted(re.sub("[0-9a-f]{32}", "ID", name) for name in names)


def bytes_of(broker: BrokerProcess) -> int:
    """Return how large the topic's logs are, wherever they are by now."""
    return sum(each.stat().st_size for each in broker.data.glob("air-*/*.log"))


def until(what: str, holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not in {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.05)


def administered(cluster: BrokerCluster) -> tuple[BrokerProcess, AdminClient]:
    """Return the one broker once it is the controller, for which librdkafka looks once, and its client."""
    broker = cluster.brokers[1]
    words = "this broker is the controller"
    until("the broker is the controller", lambda: any(words in line for line in broker.log_lines()))
    return broker, AdminClient({"bootstrap.servers": broker.bootstrap})


def create(admin: AdminClient) -> None:
    topic = NewTopic("air", num_partitions=1, replication_factor=1)
    admin.create_topics([topic])["air"].result(PATIENCE_SECONDS)


def topic_is_missing(etcd: RestoredEtcd, broker: BrokerProcess, admin: AdminClient) -> list[Entry]:
    backup = etcd.backup()
    create(admin)
    write(broker, 0)
    return backup


def partitions_are_missing(etcd: RestoredEtcd, broker: BrokerProcess, admin: AdminClient) -> list[Entry]:
    create(admin)
    backup = etcd.backup()
    admin.create_partitions([NewPartitions("air", 3)])["air"].result(PATIENCE_SECONDS)
    write(broker, 0, 1, 2)
    return backup


def topic_was_another(etcd: RestoredEtcd, broker: BrokerProcess, admin: AdminClient) -> list[Entry]:
    create(admin)
    backup = etcd.backup()
    admin.delete_topics(["air"])["air"].result(PATIENCE_SECONDS)
    until("the topic is gone", lambda: not folders(broker))
    create(admin)
    write(broker, 0)
    return backup


def partition_was_elsewhere(etcd: RestoredEtcd, broker: BrokerProcess, admin: AdminClient) -> list[Entry]:
    create(admin)
    write(broker, 0)

    def elsewhere(each: Entry) -> Entry:
        if b"/partitions/" not in each.key or each.value is None:
            return each
        return each._replace(
            value=msgspec.json.encode(
                {**msgspec.json.decode(each.value), "replicas": [2], "isr": [2], "leader": -1}
            )
        )

    return list(map(elsewhere, etcd.backup()))


Prepare = Callable[[RestoredEtcd, BrokerProcess, AdminClient], list[Entry]]


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (topic_is_missing, ["air-0.ID-stray"]),
        (partitions_are_missing, ["air-0", "air-1.ID-stray", "air-2.ID-stray"]),
        (topic_was_another, ["air-0", "air-0.ID-stray"]),
        (partition_was_elsewhere, ["air-0.ID-stray"]),
    ],
)
def test_logs_missing_in_restored_metadata_are_set_aside_as_at_a_start(
    etcd: RestoredEtcd, tmp_path: Path, prepare: Prepare, expected: list[str]
) -> None:
    with BrokerCluster(etcd, "restored", tmp_path, 1) as cluster:
        broker, admin = administered(cluster)
        backup = prepare(etcd, broker, admin)
        size_bytes = bytes_of(broker)
        assert size_bytes > 0
        etcd.restore(backup)
        until(f"folders are {expected}, not {folders(broker)}", lambda: folders(broker) == expected)
        assert bytes_of(broker) == size_bytes
        until("it is told", lambda: any("set aside" in line for line in broker.log_lines()))
        assert not any("Traceback" in line for line in broker.log_lines())
        until("the broker goes on", lambda: _is_created(admin, "other"))


def _is_created(admin: AdminClient, name: str) -> bool:
    """Return whether there is a topic of that name by now; the broker may have no lease just now."""
    (asked,) = admin.create_topics([NewTopic(name, 1, 1)], request_timeout=2).values()
    error = asked.exception(PATIENCE_SECONDS)
    return error is None or error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


def test_without_any_metadata_no_log_is_touched_until_they_are_restored(
    etcd: RestoredEtcd, tmp_path: Path
) -> None:
    with BrokerCluster(etcd, "restored", tmp_path, 1) as cluster:
        broker, admin = administered(cluster)
        create(admin)
        write(broker, 0)
        size_bytes, backup = bytes_of(broker), etcd.backup()
        etcd.restore([])
        until("it is told", lambda: any("etcd has no cluster" in line for line in broker.log_lines()))
        assert (folders(broker), bytes_of(broker)) == (["air-0"], size_bytes)
        etcd.restore(backup)
        until("the broker leads again", lambda: _takes(broker))
        assert folders(broker) == ["air-0"]


def _takes(broker: BrokerProcess) -> bool:
    """Return whether a record is acknowledged. confluent-kafka raised a SystemError here once."""
    with OwnProducer(
        bootstrap_servers=broker.bootstrap,
        max_block_ms=5_000,
        delivery_timeout_ms=5_000,
        request_timeout_ms=4_000,
    ) as producer:
        try:
            producer.send("air", b"again", partition=0).result()
        except KohortError:
            return False
        return True


def test_metadata_removed_key_by_key_delete_no_log(etcd: RestoredEtcd, tmp_path: Path) -> None:
    with BrokerCluster(etcd, "restored", tmp_path, 1) as cluster:
        broker, admin = administered(cluster)
        create(admin)
        write(broker, 0)
        size_bytes = bytes_of(broker)
        etcd.answer("kv/deleterange", {"key": "AA==", "range_end": "/w=="})  # etcdctl del "" --prefix
        until("it is told", lambda: any("etcd has no cluster" in line for line in broker.log_lines()))
        assert (folders(broker), bytes_of(broker)) == (["air-0"], size_bytes)


def commit(broker: BrokerProcess, topic: str, offset: int) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("g", {TopicPartition(topic, 0): OffsetAndMetadata(offset)})


def committed(broker: BrokerProcess) -> dict[str, int]:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return {place.topic: each.offset for place, each in admin.list_group_offsets("g").items()}


def test_offsets_survive_older_metadata_and_are_deleted_with_their_topic(
    etcd: RestoredEtcd, tmp_path: Path
) -> None:
    with BrokerCluster(etcd, "restored", tmp_path, 1, "offsets.topic.replication.factor=1") as cluster:
        broker, admin = administered(cluster)
        admin.create_topics([NewTopic("other", 1, 1)])["other"].result(PATIENCE_SECONDS)
        commit(broker, "other", 3)
        before = etcd.backup()
        create(admin)
        commit(broker, "air", 7)
        newer = etcd.backup()
        etcd.restore(before)
        until("the topic is gone", lambda: "air-0" not in folders(broker))
        until("the broker leads again", lambda: _is_created(admin, "first"))
        assert committed(broker) == {"other": 3, "air": 7}
        broker.stop()
        broker.start()
        assert committed(broker) == {"other": 3, "air": 7}
        create(admin)
        assert committed(broker) == {"other": 3}, "this one is another topic"
        etcd.restore(newer)
        until("the first one is back", lambda: committed(broker) == {"other": 3, "air": 7})
        until("the broker leads again", lambda: _is_created(admin, "second"))
        admin.delete_topics(["air"])["air"].result(PATIENCE_SECONDS)
        until("its offsets go", lambda: committed(broker) == {"other": 3})


def leader_epoch(etcd: RestoredEtcd) -> int:
    (value,) = [
        each.value for each in etcd.backup() if b"/partitions/" in each.key and each.value is not None
    ]
    return int(msgspec.json.decode(value)["leader_epoch"])


def epochs_of_records(broker: BrokerProcess) -> list[int]:
    """Return the leader epoch of each record of the topic, in the order of their offsets."""
    place = TopicPartition("air", 0)
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(place)
        (end,) = consumer.end_offsets(place).values()
        epochs: list[int] = []

        def are_read() -> bool:
            epochs.extend(each.leader_epoch for each in consumer.poll(timeout_ms=1_000))
            return len(epochs) >= end

        until("the records are read", are_read)
    return epochs


@pytest.mark.parametrize("brokers", [1, 2])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_leader_epoch_never_decreases(
    etcd: RestoredEtcd, tmp_path: Path, brokers: int, is_running: bool
) -> None:
    with BrokerCluster(etcd, "restored", tmp_path, brokers) as cluster:
        broker, admin = administered(cluster)
        admin.create_topics([NewTopic("air", 1, brokers)])["air"].result(PATIENCE_SECONDS)
        backup, first = etcd.backup(), leader_epoch(etcd)
        while leader_epoch(etcd) < first + 2:
            for each in cluster.brokers.values():
                each.restart(signal.SIGTERM)
        until("the broker leads again", lambda: _takes(broker))
        last = leader_epoch(etcd)
        assert epochs_of_records(broker)[-1] == last
        for each in cluster.brokers.values():
            if not is_running:
                each.stop()
        etcd.restore(backup)
        for each in cluster.brokers.values():
            if not is_running:
                each.start()
        # A log that nobody has used since a clean stop is opened for the first who asks. A broker that runs
        # takes records under its last epoch until it hears of the restored metadata.
        until(
            f"records have a leader epoch above {last}",
            lambda: _takes(broker) and epochs_of_records(broker)[-1] > last,
        )
        epochs = epochs_of_records(broker)
        assert epochs == sorted(epochs)
        assert leader_epoch(etcd) >= epochs[-1]
        assert not any("Traceback" in line for each in cluster.brokers.values() for line in each.log_lines())
