"""What confluent-kafka's AdminClient asks, and that it takes effect."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Their home says otherwise.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.interop.clients import CLIENTS, Outgoing, Place
from tests.interop.conftest import Join, MakeTopic
from tests.interop.members import wait_until_shared
from tests.interop.waiting import wait_until

TIMEOUT_S = 15
EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
MAX_TIMESTAMP: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
CONFLUENT = CLIENTS["confluent-kafka"]


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def config_value(admin: AdminClient, topic: str, name: str) -> tuple[str, int]:
    """Return a topic's config value and where it comes from."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entry = admin.describe_configs([resource])[resource].result(TIMEOUT_S)[name]
    return entry.value, entry.source


def test_topics_are_created_described_grown_and_deleted(admin: AdminClient) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    new = NewTopic(name, 2, 1, config={"retention.ms": "3600000"})
    admin.create_topics([new])[name].result(TIMEOUT_S)
    with pytest.raises(KafkaException) as again:
        admin.create_topics([new])[name].result(TIMEOUT_S)
    assert again.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    wait_until(lambda: admin.list_topics(name, TIMEOUT_S).topics[name].partitions, "it is there")
    partitions = admin.list_topics(name, TIMEOUT_S).topics[name].partitions
    assert {index: (each.replicas, each.isrs) for index, each in partitions.items()} == {
        index: ([partitions[0].leader], [partitions[0].leader]) for index in range(2)
    }
    admin.create_partitions([NewPartitions(name, 5)])[name].result(TIMEOUT_S)
    wait_until(lambda: len(admin.list_topics(name, TIMEOUT_S).topics[name].partitions) == 5, "5 partitions")
    with pytest.raises(KafkaException) as fewer:
        admin.create_partitions([NewPartitions(name, 3)])[name].result(TIMEOUT_S)
    assert fewer.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    admin.delete_topics([name])[name].result(TIMEOUT_S)
    wait_until(lambda: name not in admin.list_topics(timeout=TIMEOUT_S).topics, "it is gone")
    with pytest.raises(KafkaException) as gone:
        admin.delete_topics([name])[name].result(TIMEOUT_S)
    assert gone.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_only_validated_is_not_created(admin: AdminClient) -> None:
    name = f"validated-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 2, 1)], validate_only=True)[name].result(TIMEOUT_S)
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("no/slashes", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("too-many-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("odd-config", 1, 1, config={"no.such.config": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("odd-value", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda value: value.topic if isinstance(value, NewTopic) else "",
)
def test_a_wrong_topic_is_refused_with_its_code(admin: AdminClient, topic: NewTopic, code: int) -> None:
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([topic])[topic.topic].result(TIMEOUT_S)
    assert refused.value.args[0].code() == code


def test_topics_are_described_with_their_ids(admin: AdminClient, make_topic: MakeTopic) -> None:
    from confluent_kafka import TopicCollection

    name = make_topic(3)[0].topic
    described = admin.describe_topics(TopicCollection([name]))[name].result(TIMEOUT_S)
    assert described.name == name
    assert not described.is_internal
    assert [each.id for each in described.partitions] == [0, 1, 2]
    assert str(described.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")


def test_configs_are_changed_incrementally_and_completely(admin: AdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(1)[0].topic
    entry = ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)
    one = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([one])[one].result(TIMEOUT_S)
    dynamic_topic, default = 1, 5
    assert config_value(admin, name, "retention.ms") == ("7200000", dynamic_topic)
    assert config_value(admin, name, "cleanup.policy") == ("delete", default)
    undo = ConfigResource(
        ConfigResource.Type.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ],
    )
    admin.incremental_alter_configs([undo])[undo].result(TIMEOUT_S)
    assert config_value(admin, name, "retention.ms") == ("604800000", default)
    assert config_value(admin, name, "cleanup.policy") == ("delete,compact", dynamic_topic)
    whole = ConfigResource(ConfigResource.Type.TOPIC, name, set_config={"segment.bytes": "1048576"})
    admin.alter_configs([whole])[whole].result(TIMEOUT_S)
    assert config_value(admin, name, "segment.bytes") == ("1048576", dynamic_topic)
    assert config_value(admin, name, "cleanup.policy") == ("delete", default), "not named: back to default"


def test_the_cluster_and_its_broker_are_described(admin: AdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id
    assert cluster.cluster_id
    resource = ConfigResource(ConfigResource.Type.BROKER, str(cluster.nodes[0].id))
    configs = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert configs["offsets.topic.num.partitions"].value == "50"


def test_offsets_are_listed_by_every_spec(admin: AdminClient, bootstrap: str, make_topic: MakeTopic) -> None:
    place = make_topic(1)[0]
    CONFLUENT.produce(bootstrap, place.topic, [Outgoing(str(index).encode()) for index in range(5)])
    partition = TopicPartition(place.topic, 0)
    found = {
        name: admin.list_offsets({partition: spec})[partition].result(TIMEOUT_S).offset
        for name, spec in (
            ("earliest", EARLIEST),
            ("latest", LATEST),
            ("time 0", OffsetSpec.for_timestamp(0)),
        )
    }
    assert found == {"earliest": 0, "latest": 5, "time 0": 0}
    newest = admin.list_offsets({partition: MAX_TIMESTAMP})[partition].result(TIMEOUT_S)
    assert newest.offset >= 0


def test_deleted_records_are_gone(admin: AdminClient, bootstrap: str, make_topic: MakeTopic) -> None:
    place = make_topic(1)[0]
    CONFLUENT.produce(bootstrap, place.topic, [Outgoing(str(index).encode()) for index in range(5)])
    partition = TopicPartition(place.topic, 0, 3)
    assert admin.delete_records([partition])[partition].result(TIMEOUT_S).low_watermark == 3
    earliest = admin.list_offsets({TopicPartition(place.topic, 0): EARLIEST})
    assert [each.result(TIMEOUT_S).offset for each in earliest.values()] == [3]
    beyond = TopicPartition(place.topic, 0, 99)
    with pytest.raises(KafkaException) as refused:
        admin.delete_records([beyond])[beyond].result(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_groups_are_listed_described_and_deleted(
    admin: AdminClient, make_topic: MakeTopic, join: Join, group: str
) -> None:
    places = make_topic(2)
    member = join(CONFLUENT, places[0].topic)
    wait_until_shared([member], places)
    listed = {each.group_id: each for each in admin.list_consumer_groups().result(TIMEOUT_S).valid}
    assert listed[group].state.name == "STABLE"
    assert not listed[group].is_simple_consumer_group
    described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    assert (described.state.name, described.partition_assignor) == ("STABLE", "range")
    assert [each.client_id for each in described.members] == ["rdkafka"]
    owned = described.members[0].assignment.topic_partitions
    assert [Place(each.topic, each.partition) for each in owned] == places
    with pytest.raises(KafkaException) as busy:
        admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    assert busy.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    member.close()
    described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    assert described.state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    with pytest.raises(KafkaException) as gone:
        admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    assert gone.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_a_groups_offsets_are_altered_and_listed(
    admin: AdminClient, make_topic: MakeTopic, group: str
) -> None:
    places = make_topic(2)
    wanted = [TopicPartition(each.topic, each.partition, 40 + each.partition) for each in places]
    change = ConsumerGroupTopicPartitions(group, wanted)
    admin.alter_consumer_group_offsets([change])[group].result(TIMEOUT_S)
    everything = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([everything])[group].result(TIMEOUT_S)
    assert {(each.partition, each.offset) for each in found.topic_partitions} == {(0, 40), (1, 41)}
