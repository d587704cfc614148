"""What kafka-python's KafkaAdminClient asks, and that it takes effect."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from kafka import TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    MemberToRemove,
    OffsetSpec,
    OffsetTimestamp,
)
from kafka.errors import (
    InvalidPartitionsError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from tests.interop.clients import CLIENTS, Outgoing
from tests.interop.conftest import Join, MakeTopic
from tests.interop.members import wait_until_shared
from tests.interop.waiting import wait_until

KAFKA_PYTHON = CLIENTS["kafka-python"]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def topic_config(admin: KafkaAdminClient, topic: str, name: str) -> str | None:
    """Return a topic's config value, whatever its source."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    answer = admin.describe_configs([resource], config_filter="all")
    value: str | None = next(iter(answer.values()))[topic][name]["value"]
    return value


def test_topics_are_created_described_grown_and_deleted(admin: KafkaAdminClient) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    wanted = {name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "3600000"}}}
    admin.create_topics(wanted, wait_for_metadata=True)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics(wanted)
    assert name in admin.list_topics()
    assert topic_config(admin, name, "retention.ms") == "3600000"
    admin.create_partitions({name: 5})
    wait_until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 5, "5 partitions")
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({name: 3})
    admin.delete_topics([name])
    wait_until(lambda: name not in admin.list_topics(), "it is gone")
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def test_topics_are_described_and_deleted_by_their_id(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(1)[0].topic
    topic_id = uuid.UUID(str(admin.describe_topics([name])[0]["topic_id"]))
    assert admin.describe_topics([topic_id])[0]["name"] == name
    admin.delete_topics([topic_id])
    wait_until(lambda: name not in admin.list_topics(), "it is gone")


def test_topic_partitions_are_described_page_by_page(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(5)[0].topic
    first = admin.describe_topic_partitions([name], response_partition_limit=3)
    assert [each["partition_index"] for each in first["topics"][0]["partitions"]] == [0, 1, 2]
    rest = admin.describe_topic_partitions([name], response_partition_limit=3, cursor=first["next_cursor"])
    assert [each["partition_index"] for each in rest["topics"][0]["partitions"]] == [3, 4]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("incremental", [True, False], ids=["incremental", "whole"])
def test_configs_are_altered_and_reset(
    admin: KafkaAdminClient, make_topic: MakeTopic, incremental: bool
) -> None:
    name = make_topic(1)[0].topic
    change = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7200000"})
    admin.alter_configs([change], incremental=incremental)
    assert topic_config(admin, name, "retention.ms") == "7200000"
    admin.reset_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name, ["retention.ms"])], incremental=incremental
    )
    assert topic_config(admin, name, "retention.ms") == "604800000"


def test_config_resources_are_listed(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    name = make_topic(1)[0].topic
    listed = admin.list_config_resources(["TOPIC", "BROKER"])
    assert name in {each for kind, names in listed.items() if "TOPIC" in str(kind).upper() for each in names}


def test_the_cluster_and_its_log_folders_are_described(
    admin: KafkaAdminClient, bootstrap: str, make_topic: MakeTopic
) -> None:
    cluster = admin.describe_cluster()
    assert [f"{each['host']}:{each['port']}" for each in cluster["brokers"]] == [bootstrap]
    assert cluster["cluster_id"]
    place = make_topic(1)[0]
    KAFKA_PYTHON.produce(bootstrap, place.topic, [Outgoing(b"x" * 1000)])
    folders = [folder for broker in admin.describe_log_dirs([place.topic]) for folder in broker["log_dirs"]]
    sizes = {
        each["name"]: [partition["partition_size"] for partition in each["partitions"]]
        for folder in folders
        for each in folder["topics"]
    }
    assert sizes[place.topic][0] > 1000
    assert all(folder["total_bytes"] > folder["usable_bytes"] > 0 for folder in folders)


def test_offsets_are_listed_by_every_spec(
    admin: KafkaAdminClient, bootstrap: str, make_topic: MakeTopic
) -> None:
    place = make_topic(1)[0]
    KAFKA_PYTHON.produce(bootstrap, place.topic, [Outgoing(str(index).encode()) for index in range(5)])
    partition = TopicPartition(place.topic, 0)
    found = {
        str(spec): admin.list_partition_offsets({partition: spec})[partition].offset
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetTimestamp(0))
    }
    assert list(found.values()) == [0, 5, 0]
    assert admin.list_partition_offsets({partition: OffsetSpec.MAX_TIMESTAMP})[partition].offset >= 0


