"""Kafka's log files: append, read, recover."""

from kohort.storage.config import LogConfig
from kohort.storage.data_directory import DataDirectory
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import File, FileSystem, OsFileSystem
from kohort.storage.folders import PartitionFolder
from kohort.storage.layout import MetaProperties, format_uuid, parse_uuid
from kohort.storage.partition_log import PartitionLog
from kohort.storage.producers import ProducedBatch, ProducerState, ProducerStateTable
from kohort.storage.reading import Slice, TimestampOffset

__all__ = [
    "DataDirectory",
    "File",
    "FileSystem",
    "LogConfig",
    "MetaProperties",
    "OsFileSystem",
    "PartitionFolder",
    "PartitionLog",
    "ProducedBatch",
    "ProducerState",
    "ProducerStateTable",
    "Slice",
    "StorageError",
    "TimestampOffset",
    "format_uuid",
    "parse_uuid",
]
