"""Brokers that reach each other by TLS and by SASL alone: they replicate, fail over, keep strangers out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import trustme
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from tests.cluster.broker_cluster import SETTINGS, BrokerCluster
from tests.cluster.conftest import etcd_program, shared_etcd
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.broker_process import BrokerProcess

__all__ = ["etcd_program", "shared_etcd"]

COUNT = 200
PATIENCE_S = 30.0
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = 'username="broker" password="broker-secret" user_broker="broker-secret" user_alice="alice-secret";'
BY_TLS = ("SSL", ("ssl.client.auth=required", "security.inter.broker.protocol=SSL"))
BY_SCRAM = (
    "SASL_SSL",
    (
        "inter.broker.listener.name=SASL_SSL",
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
        f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={SCRAM} {USERS}",
    ),
)
BY_PLAIN = (
    "SASL_PLAINTEXT",
    (
        "security.inter.broker.protocol=SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        f"sasl.jaas.config={PLAIN} {USERS}",
    ),
)


class SecureCluster(BrokerCluster):
    """Three brokers whose one listener speaks this protocol and no other."""

    def __init__(
        self, etcd: EtcdProcess, folder: Path, protocol: str, settings: tuple[str, ...], bad: int = 0
    ) -> None:
        self.authority = trustme.CA()
        self.protocol = protocol
        self.trusted = folder / "trusted.pem"
        self.trusted.write_bytes(self.authority.cert_pem.bytes())
        self._bad = bad
        super().__init__(etcd, uuid4().hex, folder, 3, "replica.lag.time.max.ms=1000", *settings)
        self.me = self.certificate(folder / "me.pem")

    def certificate(self, path: Path, authority: trustme.CA | None = None) -> Path:
        made = (authority or self.authority).issue_cert("127.0.0.1", "localhost", common_name=path.stem)
        path.write_bytes(made.private_key_and_cert_chain_pem.bytes())
        return path

    def broker(self, node_id: int, *settings: str, folder: str | None = None) -> BrokerProcess:
        own = self._folder / str(node_id)
        own.mkdir(exist_ok=True)
        mine: tuple[str, ...] = ()
        authority = None
        if node_id == self._bad and self.protocol == "SSL":
            authority = trustme.CA()
        elif node_id == self._bad:
            mine = (
                f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={SCRAM} "
                + USERS.replace("r-s", "r s", 1),
            )
        place = (f"kohort.cluster={self.url}", f"node.id={node_id}", f"broker.rack=r{node_id}")
        made = BrokerProcess(
            own,
            *SETTINGS,
            *self._settings,
            *place,
            f"ssl.keystore.location={self.certificate(own / 'broker.pem', authority)}",
            f"ssl.truststore.location={self.trusted}",
            *mine,
        )
        made.bootstrap = f"{self.protocol}://127.0.0.1:0"
        return made

    def options(self) -> dict[str, str | int]:
        """Return what a client of confluent-kafka needs."""
        found: dict[str, str | int] = {
            "bootstrap.servers": self.bootstrap.replace(f"{self.protocol}://", ""),
            "security.protocol": self.protocol,
            "log_level": 0,
        }
        if self.protocol.endswith("SSL"):
            found["ssl.ca.location"] = str(self.trusted)
        if self.protocol == "SSL":
            found |= {"ssl.certificate.location": str(self.me), "ssl.key.location": str(self.me)}
        else:
            mechanism = "PLAIN" if self.protocol == "SASL_PLAINTEXT" else "SCRAM-SHA-512"
            found |= {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": "alice-secret"}
        return found

    def isr(self, topic: str) -> set[int]:
        found = AdminClient(self.options()).list_topics(topic, timeout=10).topics[topic]
        return set(found.partitions[0].isrs)

    def leader(self, topic: str) -> int:
        return AdminClient(self.options()).list_topics(topic, timeout=10).topics[topic].partitions[0].leader

    def create(self, topic: str) -> None:
        admin = AdminClient(self.options())
        new = NewTopic(topic, num_partitions=1, replication_factor=3, config={"min.insync.replicas": "2"})
        for made in admin.create_topics([new]).values():
            made.result(PATIENCE_S)


@pytest.fixture(params=[BY_TLS, BY_SCRAM, BY_PLAIN], ids=["mutual TLS", "SCRAM", "PLAIN"])
def cluster(
    request: pytest.FixtureRequest, shared_etcd: EtcdProcess, tmp_path: Path
) -> Iterator[SecureCluster]:
    """Three brokers, by each way."""
    with SecureCluster(shared_etcd, tmp_path, *request.param) as made:
        assert isinstance(made, SecureCluster)
        yield made


def test_secured_brokers_replicate_and_fail_over(cluster: SecureCluster) -> None:
    cluster.create("t")
    wait_for(lambda: cluster.isr("t") == {1, 2, 3})
    write(cluster, range(COUNT))
    cluster.brokers[cluster.leader("t")].kill()
    write(cluster, range(COUNT, 2 * COUNT))
    consumer = Consumer({**cluster.options(), "group.id": "g", "enable.auto.commit": "false"})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[bytes] = []
    wait_for(lambda: len(found_by(consumer, found)) >= 2 * COUNT)
    consumer.close()
    assert found == [b"%d" % number for number in range(2 * COUNT)]


def found_by(consumer: Consumer, found: list[bytes]) -> list[bytes]:
    found += [each.value() or b"" for each in consumer.consume(COUNT, 0.5) if each.error() is None]
    return found


def write(cluster: SecureCluster, numbers: range) -> None:
    producer = Producer({**cluster.options(), "acks": "all", "enable.idempotence": "true"})
    for number in numbers:
        producer.produce("t", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


def test_a_transaction_reaches_partitions_that_others_lead(cluster: SecureCluster) -> None:
    admin = AdminClient(cluster.options())
    new = NewTopic("many", num_partitions=6, replication_factor=3)
    for made in admin.create_topics([new]).values():
        made.result(PATIENCE_S)
    producer = Producer({**cluster.options(), "transactional.id": "x"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition in range(6):
        producer.produce("many", b"x", partition=partition)
    producer.commit_transaction(PATIENCE_S)
    consumer = Consumer({**cluster.options(), "group.id": "g", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("many", partition, 0) for partition in range(6)])
    found: list[bytes] = []
    wait_for(lambda: len(found_by(consumer, found)) == 6)
    consumer.close()


@pytest.mark.parametrize("way", [BY_TLS, BY_SCRAM], ids=["mutual TLS", "SCRAM"])
def test_a_broker_without_valid_credentials_gets_no_records(
    shared_etcd: EtcdProcess, tmp_path: Path, way: tuple[str, tuple[str, ...]]
) -> None:
    refusal = "its certificate is refused" if way is BY_TLS else "a wrong proof of broker"
    with SecureCluster(shared_etcd, tmp_path, *way, bad=3) as cluster:
        assert isinstance(cluster, SecureCluster)
        admin = AdminClient(cluster.options())
        for made in admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2, 3]])]).values():
            made.result(PATIENCE_S)
        wait_for(lambda: cluster.isr("t") == {1, 2})
        wait_for(lambda: any(refusal in line for line in cluster.brokers[1].log_lines()))
        write(cluster, range(10))
        assert not any("broker secret" in line for line in cluster.brokers[3].log_lines())


def wait_for(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
