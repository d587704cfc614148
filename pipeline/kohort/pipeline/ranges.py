"""Which offsets a query reads: planned on the driver, one `OffsetRange` for each Spark task."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from kohort.client import TopicPartition
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.errors import DataLossError, OptionError
from kohort.pipeline.offsets import Offsets
from kohort.pipeline.options import EARLIEST, LATEST, OffsetSpec, ReadOptions, TopicChoice


@dataclass
class OffsetRange(InputPartition):
    """The offsets of a partition from `start` up to, not with, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__((topic, partition, start, end))
        self.topic, self.partition, self.start, self.end = topic, partition, start, end

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The start offset of a partition's log, and the end offset of its readable part."""

    start: int
    end: int


def chosen_partitions(brokers: Brokers, topics: TopicChoice) -> list[TopicPartition]:
    """Return the partitions of the chosen topics as they are now.

    Raises: OptionError when a topic that was named does not exist; KohortError.
    """
    if topics.pattern is not None:
        found = brokers.retrying(lambda: brokers.partitions(None))
        return [each for each in found if each.topic in topics]
    found = brokers.retrying(lambda: brokers.partitions(topics.names))
    missing = sorted(set(topics.names) - {each.topic for each in found})
    if missing:
        raise OptionError(f"there is no topic {', '.join(map(repr, missing))}")
    if topics.partitions is None:
        return found
    absent = sorted(map(str, topics.partitions.difference(found)))
    if absent:
        raise OptionError(f"there is no partition {', '.join(absent)}")
    return [each for each in found if each in topics.partitions]


def log_ends(
    brokers: Brokers, partitions: Iterable[TopicPartition], *, read_committed: bool
) -> dict[TopicPartition, LogEnds]:
    """Return the start and end offset of each partition. Raises: KohortError."""
    wanted = list(partitions)

    def ask(which: int) -> Offsets:
        asked = dict.fromkeys(wanted, which)
        return brokers.retrying(lambda: brokers.list_offsets(asked, read_committed=read_committed))

    starts, ends = ask(EARLIEST), ask(LATEST)
    return {each: LogEnds(starts[each], max(starts[each], ends[each])) for each in wanted}


def offsets_at(
    brokers: Brokers, options: ReadOptions, place: OffsetSpec, ends: Mapping[TopicPartition, LogEnds]
) -> Offsets:
    """Return the offset of a place for each partition of `ends`. Raises: OptionError, KohortError."""
    if place.end is not None:
        return {each: _end(ends[each], place.end) for each in ends}
    if place.offsets is not None:
        missing = [str(each) for each in ends if each not in place.offsets]
        if missing:
            raise OptionError(f"offsets are given, but none for {', '.join(missing)}")
        return {each: _end(ends[each], place.offsets[each]) for each in ends}
    if place.timestamp_ms is not None:
        return _offsets_by_time(brokers, options, place, dict.fromkeys(ends, place.timestamp_ms), ends)
    if place.timestamps_ms is not None:
        missing = [str(each) for each in ends if each not in place.timestamps_ms]
        if missing:
            raise OptionError(f"times are given, but none for {', '.join(missing)}")
        return _offsets_by_time(
            brokers, options, place, {each: place.timestamps_ms[each] for each in ends}, ends
        )
    assert place.group is not None, "a place says one of five things"
    with options.servers.admin(default_api_timeout_ms=options.timeout_ms) as admin:
        committed = admin.list_group_offsets(place.group, list(ends))
    return {each: committed[each].offset if each in committed else ends[each].start for each in ends}


def _offsets_by_time(
    brokers: Brokers,
    options: ReadOptions,
    place: OffsetSpec,
    asked: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, LogEnds],
) -> Offsets:
    """Return the first offset of each partition whose record is as recent as asked for."""
    found = brokers.retrying(lambda: brokers.list_offsets(asked, read_committed=options.read_committed))
    without = [f"{each} from {asked[each]}" for each in ends if found[each] < 0]
    if place.needs_record and without:
        raise OptionError(
            f"there is no record in {', '.join(without)} on; starting_without_record=latest "
            "(startingOffsetsByTimestampStrategy) begins at the end"
        )
    return {each: ends[each].end if found[each] < 0 else min(found[each], ends[each].end) for each in ends}


def _end(ends: LogEnds, offset: int) -> int:
    return {EARLIEST: ends.start, LATEST: ends.end}.get(offset, offset)


_NOT_THERE = "what was asked for is not written yet, the log was cut, or the topic was made anew"


def check_range(
    partition: TopicPartition, start: int, end: int, ends: LogEnds, *, fail_on_data_loss: bool
) -> tuple[int, int]:
    """Return `start` and `end` as far as the log still has them.

    Raises: DataLossError when it does not, unless told not to.
    """
    lost = None
    if start < ends.start and start < end:
        lost = f"{partition} begins at {ends.start} now: offsets from {start} on were deleted"
    elif end > ends.end:
        lost = f"{partition} ends at {ends.end}, before {end}: {_NOT_THERE}"
    elif start > end:
        lost = f"reading {partition} begins at {start} and ends at {end}: {_NOT_THERE}"
    if lost is None:
        return start, end
    if fail_on_data_loss:
        raise DataLossError(f"{lost}. fail_on_data_loss=false reads what is left")
    end = min(end, ends.end)
    return min(max(start, ends.start), end), end


def task_ranges(ranges: Iterable[tuple[TopicPartition, int, int]], options: ReadOptions) -> list[OffsetRange]:
    """Return what each task reads of partitions with their first offset and their end.

    A task has `rows_per_partition` offsets at most. Where that makes fewer tasks than `tasks_min`, the ranges
    are divided in proportion to their size.
    """
    wanted = [each for each in ranges if each[1] < each[2]]
    rows = options.rows_per_partition
    total = sum(end - start for _, start, end in wanted)
    tasks = sum(1 if rows is None else -(-(end - start) // rows) for _, start, end in wanted)
    share = total / options.tasks_min if options.tasks_min is not None and tasks < options.tasks_min else None
    found: list[OffsetRange] = []
    for partition, start, end in wanted:
        step = rows or end - start
        if share is not None:
            step = min(step, -(-(end - start) // max(1, round((end - start) / share))))
        found += [OffsetRange(*partition, begin, min(begin + step, end)) for begin in range(start, end, step)]
    return found
