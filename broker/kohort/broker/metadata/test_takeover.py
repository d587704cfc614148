"""A first start on a folder that Apache Kafka wrote: its topics and settings, and nobody else's."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from kohort.broker.authorization.acls import Filter
from kohort.broker.metadata import ConfigResource, EmbeddedMetadataStore, ResourceType, Snapshot
from kohort.broker.metadata.acls import bindings
from kohort.broker.metadata.file import FILE_NAME
from kohort.broker.metadata.quotas import quotas
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kohort.protocol.metadata_topic import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ClientQuotaRecordEntity,
    ConfigRecord,
    EndTransactionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode_metadata_record,
)
from kohort.protocol.records import build_batch
from kohort.protocol.schema import Message
from kohort.storage import OsFileSystem, StorageError
from kohort.storage.layout import METADATA_FOLDER
from tests.messages import message_of

ORDERS, GONE = UUID(int=1), UUID(int=2)
NODE_ID = 1


def partition(index: int, topic_id: UUID = ORDERS, replicas: tuple[int, ...] = (NODE_ID,)) -> PartitionRecord:
    return message_of(
        PartitionRecord,
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        leader_epoch=4,
        partition_epoch=7,
    )


def config(kind: ResourceType, resource: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def write(folder: Path, name: str, *batches: Sequence[Message], base_offset: int = 0) -> Path:
    """Write a file of the metadata log, a batch for each of `batches`."""
    path = folder / METADATA_FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b""
    for records in batches:
        values = [(1, None, encode_metadata_record(record), ()) for record in records]
        batch = bytearray(build_batch(values))
        batch[:8] = base_offset.to_bytes(8, "big")
        base_offset += len(records)
        content += batch
    path.write_bytes(content)
    return path


def segment(base_offset: int = 0) -> str:
    return f"{base_offset:020d}.log"


def started(folder: Path) -> Snapshot:
    store = EmbeddedMetadataStore.open(OsFileSystem(), folder, cluster_id="c", node_id=NODE_ID)
    return store.snapshot()


def test_topics_with_ids_partitions_and_settings_are_imported(tmp_path: Path) -> None:
    write(
        tmp_path,
        segment(),
        [TopicRecord(name="orders", topic_id=ORDERS), partition(0), partition(1)],
        [
            config(ResourceType.TOPIC, "orders", "retention.ms", "5"),
            config(ResourceType.TOPIC, "orders", "segment.ms", "7"),
            config(ResourceType.BROKER, "", "num.partitions", "3"),
        ],
        [config(ResourceType.TOPIC, "orders", "segment.ms", None)],
    )
    snapshot = started(tmp_path)
    orders = snapshot.topics["orders"]
    assert orders.topic_id == ORDERS
    assert orders.configs == {"retention.ms": "5"}
    assert [(each.index, each.leader, each.replicas) for each in orders.partitions] == [
        (0, 1, (1,)),
        (1, 1, (1,)),
    ]
    assert snapshot.configs == {ConfigResource(ResourceType.BROKER, ""): {"num.partitions": "3"}}


def acl(number: int, principal: str, host: str = "*") -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=UUID(int=number),
        resource_type=AclResourceType.TOPIC,
        resource_name="orders",
        pattern_type=AclPatternType.PREFIXED,
        principal=principal,
        host=host,
        operation=AclOperation.READ,
        permission_type=AclPermission.ALLOW,
    )


def quota(value: float, key: str = "producer_byte_rate", *, remove: bool = False) -> ClientQuotaRecord:
    entity = (
        ClientQuotaRecordEntity(entity_type="user", entity_name="alice"),
        ClientQuotaRecordEntity(entity_type="client-id", entity_name=None),
    )
    return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def test_access_control_entries_and_quotas_are_imported(tmp_path: Path) -> None:
    write(
        tmp_path,
        segment(),
        [acl(1, "User:alice"), acl(2, "User:bob"), acl(3, "User:carol", "no host")],
        [RemoveAccessControlEntryRecord(id=UUID(int=2))],
        [
            quota(5.0),
            quota(7.0),
            quota(1.0, "consumer_byte_rate"),
            quota(0.0, "consumer_byte_rate", remove=True),
        ],
    )
    snapshot = started(tmp_path)
    (found,) = bindings(snapshot, Filter())
    assert (found.pattern.name, found.entry.principal) == ("orders", "User:alice")
    assert list(quotas(snapshot)) == [({"client-id": None, "user": "alice"}, {"producer_byte_rate": 7.0})]


def test_the_leader_epoch_is_newer_than_any_that_kafka_has_had(tmp_path: Path) -> None:
    """A leader that comes or goes is an epoch; when the last broker stops, there is none left."""
    changes = [
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(), leader=-1),
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(NODE_ID,), leader=NODE_ID),
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=()),
    ]
    write(tmp_path, segment(), [TopicRecord(name="orders", topic_id=ORDERS), partition(0)], changes)
    (taken,) = started(tmp_path).topics["orders"].partitions
    assert (taken.leader, taken.isr, taken.leader_epoch, taken.partition_epoch) == (1, (1,), 7, 11)


def test_a_deleted_topic_is_not_imported(tmp_path: Path) -> None:
    again = UUID(int=3)
    write(
        tmp_path,
        segment(),
        [TopicRecord(name="gone", topic_id=GONE), partition(0, GONE)],
        [config(ResourceType.TOPIC, "gone", "retention.ms", "5")],
        [RemoveTopicRecord(topic_id=GONE)],
        [TopicRecord(name="gone", topic_id=again), partition(0, again)],
    )
    topics = started(tmp_path).topics
    assert {name: (topic.topic_id, topic.configs) for name, topic in topics.items()} == {"gone": (again, {})}


def test_the_log_continues_where_the_newest_snapshot_ends(tmp_path: Path) -> None:
    old = [TopicRecord(name="old", topic_id=GONE), partition(0, GONE)]
    write(tmp_path, "00000000000000000002-0000000001.checkpoint", old)
    orders = [TopicRecord(name="orders", topic_id=ORDERS), partition(0)]
    write(tmp_path, "00000000000000000006-0000000001.checkpoint", [*orders, partition(1)])
    # Of its own segment the snapshot has the first batch already.
    write(tmp_path, segment(4), orders, [partition(2)], base_offset=4)
    write(tmp_path, segment(7), [partition(3)], base_offset=7)
    topics = started(tmp_path).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {"orders": 4}


def test_a_transaction_holds_once_it_has_ended(tmp_path: Path) -> None:
    begin, end, abort = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()
    write(
        tmp_path,
        segment(),
        [begin, TopicRecord(name="orders", topic_id=ORDERS), partition(0), end],
        [begin, partition(1), abort, begin, partition(1)],
    )
    assert len(started(tmp_path).topics["orders"].partitions) == 1


def test_metadata_are_imported_only_once(tmp_path: Path) -> None:
    path = write(tmp_path, segment(), [TopicRecord(name="orders", topic_id=ORDERS), partition(0)])
    first = started(tmp_path)
    path.unlink()
    assert started(tmp_path) == first
    assert (tmp_path / FILE_NAME).exists()


async def test_producer_ids_continue_after_those_of_kafka(tmp_path: Path) -> None:
    write(tmp_path, segment(), [ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=3_000)])
    store = EmbeddedMetadataStore.open(OsFileSystem(), tmp_path, cluster_id="c", node_id=NODE_ID)
    assert await store.allocate_producer_ids(10) == range(3_000, 3_010)


def test_unknown_settings_are_skipped(tmp_path: Path) -> None:
    write(
        tmp_path,
        segment(),
        [TopicRecord(name="orders", topic_id=ORDERS), partition(0)],
        [
            config(ResourceType.TOPIC, "orders", "of.a.later.kafka", "5"),
            config(ResourceType.TOPIC, "orders", "retention.ms", "6"),
            config(ResourceType.BROKER, "1", "log.cleaner.threads", "2"),
            config(ResourceType.GROUP, "readers", "consumer.session.timeout.ms", "50000"),
        ],
    )
    snapshot = started(tmp_path)
    assert snapshot.topics["orders"].configs == {"retention.ms": "6"}
    assert set(snapshot.configs) <= {ConfigResource(ResourceType.BROKER, "1")}


def test_records_of_other_kinds_and_a_torn_end_change_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, segment(), [TopicRecord(name="orders", topic_id=ORDERS), partition(0)])
    features = build_batch([(1, None, b"\x01\x0c\x00 whatever a feature level says", ())])
    torn = build_batch([(1, None, encode_metadata_record(RemoveTopicRecord(topic_id=ORDERS)), ())])
    with path.open("ab") as file:
        file.write(b"\0\0\0\0\0\0\0\x02" + features[8:] + b"\0\0\0\0\0\0\0\x03" + torn[8:-1])
    assert list(started(tmp_path).topics) == ["orders"]


@pytest.mark.parametrize("replicas", [(1, 2), (2,)])
def test_a_folder_of_a_larger_cluster_is_refused(tmp_path: Path, replicas: tuple[int, ...]) -> None:
    write(tmp_path, segment(), [TopicRecord(name="orders", topic_id=ORDERS), partition(0, replicas=replicas)])
    with pytest.raises(StorageError, match=r"orders-0 has its replicas on \[.*2.*\].*node 1.*node\.id"):
        started(tmp_path)
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (b"\x01\x02\x63", "TopicRecord has an unknown version 99"),
        (b"\x02\x02\x00", "frame of version 2"),
        (b"\x01\x03", "cut short in its first bytes"),
        (b"\x01\x02\x00\x7f", "TopicRecord"),
    ],
)
def test_unreadable_metadata_stop_the_start(tmp_path: Path, value: bytes, what: str) -> None:
    path = write(tmp_path, segment())
    path.write_bytes(build_batch([(1, None, value, ())]))
    with pytest.raises(StorageError, match=what):
        started(tmp_path)


def test_a_log_without_its_beginning_stops_the_start(tmp_path: Path) -> None:
    write(tmp_path, segment(5), [partition(0)], base_offset=5)
    with pytest.raises(StorageError, match="begins at 5"):
        started(tmp_path)


def test_damage_within_the_log_stops_the_start(tmp_path: Path) -> None:
    path = write(tmp_path, segment(), [TopicRecord(name="orders", topic_id=ORDERS), partition(0)])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    write(tmp_path, segment(2), [partition(1)], base_offset=2)
    with pytest.raises(StorageError, match="damaged at position 0"):
        started(tmp_path)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_metadata_only_stop_the_start(tmp_path: Path, seed: int) -> None:
    """Bytes of records are changed, and the CRC made right: what is read may be anything."""
    dice = Random(seed)
    records: list[Message] = [
        TopicRecord(name="orders", topic_id=ORDERS),
        partition(0),
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=(), leader=-1),
        config(ResourceType.TOPIC, "orders", "retention.ms", "5"),
        ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=3_000),
    ]
    values = [bytearray(encode_metadata_record(record)) for record in records]
    for _ in range(dice.randrange(1, 4)):
        value = dice.choice(values)
        value[dice.randrange(len(value))] = dice.randrange(256)
    path = write(tmp_path, segment())
    path.write_bytes(build_batch([(1, None, bytes(value), ()) for value in values]))
    try:
        started(tmp_path)
    except StorageError:
        assert not (tmp_path / FILE_NAME).exists()
