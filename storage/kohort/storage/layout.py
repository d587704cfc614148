"""The small text files of a data folder, in Kafka's formats, and the names of its folders."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import msgspec

from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem

PARTITION_METADATA = "partition.metadata"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
DELETED_SUFFIX = "-delete"
METADATA_TOPIC = "__cluster_metadata"
"""Where Apache Kafka's controllers keep topics and settings: no partition of a broker's."""

TopicPartition = tuple[str, int]

LogId = bytes
"""The identity of a log: 16 bytes of topic id, then the partition as int32."""

_DIRECTORY_ID = "directory.id"

SEGMENT_FILE = re.compile(r"\d{20}\.log")
_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<index>\d+)")


def partition_folder(topic: str, index: int) -> str:
    """Return the name of a partition's folder."""
    return f"{topic}-{index}"


def log_id_of(topic_id: UUID, index: int) -> LogId:
    """Return the identity of a partition's log."""
    return topic_id.bytes + index.to_bytes(4, "big")


METADATA_FOLDER = partition_folder(METADATA_TOPIC, 0)


def parse_partition_folder(name: str) -> TopicPartition | None:
    """Return topic and partition of a folder name, None if it is not a partition's."""
    match = _FOLDER.fullmatch(name)
    if match is None or name.endswith(DELETED_SUFFIX):
        return None
    return match["topic"], int(match["index"])


def format_uuid(topic_id: UUID) -> str:
    """Return the id as Kafka prints it: URL-safe base 64 without padding."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """Return the id that Kafka printed. Raises: ValueError."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """Return the content of `partition.metadata`."""
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode()


def decode_partition_metadata(content: bytes | None) -> UUID | None:
    """Return the topic id in `partition.metadata`; None if it is missing or truncated by a crash."""
    if not content:
        return None
    try:
        fields = _properties(content, ":")
        return parse_uuid(fields["topic_id"])
    except (ValueError, KeyError):
        return None


def encode_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return a checkpoint: `0`, the number of entries, then `topic partition offset` a line."""
    lines = [f"{topic} {index} {offset}\n" for (topic, index), offset in sorted(offsets.items())]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def decode_offset_checkpoint(content: bytes | None) -> dict[TopicPartition, int] | None:
    """Return the offsets of a checkpoint, empty when there is no file, None when it is damaged."""
    if content is None:
        return {}
    if not content.endswith(b"\n"):  # Truncated within its last number it would be another number.
        return None
    try:
        version, count, *lines = content.decode().split("\n")
        offsets: dict[TopicPartition, int] = {}
        for line in filter(None, lines):
            topic, index, offset = line.split(" ")
            offsets[topic, int(index)] = int(offset)
    except ValueError:
        return None
    return offsets if version == "0" and count == str(len(offsets)) else None


class MetaProperties(msgspec.Struct, frozen=True):
    """The owner of a folder: the content of `meta.properties`."""

    cluster_id: str
    node_id: int

    def encode(self) -> bytes:
        """Return the file's content."""
        return f"version=1\ncluster.id={self.cluster_id}\nnode.id={self.node_id}\n".encode()

    @classmethod
    def decode(cls, content: bytes) -> "MetaProperties":
        """Return the content of the file. Raises: StorageError if it is not in the format of Kafka 4."""
        try:
            fields = _properties(content, "=")
            if fields["version"] != "1":
                raise StorageError(f"meta.properties is of version {fields['version']}; 1 is expected")
            return cls(fields["cluster.id"], int(fields["node.id"]))
        except (ValueError, KeyError) as error:
            raise StorageError(f"meta.properties is damaged: {error}") from error


def directory_id_line(directory_id: UUID) -> bytes:
    """Return the line of `meta.properties` with the id of the folder."""
    return f"{_DIRECTORY_ID}={format_uuid(directory_id)}\n".encode()


def decode_directory_id(content: bytes) -> UUID | None:
    """Return the id of the folder whose `meta.properties` this is, None where it has none."""
    try:
        return parse_uuid(_properties(content, "=")[_DIRECTORY_ID])
    except (ValueError, KeyError):
        return None


def _properties(content: bytes, separator: str) -> dict[str, str]:
    """Return the fields of lines `name separator value`; `#` starts a comment. Raises: ValueError."""
    fields: dict[str, str] = {}
    for line in content.decode().splitlines():
        if line.strip() and not line.startswith("#"):
            name, value = line.split(separator, 1)
            fields[name.strip()] = value.strip()
    return fields


def name_folder(file_system: FileSystem, path: str, topic_id: UUID) -> None:
    """Write the owner of the folder into it, synced. Raises: OSError.

    It is written again even if it can be read: after a failed sync the cache may show bytes that are lost.
    """
    metadata = file_system.open(f"{path}/{PARTITION_METADATA}", create=True)
    metadata.write_at([encode_partition_metadata(topic_id)], 0)
    metadata.sync()


def claim_folder(file_system: FileSystem, path: str, topic_id: UUID) -> None:
    """Make sure that the folder exists and belongs to this topic: a recreated topic has another id.

    Raises: StorageError, OSError.
    """
    metadata = f"{path}/{PARTITION_METADATA}"
    content = file_system.read(metadata)
    known = decode_partition_metadata(content)
    if known is not None and known != topic_id:
        raise StorageError(f"{path} belongs to topic id {known}, not to {topic_id}")
    if known is None:
        file_system.make_directory(path)
        file_system.replace(metadata, encode_partition_metadata(topic_id))
        file_system.sync_directory(path)
        file_system.sync_directory(path.rpartition("/")[0])


def keep_newest(file_system: FileSystem, path: str, suffix: str, count: int) -> None:
    """Remove all files of a kind except the last `count` by name. Raises: OSError."""
    names = sorted(name for name in file_system.list_directory(path) or [] if name.endswith(suffix))
    for name in names[: max(0, len(names) - count)]:
        file_system.remove(f"{path}/{name}")


def mark_deleted(file_system: FileSystem, path: str, topic_id: UUID) -> str:
    """Return the new name of a partition's folder, under which the next start removes it. Raises: OSError."""
    deleted = f"{path}.{topic_id.hex}{DELETED_SUFFIX}"
    file_system.rename(path, deleted)
    file_system.sync_directory(Path(path).parent)
    return deleted


def remove_folder(file_system: FileSystem, path: str) -> None:
    """Remove a partition's folder with its files. Raises: OSError."""
    for name in file_system.list_directory(path) or []:
        file_system.remove(f"{path}/{name}")
    file_system.remove_directory(path)
