"""The content of the files of a data folder, line by line, in the words of Kafka's own dump tool.

A `Line` has text for people, `name: value` pairs as `kafka-dump-log` prints them, and fields for
programs. Every function only reads. Source: org.apache.kafka.tools.DumpLogSegments.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from kohort.protocol.errors import WireError
from kohort.protocol.records import (
    NO_TIMESTAMP,
    BatchHeader,
    ControlType,
    Record,
    batch_crc,
    iterate_records,
    read_control_type,
    read_coordinator_epoch,
    read_header,
)
from kohort.storage.decode_offsets import decode_offsets_record
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import File, FileSystem
from kohort.storage.index import OffsetIndex, TimeIndex
from kohort.storage.journal import JOURNAL_FILE, journal_entries
from kohort.storage.layout import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    decode_offset_checkpoint,
    decode_partition_metadata,
    format_uuid,
)
from kohort.storage.leader_epochs import LeaderEpochs
from kohort.storage.producers import SNAPSHOT_SUFFIX, ProducerStateTable
from kohort.storage.scan import iterate_batches
from kohort.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX

Field = str | int | bool | bytes | None | tuple[str, ...]
_CHECKPOINT_SUFFIX = "-offset-checkpoint"
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class Line(msgspec.Struct, frozen=True):
    """One line of output: its kind (batch, record, index entry ...) and its fields in their order.

    The `kind` "complaint" reports an error.
    """

    kind: str
    fields: dict[str, Field]

    @property
    def text(self) -> str:
        """The line as Kafka's tool prints it."""
        if self.kind in ("complaint", "file", "note"):
            return str(next(iter(self.fields.values())))
        words = " ".join(f"{name}: {_text(value)}" for name, value in self.fields.items())
        return f"| {words}" if self.kind == "record" else words


def _text(value: Field) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, tuple):
        return f"[{','.join(value)}]"
    return "" if value is None else str(value)


class DumpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to print: with `deep` every record; `offsets` decodes those of `__consumer_offsets`."""

    deep: bool = False
    offsets: bool = False
    index_sanity_check: bool = False


def dump(file_system: FileSystem, path: Path, options: DumpOptions) -> Iterator[Line]:
    """Yield the content of a file, or of each file of a folder with a known format.

    Raises: StorageError when it cannot be read, or is no such file.
    """
    try:
        names = file_system.list_directory(path) if path.is_dir() else None
        if names is None:
            yield from _dump_file(file_system, path, options)
            return
        for name in sorted(names):
            inside = path / name
            if inside.is_dir() or _dumper_of(name) is not None:
                yield from dump(file_system, inside, options)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error


def _dump_file(file_system: FileSystem, path: Path, options: DumpOptions) -> Iterator[Line]:
    dumper = _dumper_of(path.name)
    if dumper is None:
        raise StorageError(
            f"{path.name} is no file of a log: give a folder, a .log, .index, .timeindex or .snapshot file, "
            f"a checkpoint, {PARTITION_METADATA} or {JOURNAL_FILE}"
        )
    yield Line("file", {"text": f"Dumping {path}"})
    yield from dumper(file_system, path, options)


_Dumper = Callable[[FileSystem, Path, DumpOptions], Iterator[Line]]


def _dumper_of(name: str) -> _Dumper | None:
    if name in _DUMPERS_BY_NAME:
        return _DUMPERS_BY_NAME[name]
    endings = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, SNAPSHOT_SUFFIX, _CHECKPOINT_SUFFIX)
    ending = next((each for each in endings if name.endswith(each)), "")
    if ending != _CHECKPOINT_SUFFIX and not name.removesuffix(ending).isdecimal():
        return None
    return _DUMPERS_BY_ENDING.get(ending)


# -- segments ---------------------------------------------------------------------------------------------


def _dump_log(file_system: FileSystem, path: Path, options: DumpOptions) -> Iterator[Line]:
    yield Line("note", {"text": f"Log starting offset: {int(path.stem)}"})
    file = file_system.open(path)
    end, position = file.size(), 0
    for position, header, batch in iterate_batches(file, 0, end):
        yield from _batch_lines(position, header, batch, options)
        position += header.size_bytes  # noqa: PLW2901  # Where the next one should start.
    if position != end:
        yield Line("complaint", {"text": f"Found {end - position} invalid bytes at the end of {path.name}"})


def _batch_lines(
    position: int, header: BatchHeader, batch: memoryview, options: DumpOptions
) -> Iterator[Line]:
    is_valid = batch_crc(batch) == header.crc
    yield batch_line(position, header, is_valid=is_valid)
    if not (options.deep or options.offsets) or not is_valid:
        return
    try:
        for place, record in enumerate(iterate_records(batch)):
            yield _record_line(header, place, record, options)
    except WireError as error:
        yield Line("complaint", {"text": f"The batch at position {position} is damaged: {error}"})


def batch_line(position: int, header: BatchHeader, *, is_valid: bool) -> Line:
    """Return the fields of a batch header."""
    try:
        codec = header.compression.name.lower()
    except WireError:
        codec = "unknown"
    horizon = f"OptionalLong[{header.base_timestamp}]" if header.has_delete_horizon else "OptionalLong.empty"
    return Line(
        "batch",
        {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": horizon,
            "position": position,
            _time_name(header): header.max_timestamp,
            "size": header.size_bytes,
            "magic": header.magic,
            "compresscodec": codec,
            "crc": header.crc,
            "isvalid": is_valid,
        },
    )


def _time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.has_log_append_time else "CreateTime"


def _record_line(header: BatchHeader, place: int, record: Record, options: DumpOptions) -> Line:
    sequence = header.base_sequence
    fields: dict[str, Field] = {
        "offset": record.offset,
        _time_name(header): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence
        if sequence < 0
        else (sequence + record.offset - header.base_offset) & 0x7FFFFFFF,
        "headerKeys": tuple(name for name, _ in record.headers),
    }
    if header.is_control:
        fields.update(_control_fields(record))
    elif options.offsets:
        fields.update(decode_offsets_record(record.key, record.value))
    else:
        fields.update({"key": record.key} if record.key is not None else {})
        fields.update({"payload": record.value} if record.value is not None else {})
    return Line("record", fields)


def _control_fields(record: Record) -> dict[str, Field]:
    kind = read_control_type(record.key)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        return {"endTxnMarker": kind.name, "coordinatorEpoch": read_coordinator_epoch(record)}
    return {"controlType": f"{kind.name}({kind.value})"}


# -- indexes ----------------------------------------------------------------------------------------------


def _dump_index(file_system: FileSystem, path: Path, options: DumpOptions) -> Iterator[Line]:
    base_offset = int(path.stem)
    log = path.with_suffix(LOG_SUFFIX)
    if options.index_sanity_check:
        is_sane = OffsetIndex(file_system, str(path), base_offset).is_sane(_size_of(file_system, log))
        yield _sanity(path, is_sane)
        return
    for offset, position in offset_entries(file_system.read(path) or b"", base_offset):
        yield Line("index", {"offset": offset, "position": position})
        complaint = _index_mismatch(file_system.open(log), offset, position)
        if complaint is not None:
            yield Line("complaint", {"text": f"{path.name}: {complaint}"})


def _dump_time_index(file_system: FileSystem, path: Path, options: DumpOptions) -> Iterator[Line]:
    base_offset = int(path.stem)
    if options.index_sanity_check:
        yield _sanity(path, TimeIndex(file_system, str(path), base_offset).is_sane())
        return
    newest = NO_TIMESTAMP
    for timestamp, offset in time_entries(file_system.read(path) or b"", base_offset):
        yield Line("timeindex", {"timestamp": timestamp, "offset": offset})
        if timestamp <= newest:
            yield Line("complaint", {"text": f"{path.name}: {timestamp} stands behind {newest}"})
        newest = timestamp


def _sanity(path: Path, is_sane: bool) -> Line:
    if is_sane:
        return Line("note", {"text": f"{path.name} passed sanity check."})
    return Line("complaint", {"text": f"{path.name} failed the sanity check: the next start builds it anew"})


def _size_of(file_system: FileSystem, path: Path) -> int:
    try:
        return file_system.open(path).size()
    except FileNotFoundError:
        return 0


def offset_entries(content: bytes, base_offset: int) -> Iterator[tuple[int, int]]:
    """Yield offset and position of each entry; trailing zeros, which Kafka preallocates, are skipped."""
    whole = len(content) // _OFFSET_ENTRY.size * _OFFSET_ENTRY.size
    for place, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(content[:whole])):
        if not relative and (place or not position):
            return
        yield base_offset + relative, position


def time_entries(content: bytes, base_offset: int) -> Iterator[tuple[int, int]]:
    """Yield timestamp and offset of each entry; trailing zeros are skipped."""
    whole = len(content) // _TIME_ENTRY.size * _TIME_ENTRY.size
    for timestamp, relative in _TIME_ENTRY.iter_unpack(content[:whole]):
        if not timestamp and not relative:
            return
        yield timestamp, base_offset + relative


def _index_mismatch(log: File, offset: int, position: int) -> str | None:
    """Return the error of an entry of the offset index, None if a batch with its offset starts there."""
    try:
        header = read_header(log.read_at(64, position))
    except WireError:
        return f"offset {offset}: no batch begins at position {position}"
    if not header.base_offset <= offset <= header.last_offset:
        return f"offset {offset}: position {position} has {header.base_offset} to {header.last_offset}"
    return None


# -- small files ------------------------------------------------------------------------------------------


def _dump_snapshot(file_system: FileSystem, path: Path, _options: DumpOptions) -> Iterator[Line]:
    table = ProducerStateTable.decode_snapshot(file_system.read(path))
    if table is None:
        yield _damaged(path)
        return
    for producer_id, state in table.items():
        first = state.transaction_first_offset
        fields: dict[str, Field] = {
            "producerId": producer_id,
            "producerEpoch": state.epoch,
            "coordinatorEpoch": state.coordinator_epoch,
            "currentTxnFirstOffset": "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]",
            "lastTimestamp": state.last_timestamp,
        }
        for batch in state.batches:
            fields |= {
                "firstSequence": batch.base_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield Line("producer", fields)


def _dump_leader_epochs(file_system: FileSystem, path: Path, _options: DumpOptions) -> Iterator[Line]:
    epochs = LeaderEpochs.decode(file_system.read(path))
    if epochs is None:
        yield _damaged(path)
        return
    for epoch, start_offset in epochs.entries:
        yield Line("epoch", {"epoch": epoch, "startOffset": start_offset})


def _dump_checkpoint(file_system: FileSystem, path: Path, _options: DumpOptions) -> Iterator[Line]:
    offsets = decode_offset_checkpoint(file_system.read(path))
    if offsets is None:
        yield _damaged(path)
        return
    for (topic, partition), offset in offsets.items():
        yield Line("checkpoint", {"topic": topic, "partition": partition, "offset": offset})


def _dump_metadata(file_system: FileSystem, path: Path, _options: DumpOptions) -> Iterator[Line]:
    topic_id = decode_partition_metadata(file_system.read(path))
    yield _damaged(path) if topic_id is None else Line("topic", {"topicId": format_uuid(topic_id)})


def _dump_journal(file_system: FileSystem, path: Path, options: DumpOptions) -> Iterator[Line]:
    for sequence, entry in journal_entries(file_system.read(path) or b""):
        topic_id = format_uuid(entry.topic_id)
        yield Line("entry", {"sequence": sequence, "topicId": topic_id, "partition": entry.partition})
        for batch in entry.batches:
            yield from _batch_lines(-1, read_header(batch), memoryview(batch), options)


def _damaged(path: Path) -> Line:
    return Line("complaint", {"text": f"{path.name} is damaged: it counts for nothing"})


_DUMPERS_BY_ENDING: dict[str, _Dumper] = {
    LOG_SUFFIX: _dump_log,
    INDEX_SUFFIX: _dump_index,
    TIME_INDEX_SUFFIX: _dump_time_index,
    SNAPSHOT_SUFFIX: _dump_snapshot,
    _CHECKPOINT_SUFFIX: _dump_checkpoint,
}
_DUMPERS_BY_NAME: dict[str, _Dumper] = {
    LEADER_EPOCH_CHECKPOINT: _dump_leader_epochs,
    PARTITION_METADATA: _dump_metadata,
    JOURNAL_FILE: _dump_journal,
}
