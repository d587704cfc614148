"""`format("kohort-segments-python")`: the same table as `kohort`, straight from segment files, in Python.

It replaces `kohort-segments` of the JVM (SegmentSource.java in `kohort.pipeline.jvm`) where there is
no JVM or the Spark version differs, and reads the same.
"""

import mmap
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kohort.client.batch_table import BatchTable, read_batches
from kohort.client.columns import decode_batches
from kohort.pipeline.errors import DamagedSegmentError, DataLossError, OptionError
from kohort.pipeline.extents import extent
from kohort.pipeline.options import EARLIEST, LATEST, OffsetSpec, SegmentOptions, segment_options
from kohort.pipeline.rows import CHUNK_BYTES, RowBuilder, check_schema, table_schema
from kohort.pipeline.segment_files import PartitionFiles, find_partitions, is_torn
from kohort.pipeline.worker import spare_collections
from kohort.protocol.errors import WireError
from kohort.protocol.messages.fetch import AbortedTransaction
from kohort.protocol.records import HEADER_BYTES, read_header

READ_BYTES = 8 << 20
_POPULATE: int = getattr(mmap, "MAP_POPULATE", 0)  # Linux has it.


@dataclass
class SegmentRange(InputPartition):
    """The work of one task: the offsets of a segment from `start` up to `end`, from `position` on."""

    path: str
    topic: str
    partition: int
    start: int
    end: int
    position: int
    size_bytes: int
    """The size of the file when the query was planned: a broker may append more."""
    is_last: bool
    check_crcs: bool
    aborted: tuple[tuple[int, int, int], ...]
    """The transactions to leave out: producer id, first offset, offset of the marker."""

    def __repr__(self) -> str:
        return f"{self.path} [{self.start}, {self.end})"


class SegmentSource(DataSource):
    """The topics of a data folder, kohort's or Apache Kafka's, read without a broker, and in Python."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` takes."""
        return "kohort-segments-python"

    def schema(self) -> StructType:
        """Return all columns; `headers` only if they were asked for."""
        return table_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the current files. Raises: OptionError."""
        return SegmentReader(segment_options(self.options), check_schema(schema))


class OnlySegmentSource(SegmentSource):
    """The same under the name that the JVM's source has where there is one."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` takes."""
        return "kohort-segments"


