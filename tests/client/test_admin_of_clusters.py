"""Where replicas lie, who leads, what a cluster agrees on, and groups of each type, as the admin tells it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import confluent_kafka
import pytest
from confluent_kafka import ShareConsumer

from kohort.client import (
    Admin,
    BrokerError,
    ElectionType,
    FeatureUpgrade,
    GroupDescription,
    ItemsError,
    NewTopic,
    Producer,
    ReplicaSize,
    TopicPartition,
    UnsupportedVersionError,
)
from kohort.client.errors import KohortError
from kohort.protocol.errors import ErrorCode
from tests.client.conftest import QUICK
from tests.differential import apache_kafka
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)
FAR_AWAY = 99


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apache_kafka.running(tmp_path_factory.mktemp("kafka"), *SETTINGS) as address:
        yield address


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    process = BrokerProcess(tmp_path_factory.mktemp("own"), *QUICK)
    process.start()
    yield process.bootstrap
    process.stop()


@pytest.fixture(scope="module", params=["kohort", "Apache Kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where each of the two listens in turn."""
    found = request.getfixturevalue("own" if request.param == "kohort" else "kafka")
    assert isinstance(found, str)
    return found


def new_topic(admin: Admin, partitions: int = 2) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin.create_topics(NewTopic(name, partitions=partitions))
    wait_until(lambda: name in admin.list_topics(), "the topic is there")
    return name


def codes(error: ItemsError) -> dict[object, int | None]:
    return {item: each.code for item, each in error.errors.items()}


def test_open_transactions_have_their_partitions_until_they_end(bootstrap: str) -> None:
    name = f"id-{uuid.uuid4().hex[:8]}"
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Producer(
            bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=61_000
        ) as producer,
    ):
        topic = new_topic(admin)
        with producer.transaction():
            producer.send(topic, b"x", partition=1).result()
            (found,) = [each for each in admin.open_transactions() if each.transactional_id == name]
            assert (found.partitions, found.timeout_ms) == ((TopicPartition(topic, 1),), 61_000)
            assert found.started_ms > 0
            assert found.state == "Ongoing"

        def is_over() -> bool:
            return name not in [each.transactional_id for each in admin.open_transactions()]

        wait_until(is_over, "its markers are written")


def test_log_dirs_have_the_size_of_each_replica(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        name = new_topic(admin)
        producer.send(name, b"x" * 5_000, partition=1).result()
        node_id = admin.describe_cluster().nodes[0].node_id
        for told in (admin.describe_log_dirs(), admin.describe_log_dirs(node_id)):
            ((path, directory),) = told.pop(node_id).items()
            assert Path(path).is_dir()
            assert directory.error is None
            assert directory.replicas[TopicPartition(name, 0)] == ReplicaSize(0, 0, False)
            assert directory.replicas[TopicPartition(name, 1)].size_bytes > 5_000
            assert directory.total_bytes is None or 0 < (directory.usable_bytes or 0) <= directory.total_bytes
            assert not told
        with pytest.raises(ItemsError) as raised:
            Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=500).describe_log_dirs(
                FAR_AWAY, node_id
            )
        assert list(raised.value.errors) == [FAR_AWAY]
        assert list(raised.value.results) == [node_id]
        with pytest.raises(TypeError, match="one by one"):
            admin.describe_log_dirs([node_id])  # type: ignore[arg-type]


def test_reassignments_are_started_listed_and_cancelled(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=5_000) as admin:
        name = new_topic(admin)
        node_id = admin.describe_cluster().nodes[0].node_id
        one, other = TopicPartition(name, 0), TopicPartition(name, 1)
        with pytest.raises(ItemsError) as raised:
            admin.alter_partition_reassignments({one: [FAR_AWAY], other: None})
        assert codes(raised.value) == {
            one: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            other: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        }
        assert admin.list_partition_reassignments() == {}
        assert admin.list_partition_reassignments([one, other]) == {}
        admin.alter_partition_reassignments({one: [node_id]}, allow_replication_factor_change=False)


