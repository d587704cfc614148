"""The producer and the admin against kohort and against Apache Kafka: the same calls, the same answers.

What was written is read with confluent-kafka: another library's view of the same bytes.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import confluent_kafka
import pytest

from kohort.client import (
    LATEST,
    MAX_TIMESTAMP,
    Admin,
    BrokerError,
    BufferFullError,
    Consumer,
    Delivery,
    DeliveryTimeoutError,
    ItemsError,
    KohortError,
    NewTopic,
    OffsetAndMetadata,
    PartitionerError,
    Producer,
    ResourceType,
    SerializationError,
    TopicPartition,
    WouldBlockError,
)
from kohort.client.config import ConsumerOptions, ProducerOptions
from kohort.protocol.errors import ErrorCode
from tests.client.conftest import QUICK, running_broker
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until


@pytest.fixture(scope="module", params=["kohort", "Apache Kafka"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where each of the two listens in turn."""
    with running_broker(request.param, tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture
def name(bootstrap: str) -> str:
    """A new topic of three partitions."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=3))
        wait_until(lambda: topic in admin.list_topics(), "every broker knows the topic")
    return topic


class Read(NamedTuple):
    """A record as another library reads it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]]


def read(bootstrap: str, topic: str, count: int) -> list[Read]:
    """Return so many records of the topic, by partition and offset."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "check.crcs": True, "fetch.wait.max.ms": 20}
    )
    partitions = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(3)]
    found: list[Read] = []
    try:
        consumer.assign(partitions)
        deadline_s = time.monotonic() + 20
        while len(found) < count and time.monotonic() < deadline_s:
            for each in consumer.consume(count, 0.2):
                assert each.error() is None, each.error()
                found.append(
                    Read(
                        each.partition() or 0,
                        each.offset() or 0,
                        each.key(),
                        each.value(),
                        each.timestamp()[1],
                        each.headers() or [],
                    )
                )
    finally:
        consumer.close()
    return sorted(found, key=lambda each: each[:2])


@pytest.mark.requirement("R25")
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_another_library_reads_the_sent_records(bootstrap: str, name: str, compression: str) -> None:
    with Producer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=50) as producer:
        deliveries = [
            producer.send(
                name,
                b"value %d" % number * 20 if number % 7 else None,
                key=b"key %d" % (number % 5) if number % 3 else None,
                timestamp_ms=1_700_000_000_000 + number % 13,
                headers=[("number", b"%d" % number), ("none", None)] if number % 2 else (),
            )
            for number in range(500)
        ]
        written = [each.result() for each in deliveries]
    found = {(each.partition, each.offset): each for each in read(bootstrap, name, 500)}
    assert len(found) == 500
    for number, metadata in enumerate(written):
        each = found[metadata.partition, metadata.offset]
        assert each.value == (b"value %d" % number * 20 if number % 7 else None)
        assert each.key == (b"key %d" % (number % 5) if number % 3 else None)
        assert each.timestamp_ms == metadata.timestamp_ms == 1_700_000_000_000 + number % 13
        assert each.headers == ([("number", b"%d" % number), ("none", None)] if number % 2 else [])


def test_keys_go_where_every_other_client_sends_them(bootstrap: str, name: str) -> None:
    keys = [b"", b"UA", b"a longer key", "ключ".encode(), *(b"%d" % number for number in range(40))]
    reference = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        reference.produce(name, key, key)
    reference.flush()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for key in keys:
            producer.send(name, key, key=key)
    partitions: dict[bytes | None, set[int]] = {}
    for each in read(bootstrap, name, 2 * len(keys)):
        partitions.setdefault(each.value, set()).add(each.partition)
    assert {len(each) for each in partitions.values()} == {1}


def test_records_without_keys_are_spread_over_all_partitions(bootstrap: str, name: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(6_000):
            producer.send(name, b"x" * 100)
        producer.flush()
        with Admin(bootstrap_servers=bootstrap) as admin:
            ends = admin.list_offsets({TopicPartition(name, each): -1 for each in range(3)})
    shares = [each.offset for each in ends.values()]
    assert sum(shares) == 6_000
    assert min(shares) > 500


def test_functions_make_bytes_and_choose_partitions(bootstrap: str, name: str) -> None:
    def last(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        return count - 1

    with Producer(
        bootstrap_servers=bootstrap, value_serializer=to_json, key_serializer=str.encode, partitioner=last
    ) as producer:
        written = producer.send(name, {"a": [1, 2]}, key="k").result()
        assert producer.send(name, None, partition=0).result().partition == 0
        with pytest.raises(SerializationError, match="value_serializer failed"):
            producer.send(name, object())
    assert written.partition == 2
    assert read(bootstrap, name, 2)[-1].value == b'{"a": [1, 2]}'
    with (
        Producer(bootstrap_servers=bootstrap, partitioner=lambda *_: 9) as producer,
        pytest.raises(PartitionerError, match="chose 9"),
    ):
        producer.send(name, b"x")


def to_json(value: object) -> bytes:
    return json.dumps(value).encode()


def test_callbacks_are_called_once_when_the_result_is_known(bootstrap: str, name: str) -> None:
    told: list[int] = []
    blocked: list[KohortError] = []

    def on_delivery(delivery: Delivery) -> None:
        told.append(delivery.result().offset)

    def waits(delivery: Delivery) -> None:
        try:
            producer.flush()
        except WouldBlockError as error:
            blocked.append(error)

    def raises(delivery: Delivery) -> None:
        raise ZeroDivisionError

    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(3):
            producer.send(name, b"x", partition=0, on_delivery=on_delivery)
        producer.send(name, b"x", partition=1, on_delivery=waits)
        producer.send(name, b"x", partition=1, on_delivery=raises)
        producer.flush()
        assert told == [0, 1, 2]
        assert len(blocked) == 1
        producer.send(name, b"x", partition=0).add_done_callback(on_delivery)
    assert told == [0, 1, 2, 3]


def test_batches_larger_than_the_topic_allows_are_split(bootstrap: str, name: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.TOPIC, name, values={"max.message.bytes": "2000"})
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        deliveries = [producer.send(name, b"%3d" % number * 100, partition=0) for number in range(60)]
        too_large = producer.send(name, b"x" * 3_000, partition=0)
        after = producer.send(name, b"after", partition=0)
        assert [each.result().offset for each in deliveries] == list(range(60))
        with pytest.raises(BrokerError) as caught:
            too_large.result()
        assert after.result().offset == 60
    assert (caught.value.code, caught.value.retriable) == (ErrorCode.MESSAGE_TOO_LARGE, False)
    assert [each.value for each in read(bootstrap, name, 61)][:60] == [b"%3d" % n * 100 for n in range(60)]


def test_many_threads_send_side_by_side_each_in_its_order(bootstrap: str, name: str) -> None:
    with Producer(bootstrap_servers=bootstrap, batch_size=1_000, batch_max_size=1_000) as producer:

        def run(thread: int) -> None:
            for number in range(500):
                producer.send(name, b"%d %d" % (thread, number), key=b"%d" % thread)

        threads = [threading.Thread(target=run, args=(each,)) for each in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    orders: dict[int, list[int]] = {}
    for record in read(bootstrap, name, 2_000):
        thread, number = map(int, (record.value or b"").split())
        orders.setdefault(thread, []).append(number)
    assert orders == {thread: list(range(500)) for thread in range(4)}


def test_metrics_have_kafkas_names(bootstrap: str, name: str) -> None:
    with Producer(bootstrap_servers=bootstrap, client_id="counted") as producer:
        for _ in range(100):
            producer.send(name, b"x" * 100, partition=0)
        producer.flush()
        found = {each.name: value for each, value in producer.metrics().items()}
        tags = {each.tags for each in producer.metrics()}
    assert (("client-id", "counted"),) in tags
    assert found["record-send-total"] - found["record-retry-total"] == 100, "it counts what was sent again"
    assert found["record-error-total"] == 0
    assert found["byte-total"] > 10_000
    assert found["buffer-available-bytes"] == found["buffer-total-bytes"] == 33_554_432
    assert found["request-latency-avg"] >= 0


def test_an_unreachable_broker_is_named_when_the_timeout_expires() -> None:
    options: ProducerOptions = {"delivery_timeout_ms": 900, "request_timeout_ms": 800, "max_block_ms": 300}
    with (
        Producer(bootstrap_servers="127.0.0.1:1", **options) as producer,
        pytest.raises(KohortError, match=r"127\.0\.0\.1:1: Connection refused") as caught,
    ):
        producer.send("t", b"x")
    assert caught.value.retriable


def test_a_full_buffer_blocks_and_a_stopped_broker_is_why(tmp_path_factory: pytest.TempPathFactory) -> None:
    broker = BrokerProcess(tmp_path_factory.mktemp("stopped"), *QUICK)
    broker.start()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic("t", partitions=1))
    producer = Producer(
        bootstrap_servers=broker.bootstrap,
        buffer_memory=50_000,
        batch_max_size=16_384,
        max_block_ms=300,
        request_timeout_ms=1_000,
        delivery_timeout_ms=2_000,
    )
    try:
        producer.send("t", b"x").result()
        broker.kill()
        deliveries = [producer.send("t", b"x" * 10_000) for _ in range(3)]
        with pytest.raises(BufferFullError, match=r"buffer_memory \(50000\) is full"):
            producer.send("t", b"x" * 10_000)
        with pytest.raises(
            DeliveryTimeoutError, match=r"delivery_timeout_ms \(2000\); last: .*Connection refused"
        ):
            deliveries[0].result()
    finally:
        producer.close()
        broker.kill()


def test_every_failure_of_a_call_with_several_items_is_reported(
    bootstrap: str, name: str, group: str
) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        with pytest.raises(ItemsError) as caught:
            admin.create_topics(NewTopic(f"{name}-new", partitions=1), NewTopic(name), NewTopic("a b"))
        codes = {item: each.code for item, each in caught.value.errors.items()}
        assert codes == {name: ErrorCode.TOPIC_ALREADY_EXISTS, "a b": ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert set(caught.value.results) == {f"{name}-new"}
        assert not caught.value.retriable
        with pytest.raises(ItemsError, match="does not exist") as caught:
            admin.describe_topics(name, "nowhere")
        assert list(caught.value.results) == [name]
        with pytest.raises(ItemsError) as caught:
            admin.delete_records({TopicPartition(name, 0): 0, TopicPartition(name, 1): 99})
        assert list(caught.value.errors) == [TopicPartition(name, 1)]
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        admin.alter_group_offsets(group, {TopicPartition(name, 0): OffsetAndMetadata(1)})
        with pytest.raises(ItemsError) as caught:
            admin.delete_groups("nobody", group)
        assert (list(caught.value.errors), list(caught.value.results)) == (["nobody"], [group])
        assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        admin.delete_topics(f"{name}-new")


def test_topics_partition_by_partition(bootstrap: str, name: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        details = admin.describe_topic_partitions(name)[name]
        plain = admin.describe_topics(name)[name]
        assert (details.topic_id, details.is_internal) == (plain.topic_id, False)
        assert [(each.partition, each.leader, each.isr) for each in details.partitions] == [
            (each.partition, each.leader, each.isr) for each in plain.partitions
        ]
        admin.create_partitions({name: 5}, validate_only=True)
        assert len(admin.describe_topics(name)[name].partitions) == 3
        node_id = plain.partitions[0].leader
        admin.create_topics(NewTopic(f"{name}-placed", replicas={0: [node_id], 1: [node_id]}))
        wait_until(lambda: f"{name}-placed" in admin.list_topics(), "the topic is known")
        assert len(admin.describe_topics(f"{name}-placed")[f"{name}-placed"].partitions) == 2


def test_settings_that_are_lists_grow_and_shrink(bootstrap: str, name: str) -> None:
    def policy() -> set[str]:
        found = admin.describe_configs(ResourceType.TOPIC, name)["cleanup.policy"]
        return set((found.value or "").split(","))

    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.TOPIC, name, append={"cleanup.policy": "compact"})
        wait_until(lambda: policy() == {"compact", "delete"}, "the new value is in use")
        admin.alter_configs(ResourceType.TOPIC, name, subtract={"cleanup.policy": "delete"})
        wait_until(lambda: policy() == {"compact"}, "the new value is in use")
        with pytest.raises(BrokerError) as caught:
            admin.alter_configs(ResourceType.TOPIC, name, values={"retention.ms": "soon"}, validate_only=True)
        assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_the_record_with_the_largest_timestamp_is_found(bootstrap: str, name: str) -> None:
    where = TopicPartition(name, 0)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for timestamp_ms in (5_000, 9_000, 7_000):
            producer.send(name, b"x", partition=0, timestamp_ms=timestamp_ms)
            producer.flush()
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_offsets({where: MAX_TIMESTAMP})[where]
        assert (found.offset, found.timestamp_ms) == (1, 9_000)
        assert admin.list_offsets({where: 6_000})[where].offset == 1


def test_the_last_stable_offset_stands_at_an_open_transaction(bootstrap: str, name: str) -> None:
    where = TopicPartition(name, 0)
    transactional = Producer(bootstrap_servers=bootstrap, transactional_id=f"open-{name}")
    with Admin(bootstrap_servers=bootstrap) as admin, transactional as producer:

        def stable() -> int:
            return admin.list_offsets({where: LATEST}, committed_only=True)[where].offset

        with producer.transaction():
            producer.send(name, b"x", partition=0)
            producer.flush()
            assert (stable(), admin.list_offsets({where: LATEST})[where].offset) == (0, 1)
        wait_until(lambda: stable() == 2, "the record and the end of its transaction are stable")


def test_offsets_of_several_groups_at_once(bootstrap: str, name: str, group: str) -> None:
    places = [TopicPartition(name, each) for each in range(3)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        for number in range(3):
            admin.alter_group_offsets(
                f"{group}-{number}", {each: OffsetAndMetadata(number, "m") for each in places}
            )
        found = admin.list_offsets_of_groups({f"{group}-0": None, f"{group}-2": places[:1], "nobody": None})
        assert {each: len(offsets) for each, offsets in found.items()} == {
            f"{group}-0": 3,
            f"{group}-2": 1,
            "nobody": 0,
        }
        assert found[f"{group}-2"][places[0]] == OffsetAndMetadata(2, "m")
        listed = {each.group_id for each in admin.list_groups(states=["Empty"], types=["Classic"])}
        assert {f"{group}-{number}" for number in range(3)} <= listed
        assert not {f"{group}-0"} & {each.group_id for each in admin.list_groups(states=["Stable"])}
        assert set(admin.describe_groups(f"{group}-0", f"{group}-1")) == {f"{group}-0", f"{group}-1"}


def test_members_are_removed_by_an_admin(bootstrap: str, name: str, group: str) -> None:
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "heartbeat_interval_ms": 200,
    }
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Consumer(name, group_instance_id="static", **options) as consumer,
    ):
        wait_until(lambda: consumer.poll(timeout_ms=50) or consumer.assignment(), "an assignment")
        (member,) = admin.describe_groups(group)[group].members
        with pytest.raises(ItemsError) as caught:
            admin.remove_group_members(group, member_ids=["stranger"])
        assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert member.group_instance_id == "static"
        admin.remove_group_members(group, group_instance_ids=["static"])
        assert admin.describe_groups(group)[group].state == "Empty"


def test_the_cluster_and_its_brokers_settings(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        cluster = admin.describe_cluster()
        assert [each.address for each in cluster.nodes] == [bootstrap]
        settings = admin.describe_configs(ResourceType.BROKER, str(cluster.nodes[0].node_id))
        assert settings["node.id"].value == str(cluster.nodes[0].node_id)


def test_metrics_of_a_consumer_have_kafkas_names(bootstrap: str, name: str, group: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(90):
            producer.send(name, b"x" * 100, partition=number % 3)
    with Consumer(
        name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", client_id="counted"
    ) as consumer:
        seen: list[object] = []
        wait_until(lambda: seen.extend(consumer.poll(timeout_ms=50)) or len(seen) == 90, "all is read")
        consumer.commit()
        read = consumer.metrics()
    found = {each.name: value for each, value in read.items() if len(each.tags) == 1}
    lags = {dict(each.tags)["partition"]: lag for each, lag in read.items() if each.name == "records-lag"}
    assert (found["records-consumed-total"], found["records-lag-max"]) == (90, 0)
    assert lags == {"0": 0, "1": 0, "2": 0}
    assert found["bytes-consumed-total"] > 9_000
    assert (found["rebalance-total"], found["failed-rebalance-total"]) == (1, 0)
    assert (found["join-total"], found["sync-total"]) in {(1, 1), (2, 1)}, "a new member joins with its id"
    assert found["commit-total"] >= 1
    assert found["commit-latency-avg"] >= 0
    assert (found["assigned-partitions"], found["last-poll-seconds-ago"]) == (3, 0)
    assert found["rebalance-latency-max"] > 0
    assert found["connection-count"] >= 2
