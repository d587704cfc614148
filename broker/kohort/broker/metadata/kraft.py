"""Reads the topics in a folder that Apache Kafka wrote in KRaft mode: the records of `__cluster_metadata`.

A snapshot `%020d-%010d.checkpoint` has the metadata as of the offset in its name; the log continues from
there. With one controller everything in its log is committed.
Source: org.apache.kafka.image.MetadataDelta, org.apache.kafka.metadata.PartitionRegistration,
org.apache.kafka.snapshot.Snapshots.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import msgspec

from kohort.broker.metadata.partition_state import PartitionState
from kohort.protocol.errors import WireError
from kohort.protocol.metadata_topic import (
    NO_CHANGE,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    OtherRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_metadata_record,
)
from kohort.protocol.records import iterate_records
from kohort.protocol.schema import Message
from kohort.storage import FileSystem, StorageError
from kohort.storage.layout import METADATA_FOLDER, SEGMENT_FILE
from kohort.storage.prefix import scan_prefix
from kohort.storage.scan import iterate_batches

_SNAPSHOT = re.compile(r"(\d{20})-\d{10}\.checkpoint")
_TOPIC_RESOURCE = 2


class KraftTopic(msgspec.Struct):
    """A topic and its partitions, by index."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionState] = {}


class KraftMetadata(msgspec.Struct):
    """The state after the records, applied one after another."""

    topics: dict[UUID, KraftTopic] = {}
    configs: dict[tuple[int, str], dict[str, str]] = {}
    next_producer_id: int = 0
    entries: dict[UUID, AccessControlEntryRecord] = {}
    quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
    """By resource, the names of types in their order."""
    unread: Counter[int] = msgspec.field(default_factory=Counter)
    """How many records were of kinds that are not read, by their api keys."""

    def apply(self, record: Message) -> None:
        """Apply one record."""
        match record:
            case TopicRecord():
                self.topics[record.topic_id] = KraftTopic(record.name, record.topic_id)
            case PartitionRecord():
                self._put(record)
            case PartitionChangeRecord():
                self._change(record)
            case RemoveTopicRecord():
                removed = self.topics.pop(record.topic_id, None)
                if removed is not None:
                    self.configs.pop((_TOPIC_RESOURCE, removed.name), None)
            case ConfigRecord():
                self._configure(record)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case AccessControlEntryRecord():
                self.entries[record.id] = record
            case RemoveAccessControlEntryRecord():
                self.entries.pop(record.id, None)
            case ClientQuotaRecord():
                self._limit(record)
            case OtherRecord():
                self.unread[record.record_type] += 1
            case _:
                raise AssertionError(record)

    def _put(self, record: PartitionRecord) -> None:
        self._partitions(record.topic_id)[record.partition_id] = PartitionState(
            record.partition_id,
            record.leader,
            record.leader_epoch,
            record.replicas,
            record.isr,
            record.partition_epoch,
        )

    def _change(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions(record.topic_id)
        before = partitions.get(record.partition_id)
        if before is None:
            raise WireError(f"a change of partition {record.partition_id} of {record.topic_id}, unknown")
        has_new_leader = record.leader != NO_CHANGE
        partitions[record.partition_id] = PartitionState(
            before.index,
            record.leader if has_new_leader else before.leader,
            before.leader_epoch + has_new_leader,
            before.replicas if record.replicas is None else record.replicas,
            before.isr if record.isr is None else record.isr,
            before.partition_epoch + 1,
        )

    def _partitions(self, topic_id: UUID) -> dict[int, PartitionState]:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise WireError(f"a partition of topic {topic_id}, unknown")
        return topic.partitions

    def _limit(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted((each.entity_type, each.entity_name) for each in record.entity))
        values = self.quotas.setdefault(entity, {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value

    def _configure(self, record: ConfigRecord) -> None:
        values = self.configs.setdefault((record.resource_type, record.resource_name), {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value


def read_kraft_metadata(file_system: FileSystem, folder: Path) -> KraftMetadata:
    """Return the state at the end of the metadata log of a data folder. Raises: StorageError."""
    metadata = KraftMetadata()
    try:
        for record in _settled(_records(file_system, folder / METADATA_FOLDER)):
            metadata.apply(record)
    except (WireError, OSError) as error:
        raise StorageError(f"{folder / METADATA_FOLDER} cannot be read: {error}") from error
    return metadata


def _settled(records: Iterator[Message]) -> Iterator[Message]:
    """Yield the valid records: of a transaction (KIP-868) only if it was committed."""
    pending: list[Message] | None = None
    for record in records:
        if isinstance(record, BeginTransactionRecord):
            pending = []
        elif isinstance(record, EndTransactionRecord):
            yield from pending or ()
            pending = None
        elif isinstance(record, AbortTransactionRecord):
            pending = None
        elif pending is not None:
            pending.append(record)
        else:
            yield record


def _records(file_system: FileSystem, folder: Path) -> Iterator[Message]:
    """Yield every record of the newest snapshot and of the log behind it. Raises: WireError, OSError."""
    names = file_system.list_directory(folder) or []
    snapshots = sorted(name for name in names if _SNAPSHOT.fullmatch(name))
    offset = 0
    if snapshots:
        offset = int(snapshots[-1][:20])
        yield from _records_of(file_system, folder / snapshots[-1], 0, is_whole=True)
    segments = sorted(name for name in names if SEGMENT_FILE.fullmatch(name))
    if segments and int(segments[0][:20]) > offset:
        raise WireError(f"its log begins at {int(segments[0][:20])}, and there is no snapshot as of then")
    for name in segments:
        yield from _records_of(file_system, folder / name, offset, is_whole=name != segments[-1])


def _records_of(file_system: FileSystem, path: Path, offset: int, *, is_whole: bool) -> Iterator[Message]:
    """Yield the records from `offset` on; only the end of the last segment may be torn."""
    file = file_system.open(path)
    size = file.size()
    sound = scan_prefix(file, 0).size_bytes
    if is_whole and sound != size:
        raise WireError(f"{path.name} is damaged at position {sound}")
    for _, header, batch in iterate_batches(file, 0, sound):
        if header.is_control or header.last_offset < offset:
            continue
        for record in iterate_records(batch):
            if record.offset >= offset:
                yield decode_metadata_record(record.value or b"")
