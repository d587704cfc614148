"""Clients write to a broker or a cluster, and compare its contents before and after an upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kohort.client import (
    AcknowledgeType,
    Acl,
    AclOperation,
    AclResourceType,
    Admin,
    NewTopic,
    QuotaEntity,
    ResourceType,
    ShareConsumer,
)
from kohort.client import TopicPartition as Partition

PLAIN, MOVED, PRICES, JOBS, TRIMMED = "orders", "payments", "prices", "jobs", "trimmed"
PARTITIONS = 3
CLASSIC, NEXT, SHARE = "billing", "shipping", "workers"
OPEN_ID = "left-open"
PATIENCE_S = 300.0
START_SECONDS_MAX = 300.0
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "share.coordinator.state.topic.num.partitions=3",
    "log.cleaner.backoff.ms=100",
    "log.cleaner.min.cleanable.ratio=0.01",
)
Row = tuple[int, int, bytes | None, bytes | None, Any, tuple[int, int]]
"""Partition, offset, key, value, headers and timestamp of a record."""


@dataclass(slots=True)
class Written:
    """The contents that the broker has acknowledged. Each call of `write` adds a generation of records."""

    bootstrap: str
    replication: int = 1
    generation: int = 0
    jobs_done: set[bytes] = field(default_factory=set)
    jobs_open: set[bytes] = field(default_factory=set)

    def prepare(self) -> None:
        """Create topics, settings, entries and quotas."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            small = {"segment.ms": "100"}  # Smaller ones than of 1 MiB are refused.
            placed = {"replication_factor": self.replication}
            admin.create_topics(
                NewTopic(
                    PLAIN,
                    partitions=PARTITIONS,
                    configs={"segment.bytes": str(1 << 20), "retention.ms": "-1"},
                    **placed,
                ),
                NewTopic(MOVED, partitions=PARTITIONS, **placed),
                NewTopic(PRICES, partitions=1, configs={**small, "cleanup.policy": "compact"}, **placed),
                NewTopic(JOBS, partitions=2, **placed),
                NewTopic(TRIMMED, partitions=1, configs=small, **placed),
            )
            admin.create_acls(
                Acl("User:anna", AclOperation.READ, AclResourceType.TOPIC, PLAIN),
                Acl("User:ben", AclOperation.ALL, AclResourceType.GROUP, CLASSIC),
            )
            admin.alter_quotas(QuotaEntity(user="anna"), {"producer_byte_rate": 1_000_000.0})
            admin.set_user_password("anna", "correct horse")
            admin.alter_configs(ResourceType.GROUP, SHARE, values={"share.auto.offset.reset": "earliest"})
            admin.alter_configs(ResourceType.BROKER, "", values={"log.retention.ms": "700000000"})

    def write(self) -> None:
        """Add records of every kind, commits of groups, and acknowledgements of a share group."""
        self.generation += 1
        self._produce()
        self._move_in_transactions()
        self._commit()
        self._work()
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.delete_records({Partition(TRIMMED, 0): 100 * self.generation})

    def leave_a_transaction_open(self) -> Producer:
        """Return a producer with an open transaction."""
        producer = self._transactional(OPEN_ID)
        producer.begin_transaction()
        for number in range(30):
            producer.produce(MOVED, f"open {number}", partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        return producer

    def end_the_open_transaction(self) -> None:
        """Abort the open transaction by a new producer of its id, and commit a transaction of that one."""
        producer = self._transactional(OPEN_ID)
        producer.begin_transaction()
        producer.produce(MOVED, f"after the open one {self.generation}", partition=0)
        producer.commit_transaction(PATIENCE_S)

    def _produce(self) -> None:
        kept = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        name, failures = f"{self.generation}", []

        def told(error: KafkaError | None, _message: object) -> None:
            failures.extend([error] if error is not None else [])

        for number in range(1_500):
            kept.produce(
                PLAIN, f"{name} {number} {'x' * 1_500}", f"key {number % 97}", partition=number % PARTITIONS,
                headers=[("generation", name.encode())], on_delivery=told,
            )  # fmt: skip
            kept.produce(PRICES, None if number % 11 == 0 else f"{name} {number}", f"item {number % 40}",
                         on_delivery=told)  # fmt: skip
            kept.poll(0)
        for number in range(200):
            kept.produce(TRIMMED, f"{name} {number} {'y' * 200}", partition=0, on_delivery=told)
        jobs = [f"job {name} {number}".encode() for number in range(60)]
        for number, job in enumerate(jobs):
            kept.produce(JOBS, job, partition=number % 2, on_delivery=told)
        assert kept.flush(PATIENCE_S) == 0
        assert failures == []
        self.jobs_open |= set(jobs)

    def _move_in_transactions(self) -> None:
        """Write in transactions. Half of them are aborted; the others commit a group's offset as well."""
        producer = self._transactional("mover")
        metadata = self._consumer("movers").consumer_group_metadata()
        for number in range(10):
            producer.begin_transaction()
            for each in range(12):
                producer.produce(MOVED, f"{self.generation} {number} {each}", partition=each % PARTITIONS)
            if number % 2:
                producer.abort_transaction(PATIENCE_S)
            else:
                offset = TopicPartition(PLAIN, number % PARTITIONS, self.generation * 100 + number)
                producer.send_offsets_to_transaction([offset], metadata, PATIENCE_S)
                producer.commit_transaction(PATIENCE_S)

    def _commit(self) -> None:
        for group, protocol in ((CLASSIC, "classic"), (NEXT, "consumer")):
            consumer = self._consumer(group, {"group.protocol": protocol})
            consumer.subscribe([PLAIN])
            read = 0
            while read < 400:
                message = consumer.poll(PATIENCE_S)
                assert message is not None, f"{group} reads nothing"
                assert message.error() is None, message.error()
                read += 1
                if read % 100 == 0:
                    consumer.commit(message, asynchronous=False)
            consumer.close()

    def _work(self) -> None:
        """Accept some jobs. Release the others once: the broker delivers these again."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "share_acknowledgement_mode": "explicit",
            "max_poll_records": 10,
        }
        done: set[bytes] = set()
        with ShareConsumer(JOBS, group_id=SHARE, **options) as consumer:
            while len(done) < 30:
                for job in consumer.poll(timeout_ms=int(PATIENCE_S * 1000)):
                    assert job.value is not None
                    assert job.value in self.jobs_open, f"{job.value!r} was acknowledged before"
                    ends = sum(job.value) % 3 != 0 or job.delivery_count > 1
                    consumer.acknowledge(job, AcknowledgeType.ACCEPT if ends else AcknowledgeType.RELEASE)
                    done |= {job.value} if ends else set()
                consumer.commit()
                self.jobs_done |= done
                self.jobs_open -= done

    def finish_the_jobs(self) -> None:
        """Take all open jobs: the broker delivers each of them, and no acknowledged one."""
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "max_poll_records": 50}
        with ShareConsumer(JOBS, group_id=SHARE, **options) as consumer:
            while self.jobs_open:
                handed = {each.value for each in consumer.poll(timeout_ms=int(PATIENCE_S * 1000))}
                assert handed, f"{len(self.jobs_open)} jobs are not handed out"
                assert not handed & self.jobs_done
                consumer.commit()
                self.jobs_open -= handed
                self.jobs_done |= handed

    def _transactional(self, name: str) -> Producer:
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": name, "transaction.timeout.ms": 900_000}
        )
        producer.init_transactions(PATIENCE_S)
        return producer

    def _consumer(self, group: str, settings: dict[str, Any] | None = None) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **(settings or {}),
            }
        )


def found(bootstrap: str) -> dict[str, Any]:
    """Return everything that clients can read of the contents, for a comparison."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        topics = admin.describe_topic_partitions(PLAIN, MOVED, PRICES, JOBS, TRIMMED)
        groups = admin.describe_groups(CLASSIC, NEXT, "movers", SHARE)
        told: dict[str, Any] = {
            "cluster": admin.describe_cluster().cluster_id,
            "topics": {
                name: (each.topic_id, [partition.replicas for partition in each.partitions])
                for name, each in topics.items()
            },
            "settings": {name: _own(admin.describe_configs(ResourceType.TOPIC, name)) for name in topics},
            "default settings": _own(admin.describe_configs(ResourceType.BROKER, "")),
            "group's settings": _own(admin.describe_configs(ResourceType.GROUP, SHARE)),
            "entries": set(admin.list_acls()),
            "quotas": admin.describe_quotas(),
            "users": admin.describe_users(),
            "groups": {name: (each.type, each.state) for name, each in groups.items()},
            "offsets": {group: dict(admin.list_group_offsets(group)) for group in (CLASSIC, NEXT, "movers")},
            "share offsets": {
                partition: (each.start_offset, each.lag)
                for partition, each in admin.list_share_group_offsets(SHARE).items()
            },
        }
    for level in ("read_committed", "read_uncommitted"):
        told[level] = {name: list(_rows(bootstrap, name, level)) for name in (PLAIN, MOVED, JOBS, TRIMMED)}
    told["prices"] = {row[2]: row[3] for row in _rows(bootstrap, PRICES, "read_committed")}
    told["prices"] = {key: value for key, value in told["prices"].items() if value is not None}
    return told


def _own(entries: dict[str, Any]) -> dict[str, str | None]:
    """Return the settings that were set; a new version may have more settings, and other defaults."""
    return {
        name: each.value
        for name, each in entries.items()
        if each.source.name.startswith(("DYNAMIC", "GROUP"))
    }


def _rows(bootstrap: str, topic: str, level: str) -> Iterator[Row]:
    """Yield every record that a consumer of this isolation level reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
    for partition in sorted(partitions):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no end of {topic}-{partition}"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            offset = message.offset()
            assert offset is not None
            yield partition, offset, message.key(), message.value(), message.headers(), message.timestamp()
    consumer.close()