def test_leaders_are_elected_where_that_is_needed(kafka: str) -> None:
    with Admin(bootstrap_servers=kafka, default_api_timeout_ms=5_000) as admin:
        name = new_topic(admin)
        known, unknown = TopicPartition(name, 0), TopicPartition(name, 7)
        assert admin.elect_leaders(ElectionType.PREFERRED, [known]) == {known: False}
        assert admin.elect_leaders(ElectionType.PREFERRED, None) == {}
        with pytest.raises(ItemsError) as raised:
            admin.elect_leaders(ElectionType.UNCLEAN, [known, unknown])
        assert codes(raised.value) == {unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert raised.value.results == {known: False}


def test_features_are_described_and_updated(kafka: str) -> None:
    with Admin(bootstrap_servers=kafka, default_api_timeout_ms=5_000) as admin:
        before = admin.describe_features()
        level = before.finalized["group.version"].max_level
        assert level <= before.supported["group.version"].max_level
        assert before.finalized_epoch is not None
        admin.update_features({"group.version": 0}, upgrade=FeatureUpgrade.SAFE_DOWNGRADE, validate_only=True)
        assert admin.describe_features().finalized == before.finalized
        with pytest.raises(KohortError, match=r"group\.version"):
            admin.update_features({"group.version": 99})
        with pytest.raises(KohortError, match="nonsense"):
            admin.update_features({"nonsense": 1})


def test_an_api_that_the_broker_lacks_is_reported(own: str) -> None:
    with Admin(bootstrap_servers=own) as admin:
        with pytest.raises(UnsupportedVersionError, match="does not speak UpdateFeatures"):
            admin.update_features({"group.version": 1})
        assert admin.describe_features().finalized["group.version"].max_level == 1


def consume(bootstrap: str, group: str, topic: str, protocol: str) -> Callable[[], None]:
    """Let a member of librdkafka's join a group of this protocol; return what ends it."""
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "group.id": group}
    if protocol == "share":
        sharing = ShareConsumer(settings)
        sharing.subscribe([topic])
        sharing.poll(1.0)
        return lambda: close_within(10, sharing)
    consumer = confluent_kafka.Consumer(
        settings | {"group.protocol": protocol, "group.instance.id": "static"}
    )
    consumer.subscribe([topic])
    consumer.poll(1.0)
    return lambda: close_within(10, consumer)


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
def test_groups_of_each_protocol_are_described(kafka: str, protocol: str) -> None:
    with Admin(bootstrap_servers=kafka, default_api_timeout_ms=5_000) as admin:
        topic, group = new_topic(admin), f"group-{uuid.uuid4().hex[:8]}"
        end = consume(kafka, group, topic, protocol)

        def described() -> GroupDescription:
            return admin.describe_groups(group)[group]

        def is_assigned() -> bool:
            with suppress(ItemsError):  # It is not there yet.
                return any(each.assignment.get(topic) == (0, 1) for each in described().members)
            return False

        try:
            wait_until(is_assigned, "the member has both partitions")
            found = described()
            assert (found.type, found.state) == (protocol, "Stable")
            assert [each.type for each in admin.list_groups() if each.group_id == group] == [protocol]
            (member,) = found.members
            assert member.client_id == "rdkafka"
            if protocol == "classic":
                assert (found.group_epoch, member.member_epoch, member.topics) == (None, None, ())
            else:
                assert (found.group_epoch or 0) >= 1
                assert found.group_epoch == found.assignment_epoch == member.member_epoch
                assert member.topics == (topic,)
            if protocol == "consumer":
                assert member.target_assignment == {topic: (0, 1)}
                assert (member.group_instance_id, found.assignor) == ("static", "uniform")
        finally:
            end()


def close_within(seconds: float, consumer: confluent_kafka.Consumer | ShareConsumer) -> None:
    """Close a consumer of librdkafka's, which now and then waits for ever: no longer than this."""
    closing = Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(seconds)


def test_groups_of_several_protocols_are_described_together(kafka: str) -> None:
    with Admin(bootstrap_servers=kafka, default_api_timeout_ms=5_000) as admin:
        topic = new_topic(admin)
        groups = {each: f"{each}-{uuid.uuid4().hex[:8]}" for each in ("classic", "consumer", "share")}
        ends = [consume(kafka, group, topic, protocol) for protocol, group in groups.items()]
        try:
            wait_until(
                lambda: {each.group_id for each in admin.list_groups()} >= set(groups.values()),
                "all groups are there",
            )
            with pytest.raises(ItemsError) as raised:
                admin.describe_groups(*groups.values(), "nobody")
            assert {each: codes(raised.value)[each] for each in raised.value.errors} == {
                "nobody": ErrorCode.GROUP_ID_NOT_FOUND
            }
            results = raised.value.results
            assert {each: results[group].type for each, group in groups.items()} == {
                each: each for each in groups
            }
            with pytest.raises(BrokerError, match="not found"):
                raise raised.value.errors["nobody"]
        finally:
            for end in ends:
                end()
