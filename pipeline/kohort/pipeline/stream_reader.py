"""A stream of topics: micro-batches of offset ranges, new partitions taken in as they appear."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kohort.client import TopicPartition
from kohort.client.errors import BrokerError
from kohort.pipeline.batch_reader import read_range
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.offsets import (
    Offsets,
    Position,
    SparkOffsets,
    StreamOffsets,
    TopicIds,
    decode_position,
    encode_offsets,
    encode_position,
    made_anew,
)
from kohort.pipeline.options import ReadOptions
from kohort.pipeline.ranges import LogEnds, check_range, chosen_partitions, log_ends, offsets_at, task_ranges
from kohort.protocol.errors import ErrorCode

NO_IDS: TopicIds = {}


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far the topics reach, plans each micro-batch, and reads its ranges.

    Spark pickles it for the tasks: the driver's connections are left out.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._brokers: Brokers | None = None
        self._stop_at: Offsets | None = None
        """With availableNow: the end offsets when the query began."""
        self._stop_ids: TopicIds = {}
        """Of the topics that these ends are of."""
        self._latest: Offsets = {}
        self._triggered_at = -math.inf  # The first micro-batch waits for nothing.
        self._topic_ids: TopicIds = {}
        self._initial: Position | None = None
        """The start offsets of this run: Spark asks for them more than once, and the topics grow
        meanwhile."""

    def __getstate__(self) -> dict[str, object]:
        """Return the state that a task needs."""
        return {"_options": self._options, "_schema": self._schema}

    # The driver

    def initialOffset(self) -> StreamOffsets:
        """Return the start of a query without a checkpoint, once a run. Raises: OptionError, KohortError."""
        if self._initial is None:
            ends = self._ends()
            if self._stop_at is not None:
                stops = self._stop_at
                ends = {
                    each: LogEnds(found.start, stops.get(each, found.end)) for each, found in ends.items()
                }
            begins = offsets_at(self._driver(), self._options, self._options.starting, ends)
            self._initial = Position(begins, self._topic_ids)
        return encode_position(self._initial)

    def prepareForTriggerAvailableNow(self) -> None:
        """Keep the current end offsets: later records belong to another run."""
        self._stop_at = {each: ends.end for each, ends in self._ends().items()}
        self._stop_ids = self._topic_ids

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the option."""
        most = self._options.max_rows_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: StreamOffsets, limit: ReadLimit) -> StreamOffsets:
        """Return where the next micro-batch ends. Raises: DataLossError, KohortError."""
        position = decode_position(start)
        if self._stop_at is None:
            ends = self._ends(position.topic_ids)
            self._latest = {each: found.end for each, found in ends.items()}
        else:
            if any(position.offsets.get(each, -1) < end for each, end in self._stop_at.items()):
                self._stop_at = self._stops(self._stop_at, position.topic_ids)
            self._latest = self._stop_at  # Once all is read, the run ends, and no broker is asked.
            ends = self._ends_of(each for each in self._latest if each not in position.offsets)
        begun = self._still_there(position, ends)
        begins = begun | {each: ends[each].start for each in self._latest if each not in begun}
        self._check_gone(begun)
        self._check_cut(begun)
        target = {each: max(offset, begins[each]) for each, offset in self._latest.items()}
        if self._stop_at is None and self._waits(sum(target.values()) - sum(begins[each] for each in target)):
            return start
        if isinstance(limit, ReadMaxRows):
            target = limited(begins, target, limit.max_rows)
        offsets, ids = begun | target, {**position.topic_ids, **self._topic_ids}
        starts = begun if position == self._initial else None
        if (offsets, ids) == position[:2]:
            starts = starts or position.starts  # Spark takes another text for new records.
        return encode_position(Position(offsets, ids, starts))

    def _waits(self, offsets: int) -> bool:
        """Whether there is too little yet for a micro-batch, and time is left to wait for more."""
        least, now = self._options.min_rows_per_trigger, time.monotonic()
        is_early = (now - self._triggered_at) * 1000 < self._options.trigger_delay_max_ms
        if least is not None and offsets < least and is_early:
            return True
        self._triggered_at = now
        return False

    def _stops(self, stop_at: Offsets, known: TopicIds) -> Offsets:
        """Return the end offsets of this run; for a topic created again meanwhile, the end of the new one."""
        chosen = self._chosen(known)
        anew = made_anew(self._stop_ids, self._topic_ids)
        self._stop_ids = {**self._stop_ids, **self._topic_ids}
        if not anew:
            return stop_at
        ends = self._ends_of(each for each in chosen if each.topic in anew)
        kept = {each: offset for each, offset in stop_at.items() if each.topic not in anew}
        return kept | {each: found.end for each, found in ends.items()}

    def _still_there(self, position: Position, ends: dict[TopicPartition, LogEnds]) -> Offsets:
        """Return the offsets of a position without those of topics created again. Raises: DataLossError."""
        anew = made_anew(position.topic_ids, self._topic_ids)
        if not anew:
            return position.offsets
        self._lose(f"{', '.join(anew)} was made anew: what was not read of it before is gone")
        ends |= self._ends_of(each for each in self._latest if each.topic in anew and each not in ends)
        return {each: offset for each, offset in position.offsets.items() if each.topic not in anew}

    def reportLatestOffset(self) -> SparkOffsets | None:
        """Return the last known end offsets, for the progress report of the query."""
        return encode_offsets(self._latest) if self._latest else None

    def partitions(self, start: StreamOffsets, end: StreamOffsets) -> list[InputPartition]:
        """Return the ranges of a micro-batch. Raises: DataLossError, KohortError."""
        options, before, behind = self._options, decode_position(start), decode_position(end)
        stops = behind.offsets
        # Spark does not keep the start of a query: after a restart before its first commit it asks again.
        begins = before.offsets
        if behind.starts is not None and before.starts is None:
            begins = behind.starts
        anew = made_anew(before.topic_ids, behind.topic_ids)
        begins = {each: offset for each, offset in begins.items() if each.topic not in anew}
        wanted = [each for each in sorted(stops) if stops[each] != begins.get(each)]
        ends = self._ends(behind.topic_ids)
        since = made_anew(behind.topic_ids, self._topic_ids)
        lost = sorted({each.topic for each in wanted if each.topic in since})
        if lost:  # Spark had written down where the batch ends, and may plan it again much later.
            self._lose(f"{', '.join(lost)} was made anew: what was to be read of it is gone")
        planned: list[tuple[TopicPartition, int, int]] = []
        for each in wanted:
            if each.topic in lost:
                continue  # The next batch begins at the start of the new topic.
            found = ends.get(each)
            if found is None:
                self._lose(f"{each} is gone")
                continue
            first = begins.get(each, found.start)
            if each not in begins and found.start > 0 and each.topic not in anew:
                self._lose(f"{each} is new, and begins at {found.start} already")
            first, last = check_range(
                each, first, stops[each], found, fail_on_data_loss=options.fail_on_data_loss
            )
            planned.append((each, first, last))
        return list(task_ranges(planned, options))

    def commit(self, end: StreamOffsets) -> None:
        """Do nothing: Spark calls it when the next batch is planned, which may never be.

        `kohort.pipeline.ingest` gives the offsets to a group once Spark has committed a batch.
        """

    def stop(self) -> None:
        """Close the connections."""
        if self._brokers is not None:
            self._brokers.close()
            self._brokers = None

    def _driver(self) -> Brokers:
        if self._brokers is None:
            self._brokers = Brokers(self._options.servers, self._options.timeout_ms)
        return self._brokers

    def _ends(self, known: TopicIds = NO_IDS) -> dict[TopicPartition, LogEnds]:
        return self._ends_of(self._chosen(known))

    def _ends_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnds]:
        return log_ends(self._driver(), partitions, read_committed=self._options.read_committed)

    def _chosen(self, known: TopicIds) -> list[TopicPartition]:
        """Return the partitions of the topics.

        An id that differs from the known one counts if brokers agree.
        """
        brokers = self._driver()

        def look() -> list[TopicPartition]:
            chosen = chosen_partitions(brokers, self._options.topics)
            ids = brokers.known_topic_ids(each.topic for each in chosen)
            anew = made_anew(known, ids)
            agreed = brokers.topic_ids(anew) if anew else {}
            for topic in anew:
                if str(agreed.get(topic, ids[topic])) != ids[topic]:
                    words = f"a broker still tells the id of a topic {topic!r} that is gone"
                    raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID, words)
            self._topic_ids = ids
            return chosen

        return brokers.retrying(look)

    def _check_gone(self, begun: Offsets) -> None:
        gone = [str(each) for each in begun if each not in self._latest]
        if gone:
            self._lose(f"there is no {', '.join(gone)} any more")

    def _check_cut(self, begun: Offsets) -> None:
        for each, end in self._latest.items():
            if end < begun.get(each, 0):
                where = f"{each} was read up to {begun[each]} and ends at {end} now"
                self._lose(f"{where}: its log was cut, or the topic made anew")

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{what}. fail_on_data_loss=false reads what is left")

    # The tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range. Raises: DataLossError, KohortError."""
        return read_range(self._options, self._schema, partition)


def limited(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int) -> Offsets:
    """Return ends that are `most` offsets away in all, shared in proportion to what each partition has.

    Every partition with unread records advances by at least one, so that none waits without end.
    """
    waiting = {each: end - begins[each] for each, end in ends.items() if end > begins[each]}
    total = sum(waiting.values())
    if total <= most:
        return dict(ends)
    taken = {each: max(1, count * most // total) for each, count in waiting.items()}
    return {each: begins[each] + taken.get(each, 0) for each in ends}
