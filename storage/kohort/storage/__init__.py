"""What the disk holds: Kafka's own files, appended to, read, recovered."""

from kohort.storage.config import LogConfig
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import File, FileSystem, OsFileSystem
from kohort.storage.partition_log import PartitionLog
from kohort.storage.producers import ProducedBatch, ProducerState, ProducerStateTable
from kohort.storage.reading import Slice, TimestampOffset

__all__ = [
    "File",
    "FileSystem",
    "LogConfig",
    "OsFileSystem",
    "PartitionLog",
    "ProducedBatch",
    "ProducerState",
    "ProducerStateTable",
    "Slice",
    "StorageError",
    "TimestampOffset",
]
