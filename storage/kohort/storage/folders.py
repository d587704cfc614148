"""The partition folders in a data folder, and the topic id that each one contains."""

from pathlib import Path
from uuid import UUID

import msgspec

from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.layout import (
    METADATA_TOPIC,
    PARTITION_METADATA,
    SEGMENT_FILE,
    TopicPartition,
    decode_partition_metadata,
    encode_partition_metadata,
    parse_partition_folder,
    partition_folder,
)


class PartitionFolder(msgspec.Struct, frozen=True):
    """A partition that the data folder holds; `topic_id` is None where a crash took it."""

    topic: str
    index: int
    topic_id: UUID | None
    path: Path


def partition_folders(file_system: FileSystem, path: Path) -> list[TopicPartition]:
    """Return the partitions that the folder names contain, in order. Raises: OSError."""
    names = file_system.list_directory(path) or []
    keys = (key for key in map(parse_partition_folder, names) if key is not None)
    return sorted(key for key in keys if key[0] != METADATA_TOPIC)


def read_folder(file_system: FileSystem, path: Path, key: TopicPartition) -> PartitionFolder:
    """Return the topic id that a partition's folder contains. Raises: StorageError."""
    folder = path / partition_folder(*key)
    try:
        content = file_system.read(folder / PARTITION_METADATA)
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error}") from error
    return PartitionFolder(*key, decode_partition_metadata(content), folder)


def says_topic_id(file_system: FileSystem, path: str, key: TopicPartition, topic_id: UUID) -> bool:
    """Whether a partition's folder contains this topic id, byte for byte as it is written here.

    A third of the time of `read_folder`, which decides about all others. No error: that will have it as well.
    """
    try:
        content = file_system.read(f"{path}/{partition_folder(*key)}/{PARTITION_METADATA}")
    except OSError:
        return False
    return content == encode_partition_metadata(topic_id)


def holds_records(file_system: FileSystem, folder: PartitionFolder) -> bool:
    """Return whether anything was ever written there that is still there. Raises: StorageError."""
    try:
        names = file_system.list_directory(folder.path) or []
        logs = [folder.path / name for name in names if SEGMENT_FILE.fullmatch(name)]
        return any(file_system.open(path).size() for path in logs)
    except OSError as error:
        raise StorageError(f"{folder.path} cannot be read: {error}") from error
