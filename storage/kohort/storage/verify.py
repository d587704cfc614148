"""Verifies the files in a data folder, or in one partition's: it reads and never changes them.

It checks every batch's CRC and position, gaps, both indexes, timestamps, leader epochs, producer snapshots
and the checkpoints. Problems of a crash that the next start repairs are reported too.
"""

from collections.abc import Callable, Container
from pathlib import Path

import msgspec

from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader, batch_crc, iterate_records
from kohort.storage.dump import offset_entries, time_entries
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import FileSystem
from kohort.storage.layout import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
    decode_offset_checkpoint,
    decode_partition_metadata,
    parse_partition_folder,
)
from kohort.storage.leader_epochs import LeaderEpochs
from kohort.storage.producers import SNAPSHOT_SUFFIX, ProducerStateTable
from kohort.storage.recovery import segment_offsets
from kohort.storage.scan import iterate_batches
from kohort.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name

NO_LEADER_EPOCH = -1
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
COMPACTED_BY_NATURE = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", CLEANER_CHECKPOINT)


class Problem(msgspec.Struct, frozen=True):
    """A problem, and its file."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class Report(msgspec.Struct):
    """What was checked, and the problems found."""

    problems: list[Problem] = []
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0


class VerifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """With `deep` every record is decoded.

    `compacted` topics may have gaps, and Kafka's internal ones always may.
    """

    deep: bool = False
    compacted: Container[str] = ()


Progress = Callable[[int], None]
"""Called with the number of bytes that were checked."""


def log_bytes(file_system: FileSystem, path: Path) -> int:
    """Return how many bytes of segments `verify_data` will read. Raises: StorageError."""
    try:
        return sum(
            file_system.open(folder / name).size()
            for folder in _partition_folders(file_system, path)
            for name in file_system.list_directory(folder) or ()
            if name.endswith(LOG_SUFFIX)
        )
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error


def verify_data(
    file_system: FileSystem,
    path: Path,
    options: VerifyOptions | None = None,
    progress: Progress = lambda size_bytes: None,
) -> Report:
    """Return the report about a data folder, or about the folder of one partition.

    Raises: StorageError if it is neither, or if the disk cannot be read at all.
    """
    report = Report()
    try:
        folders = _partition_folders(file_system, path)
        checkpoints = _read_checkpoints(file_system, path, report)
        compacted = {topic for topic, _ in checkpoints.get(CLEANER_CHECKPOINT, {})}
        ends: dict[TopicPartition, int] = {}
        for folder in folders:
            key = parse_partition_folder(folder.name)
            topic = folder.name if key is None else key[0]
            may_have_gaps = topic in compacted or topic in COMPACTED_BY_NATURE
            if options is not None:
                may_have_gaps = may_have_gaps or topic in options.compacted
            deep = options is not None and options.deep
            partition = _PartitionCheck(
                file_system, folder, report, progress, deep=deep, may_have_gaps=may_have_gaps
            )
            partition.run()
            if key is not None:
                ends[key] = partition.next_offset
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    for name, offsets in checkpoints.items():
        for key, offset in offsets.items():
            if key in ends and offset > ends[key]:
                said = f"{key[0]}-{key[1]} is said to have offset {offset}, and ends at {ends[key]}"
                report.problems.append(Problem(path / name, f"{said}: the disk has lost what lay between"))
    return report


def _partition_folders(file_system: FileSystem, path: Path) -> list[Path]:
    """Return the folders of partitions, `path` itself if it is one. Raises: StorageError, OSError."""
    names = file_system.list_directory(path) if path.is_dir() else None
    if names is None:
        raise StorageError(f"{path} is no folder")
    if segment_offsets(names, LOG_SUFFIX):
        return [path]
    found = [path / name for name in sorted(names) if parse_partition_folder(name) is not None]
    if not found and not any(name in names for name in ("meta.properties", *_CHECKPOINTS)):
        raise StorageError(f"{path} is neither a data folder nor the folder of a partition")
    return found


def _read_checkpoints(
    file_system: FileSystem, path: Path, report: Report
) -> dict[str, dict[TopicPartition, int]]:
    found: dict[str, dict[TopicPartition, int]] = {}
    for name in _CHECKPOINTS:
        offsets = decode_offset_checkpoint(file_system.read(path / name))
        if offsets is None:
            report.problems.append(Problem(path / name, "is damaged, and counts for nothing"))
        else:
            found[name] = offsets
    return found


class _PartitionCheck:
    """Walks through one partition, once."""

    def __init__(
        self,
        file_system: FileSystem,
        folder: Path,
        report: Report,
        progress: Progress,
        *,
        deep: bool,
        may_have_gaps: bool,
    ) -> None:
        self._file_system = file_system
        self._folder = folder
        self._report = report
        self._progress = progress
        self._deep = deep
        self._may_have_gaps = may_have_gaps
        self._epochs: LeaderEpochs | None = None
        self._newest_epoch = NO_LEADER_EPOCH
        self._has_begun = False
        self.next_offset = 0

    def run(self) -> None:
        """Look at all files of the folder. Raises: OSError."""
        names = sorted(self._file_system.list_directory(self._folder) or ())
        self._check_small_files(names)
        bases = segment_offsets(names, LOG_SUFFIX)
        if bases:
            self.next_offset = bases[0]
        for place, base in enumerate(bases):
            next_base = bases[place + 1] if place + 1 < len(bases) else None
            _SegmentCheck(self, names, base, next_base).run()
        self._report.partitions += 1

    def complain(self, name: str, text: str) -> None:
        """Note that something is wrong with the file `name`."""
        self._report.problems.append(Problem(self._folder / name, text))

    def read(self, name: str) -> bytes:
        """Return a small file's content, empty if there is none. Raises: OSError."""
        return self._file_system.read(self._folder / name) or b""

    def _check_small_files(self, names: list[str]) -> None:
        if PARTITION_METADATA in names and decode_partition_metadata(self.read(PARTITION_METADATA)) is None:
            self.complain(PARTITION_METADATA, "names no topic id")
        if LEADER_EPOCH_CHECKPOINT in names:
            self._epochs = LeaderEpochs.decode(self.read(LEADER_EPOCH_CHECKPOINT))
            if self._epochs is None:
                self.complain(LEADER_EPOCH_CHECKPOINT, "is damaged, and counts for nothing")
        for name in names:
            if name.endswith(SNAPSHOT_SUFFIX) and ProducerStateTable.decode_snapshot(self.read(name)) is None:
                self.complain(name, "is damaged, and counts for nothing")

    def scan(self, name: str, batch_found: Callable[[int, BatchHeader], None]) -> None:
        """Walk through a segment's batches, and report each one's position and header. Raises: OSError."""
        file = self._file_system.open(self._folder / name)
        end, position = file.size(), 0
        for position, header, batch in iterate_batches(file, 0, end):
            if batch_crc(batch) != header.crc:
                self.complain(
                    name, f"position {position}: the CRC of the batch at {header.base_offset} is wrong"
                )
            else:
                self._check_batch(name, position, header, batch)
                batch_found(position, header)
            self._progress(header.size_bytes)
            position += header.size_bytes  # noqa: PLW2901  # Where the next one should start.
        if position != end:
            self.complain(name, f"position {position}: no whole batch in the last {end - position} bytes")
            self._progress(end - position)
        self._report.segments += 1
        self._report.size_bytes += end

    def _check_batch(self, name: str, position: int, header: BatchHeader, batch: memoryview) -> None:
        where = f"position {position}: the batch at offset {header.base_offset}"
        self._report.batches += 1
        self._report.records += header.record_count
        if header.last_offset_delta < 0 or header.record_count > header.last_offset_delta + 1:
            self.complain(name, f"{where} has {header.record_count} records up to {header.last_offset}")
        if header.base_offset < self.next_offset:
            self.complain(name, f"{where} stands behind offset {self.next_offset - 1}")
        elif header.base_offset > self.next_offset and self._has_begun and not self._may_have_gaps:
            self.complain(name, f"{where} comes where {self.next_offset} is missing")
        self._has_begun = True
        self.next_offset = max(self.next_offset, header.next_offset)
        self._check_epoch(name, where, header)
        if self._deep:
            self._check_records(name, where, header, batch)

    def _check_epoch(self, name: str, where: str, header: BatchHeader) -> None:
        epoch = header.partition_leader_epoch
        if epoch < self._newest_epoch:
            self.complain(name, f"{where} has leader epoch {epoch} behind {self._newest_epoch}")
        elif self._epochs is not None and epoch != NO_LEADER_EPOCH:
            noted = self._epochs.epoch_at(header.base_offset)
            if noted not in (epoch, NO_LEADER_EPOCH):
                self.complain(name, f"{where} has leader epoch {epoch}, the checkpoint says {noted}")
        self._newest_epoch = max(self._newest_epoch, epoch)

    def _check_records(self, name: str, where: str, header: BatchHeader, batch: memoryview) -> None:
        previous, newest, count = header.base_offset - 1, header.max_timestamp, 0
        try:
            for record in iterate_records(batch):
                count += 1
                if not previous < record.offset <= header.last_offset:
                    self.complain(name, f"{where} has a record of offset {record.offset} behind {previous}")
                if record.timestamp > newest:
                    self.complain(name, f"{where} has a record of {record.timestamp}, newer than it says")
                previous = record.offset
        except WireError as error:
            self.complain(name, f"{where} cannot be read: {error}")
            return
        if count != header.record_count:
            self.complain(name, f"{where} has {count} records and says {header.record_count}")