class SegmentReader(DataSourceReader):
    """Reads one segment per task. The folder has to be reachable by its path for driver and executors."""

    def __init__(self, options: SegmentOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return a range per segment. Raises: OptionError, DataLossError."""
        folder = Path(self._options.path)
        if not folder.is_dir():
            raise OptionError(f"path is {self._options.path!r}: there is no such folder")
        found = find_partitions(folder, self._options.topics)
        missing = sorted(set(self._options.topics.names) - {each.partition.topic for each in found})
        if missing:
            raise OptionError(f"{folder} holds no topic {', '.join(map(repr, missing))}")
        return [planned for each in found for planned in plan(self._options, each)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one segment. Raises: DataLossError, DamagedSegmentError."""
        if not isinstance(partition, SegmentRange):
            return
        spare_collections()
        builder = RowBuilder(self._schema, partition.topic, partition.partition)
        try:
            for batches, position in _pieces(partition):
                yield from _decode(builder, partition, batches, position)
        except WireError as error:
            raise DamagedSegmentError(f"{partition.path}: {error}") from error
        except FileNotFoundError:
            raise DataLossError(
                f"{partition.path} is not there: it was deleted while the query ran, or this host does not"
                " share the folder with the driver's"
            ) from None


def _decode(
    builder: RowBuilder, wanted: SegmentRange, batches: BatchTable, position: int
) -> Iterator[pa.RecordBatch]:
    decoded = decode_batches(
        batches,
        fetch_offset=position,
        check_crcs=wanted.check_crcs and not wanted.is_last,  # There `_pieces` has done it.
        aborted=_aborted(wanted, position),
        max_chunk_bytes=CHUNK_BYTES,
    )
    for columns in decoded:
        if len(columns):
            if (np.diff(columns.offsets) <= 0).any() or columns.offsets[-1] >= columns.next_offset:
                raise WireError(f"records behind offset {int(columns.offsets[0])} are out of order")
            yield builder.build(columns, wanted.end)


def _aborted(wanted: SegmentRange, position: int) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions that end after `position`, as a broker returns them."""
    return tuple(
        AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset, last_offset in wanted.aborted
        if last_offset >= position
    )


def plan(options: SegmentOptions, files: PartitionFiles) -> Iterator[SegmentRange]:
    """Yield a partition's ranges, one per segment. Raises: OptionError, DataLossError."""
    end = files.end_offset()
    if options.read_committed:
        end = files.last_stable_offset(end)
    start, stop = _offset(files, options.starting, end), _offset(files, options.ending, end)
    if start < files.start_offset < stop or stop > end:
        raise DataLossError(f"{files.partition} holds offsets from {files.start_offset} up to {end}")
    aborted = files.aborted() if options.read_committed else []
    bases = [each.base_offset for each in files.segments]
    first = max(0, bisect_right(bases, start) - 1)
    for number, segment in enumerate(files.segments[first:], first):
        behind = bases[number + 1] if number + 1 < len(bases) else stop
        begin, until = max(start, segment.base_offset), min(stop, behind)
        if begin < until:
            position = segment.position_of(begin)
            if number + 1 < len(bases):
                segment.check_format(position)
            yield SegmentRange(
                path=str(segment.path),
                topic=files.partition.topic,
                partition=files.partition.partition,
                start=begin,
                end=until,
                position=position,
                size_bytes=segment.size_bytes,
                is_last=number + 1 == len(bases),
                check_crcs=options.check_crcs,
                aborted=tuple(
                    (each.producer_id, each.first_offset, each.last_offset)
                    for each in aborted
                    if each.last_offset >= begin and each.first_offset < until
                ),
            )


def _offset(files: PartitionFiles, place: OffsetSpec, end: int) -> int:
    if place.timestamp_ms is not None:
        return files.offset_of_time(place.timestamp_ms, end)
    given = place.end
    if place.offsets is not None:
        if files.partition not in place.offsets:
            raise OptionError(f"offsets are given, but none for {files.partition}")
        given = place.offsets[files.partition]
    assert given is not None, "options refuse a group"
    return {EARLIEST: files.start_offset, LATEST: end}.get(given, given)


def _pieces(wanted: SegmentRange) -> Iterator[tuple[BatchTable, int]]:
    """Yield whole batches by some megabytes, and the offset that is wanted first of them.

    The last segment ends where its tail is torn. Raises: WireError for damage elsewhere, DataLossError.
    """
    offset, place, most_bytes = wanted.start, wanted.position, READ_BYTES
    behind = 0
    with open(wanted.path, "rb", buffering=0) as file:
        while offset < wanted.end and place < wanted.size_bytes:
            records = _mapped(file, place, min(most_bytes, wanted.size_bytes - place))
            batches = read_batches(records)
            if 0 < place == wanted.position and len(batches) and batches.base_offsets[0] > wanted.start:
                # An index pointed to it, and not after it.
                raise DataLossError(f"{wanted.path} was rewritten while the query ran: run it again")
            if wanted.check_crcs and wanted.is_last:
                batches = batches[: batches.sound_count()]
            found = extent(batches, offset, wanted.end)
            if len(found.batches):
                behind = _in_order(found.batches, behind)
                yield found.batches, offset
            elif found.next_offset < wanted.end:
                needed = _first_size(records)
                if needed <= most_bytes or place + needed > wanted.size_bytes:
                    if wanted.is_last and is_torn(records):
                        return
                    raise WireError(f"what lies at {place}, offset {offset}, is no sound batch")
                most_bytes = needed  # A batch larger than one read.
            nth = len(found.batches)
            if nth < len(batches):  # A batch begins after the range.
                _check_behind(wanted, file, int(batches.next_offsets[nth]), place + int(batches.stops[nth]))
            offset, place = found.next_offset, place + found.batches.size_bytes


def _check_behind(wanted: SegmentRange, file: FileIO, behind: int, place: int) -> None:
    """Let the batch at `place` confirm that the previous one may begin after the range.

    A base offset is outside the CRC, and a damaged one would end the range early. `behind` is the
    offset after the previous batch. Raises: WireError, DataLossError.
    """
    left = wanted.size_bytes - place
    size_bytes = _first_size(_mapped(file, place, min(HEADER_BYTES, left))) if left > 0 else 0
    if 0 < size_bytes <= left:
        following = read_batches(_mapped(file, place, size_bytes))
        if wanted.check_crcs and wanted.is_last:
            following = following[: following.sound_count()]
        _in_order(following, behind)


def _in_order(batches: BatchTable, behind: int) -> int:
    """Return the offset after these batches; each must begin at or after the end of the previous one.

    `behind` is the offset after the earlier ones. Raises: WireError.
    """
    ends = np.append(behind, batches.next_offsets)
    wrong = np.flatnonzero(batches.base_offsets < ends[:-1])
    if len(wrong):
        nth = int(wrong[0])
        raise WireError(f"the batch at offset {batches.base_offsets[nth]} lies behind offset {ends[nth] - 1}")
    return int(ends[-1])


def _mapped(file: FileIO, place: int, size_bytes: int) -> memoryview:
    """Return a part of a file from the page cache: a copy would cost as much as all decoding.

    It is mapped in one step, piece after piece, since a file that becomes shorter under a mapping kills the
    process: brokers cut files only as they start. Raises: DataLossError, OSError.
    """
    within = place % mmap.ALLOCATIONGRANULARITY
    try:
        pages = mmap.mmap(
            file.fileno(),
            within + size_bytes,
            flags=mmap.MAP_PRIVATE | _POPULATE,
            prot=mmap.PROT_READ,
            offset=place - within,
        )
    except ValueError:  # This error means that the file is shorter.
        raise DataLossError(f"{file.name} has become shorter while the query ran") from None
    return memoryview(pages)[within:]


def _first_size(records: memoryview) -> int:
    try:
        return read_header(records).size_bytes
    except WireError:
        return 0