def test_deleted_records_are_gone(admin: KafkaAdminClient, bootstrap: str, make_topic: MakeTopic) -> None:
    place = make_topic(1)[0]
    KAFKA_PYTHON.produce(bootstrap, place.topic, [Outgoing(str(index).encode()) for index in range(5)])
    partition = TopicPartition(place.topic, 0)
    admin.delete_records({partition: 3})
    found = admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})
    assert found[partition].offset == 3


def test_groups_are_listed_described_and_deleted(
    admin: KafkaAdminClient, make_topic: MakeTopic, join: Join, group: str
) -> None:
    places = make_topic(2)
    member = join(KAFKA_PYTHON, places[0].topic)
    wait_until_shared([member], places)
    listed = {each["group_id"]: each for each in admin.list_groups(states_filter=["Stable"])}
    assert listed[group]["protocol_type"] == "consumer"
    assert group not in {each["group_id"] for each in admin.list_groups(states_filter=["Empty"])}
    described = admin.describe_groups([group])[group]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    assert len(described["members"]) == 1
    assert admin.delete_groups([group])[group] == "NonEmptyGroupError"
    member.close()
    assert admin.describe_groups([group])[group]["group_state"] == "Empty"
    assert admin.delete_groups([group])[group] == "OK"
    assert admin.delete_groups([group])[group] == "GroupIdNotFoundError"


def test_a_member_is_removed_by_the_admin(
    admin: KafkaAdminClient, make_topic: MakeTopic, join: Join, group: str
) -> None:
    places = make_topic(2)
    member = join(KAFKA_PYTHON, places[0].topic)
    wait_until_shared([member], places)
    first_id = admin.describe_groups([group])[group]["members"][0]["member_id"]
    removed = admin.remove_group_members(group, [MemberToRemove(member_id=first_id, reason="a test")])
    assert list(removed.values()) == [NoError]

    def came_back() -> bool:
        members = admin.describe_groups([group])[group]["members"]
        return bool(members) and members[0]["member_id"] != first_id

    wait_until(came_back, "the removed member joins again as another")


def test_a_groups_offsets_are_altered_listed_reset_and_deleted(
    admin: KafkaAdminClient, bootstrap: str, make_topic: MakeTopic, group: str
) -> None:
    places = make_topic(2)
    KAFKA_PYTHON.produce(
        bootstrap, places[0].topic, [Outgoing(b"x", partition=each % 2) for each in range(10)]
    )
    zero, one = (TopicPartition(each.topic, each.partition) for each in places)
    changed = admin.alter_group_offsets(
        group, {zero: OffsetAndMetadata(2, "why", -1), one: OffsetAndMetadata(3, "", -1)}
    )
    assert set(changed.values()) == {NoError}
    found = admin.list_group_offsets({group: None})[group]
    assert {each: (offset.offset, offset.metadata) for each, offset in found.items()} == {
        zero: (2, "why"),
        one: (3, ""),
    }
    reset = admin.reset_group_offsets(group, {zero: OffsetSpec.LATEST, one: OffsetSpec.EARLIEST})
    assert {each: answer["offset"] for each, answer in reset.items()} == {zero: 5, one: 0}
    deleted = admin.delete_group_offsets(group, [zero])
    assert deleted == {zero: NoError}
    assert set(admin.list_group_offsets({group: None})[group]) == {one}