class _SegmentCheck:
    """Holds the two indexes of one segment against its batches."""

    def __init__(
        self, partition: _PartitionCheck, names: list[str], base: int, next_base: int | None
    ) -> None:
        self._partition = partition
        self._names = names
        self._base = base
        self._next_base = next_base
        self._log = file_name(base, LOG_SUFFIX)
        self._index = file_name(base, INDEX_SUFFIX)
        self._time_index = file_name(base, TIME_INDEX_SUFFIX)
        self._positions: dict[int, list[int]] = {}
        self._times = list(time_entries(partition.read(self._time_index), base))
        self._time_place = 0
        self._newest = -1
        self._bytes = 0

    def run(self) -> None:
        """Go through the segment. Raises: OSError."""
        self._load_index()
        self._partition.scan(self._log, self._see_batch)
        for position, offsets in self._positions.items():
            self._partition.complain(self._index, f"offset {offsets[0]}: no batch begins at {position}")
        for timestamp, offset in self._times[self._time_place :]:
            self._partition.complain(self._time_index, f"timestamp {timestamp}: offset {offset} is not there")
        if self._next_base is not None:
            self._check_sealed(self._next_base)

    def _load_index(self) -> None:
        previous = (self._base - 1, -1)
        for offset, position in offset_entries(self._partition.read(self._index), self._base):
            if offset <= previous[0] or position <= previous[1]:
                self._partition.complain(
                    self._index, f"offset {offset} at {position} stands behind {previous}"
                )
            previous = offset, position
            self._positions.setdefault(position, []).append(offset)

    def _see_batch(self, position: int, header: BatchHeader) -> None:
        if header.base_offset < self._base:
            self._partition.complain(self._log, f"offset {header.base_offset} is before the segment's first")
        self._bytes = position + header.size_bytes
        for offset in self._positions.pop(position, ()):
            if offset < header.base_offset:
                said = f"offset {offset}: the batch at position {position} begins with {header.base_offset}"
                self._partition.complain(self._index, said)
        self._see_timestamp(header)

    def _see_timestamp(self, header: BatchHeader) -> None:
        """Check the entries up to this batch: nothing before is newer, and the timestamp exists."""
        before = self._newest
        if header.record_count:  # Timestamps of batches that compaction has emptied are not searched.
            self._newest = max(before, header.max_timestamp)
        while self._time_place < len(self._times) and self._times[self._time_place][1] <= header.last_offset:
            timestamp, offset = self._times[self._time_place]
            self._time_place += 1
            if before > timestamp or header.max_timestamp != timestamp or offset < header.base_offset:
                said = f"timestamp {timestamp}: offset {offset} is of {header.max_timestamp}, after {before}"
                self._partition.complain(self._time_index, said)

    def _check_sealed(self, next_base: int) -> None:
        """Check the rules of all segments except the newest: their indexes are complete."""
        if self._partition.next_offset > next_base:
            self._partition.complain(
                self._log, f"reaches offset {self._partition.next_offset - 1}, {next_base} follows"
            )
        if not self._bytes:
            return
        for name in (self._index, self._time_index):
            if name not in self._names:
                self._partition.complain(name, "is missing: the next start builds it anew")
        last = self._times[-1][0] if self._times else -1
        if self._time_index in self._names and last < self._newest:
            self._partition.complain(
                self._time_index, f"ends with {last}, the newest record is of {self._newest}"
            )
