"""What a stream plans, with brokers that a test plays."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from kohort.client import TopicPartition
from kohort.client.errors import BrokerError
from kohort.pipeline import stream_reader
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.offsets import Position, StreamOffsets, decode_position, encode_position
from kohort.pipeline.options import read_options
from kohort.pipeline.ranges import LogEnds, OffsetRange
from kohort.pipeline.stream_reader import StreamReader

WHERE = TopicPartition("t", 0)


OTHER = TopicPartition("t", 1)


class Cluster:
    """What a stream asks of its brokers: two partitions of one topic."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topic_id = "old"
        self.agreed_id: str | None = None  # Where a broker that lags behind answers, what the others tell.
        self.ends = {WHERE: LogEnds(0, 100), OTHER: LogEnds(0, 100)}
        monkeypatch.setattr(stream_reader, "chosen_partitions", lambda *_: list(self.ends))
        monkeypatch.setattr(stream_reader, "log_ends", self.log_ends)

    def log_ends(
        self, _: object, wanted: Iterable[TopicPartition], **__: object
    ) -> dict[TopicPartition, LogEnds]:
        return {each: self.ends[each] for each in wanted}

    def known_topic_ids(self, _: object) -> dict[str, str]:
        return {"t": self.topic_id}

    def topic_ids(self, _: object) -> dict[str, str]:
        return {"t": self.agreed_id or self.topic_id}

    def retrying(self, attempt: Callable[[], list[TopicPartition]]) -> list[TopicPartition]:
        try:
            return attempt()
        except BrokerError as error:
            if not error.retriable:
                raise
            self.topic_id, self.agreed_id = self.agreed_id or self.topic_id, None
            return attempt()

    def reader(self, **options: str) -> StreamReader:
        given = {"bootstrap": "here:9092", "topics": "t", "starting": "earliest", **options}
        reader = StreamReader(read_options(given, is_stream=True), StructType())
        reader._brokers = cast("Brokers", self)
        return reader

    def make_anew(self, *ends: int) -> None:
        """Delete the topic, and make it again with so many records in each partition."""
        self.topic_id = f"newer than {self.topic_id}"
        self.ends = {TopicPartition("t", number): LogEnds(0, end) for number, end in enumerate(ends)}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def run_on(reader: StreamReader, position: StreamOffsets, most: int = 30) -> tuple[list[str], StreamOffsets]:
    """Run a query until it has no more to read; return what it reads."""
    found: list[str] = []
    while (end := reader.latestOffset(position, ReadMaxRows(most))) != position:
        found += map(str, reader.partitions(position, end))
        position = end
    return found, position


def test_a_batch_planned_before_its_topic_was_recreated_does_not_read_the_new_topic(
    cluster: Cluster,
) -> None:
    """Spark plans it again when a query is started that has ended in the midst of it."""
    start, end = (encode_position(Position({WHERE: offset}, {"t": "old"})) for offset in (10, 20))
    reader = cluster.reader()
    assert [str(each) for each in reader.partitions(start, end)] == [str(OffsetRange("t", 0, 10, 20))]
    cluster.make_anew(100, 100)
    with pytest.raises(DataLossError, match="t was made anew"):
        reader.partitions(start, end)
    assert reader.partitions(end, end) == [], "nothing of it was to be read"
    assert cluster.reader(fail_on_data_loss="false").partitions(start, end) == [], "the next batch reads it"


@pytest.mark.parametrize("ends", [(30, 30), (30,), (30, 30, 30), (500, 500), (0, 0)])
@pytest.mark.parametrize("is_planned", [False, True])
def test_a_topic_recreated_during_a_run_is_read_completely(
    cluster: Cluster, ends: tuple[int, ...], is_planned: bool
) -> None:
    reader = cluster.reader(fail_on_data_loss="false")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    position = reader.latestOffset(start, ReadMaxRows(100))
    if not is_planned:
        assert len(reader.partitions(start, position)) == 2
    cluster.make_anew(*ends)
    if is_planned:
        assert reader.partitions(start, position) == []
    found, position = run_on(reader, position)
    stops = {number: end for number, end in enumerate(ends) if end}
    assert read_in_order(found) == stops
    cluster.ends = {each: LogEnds(0, found.end + 5) for each, found in cluster.ends.items()}
    again, position = run_on(reader, position)
    assert again == [], "what comes later is another run's"
    later = cluster.reader(fail_on_data_loss="false")
    later.prepareForTriggerAvailableNow()
    found, _ = run_on(later, position)
    assert {each: found.end for each, found in cluster.ends.items()} == {
        TopicPartition("t", number): end for number, end in read_in_order(found, stops).items()
    }


def read_in_order(ranges: list[str], begins: Mapping[int, int] | None = None) -> dict[int, int]:
    """Return up to where each partition is read, of ranges that leave nothing out and have nothing twice."""
    reached = dict(begins or {})
    for each in ranges:
        partition, start, end = map(int, re.findall(r"\d+", each))
        assert reached.get(partition, 0) == start
        reached[partition] = end
    return reached


def test_an_old_topic_id_from_a_lagging_broker_is_no_data_loss(cluster: Cluster) -> None:
    cluster.topic_id = "new"
    reader = cluster.reader()
    position = encode_position(Position({WHERE: 40, OTHER: 0}, {"t": "new"}))
    cluster.topic_id, cluster.agreed_id = "old", "new"
    end = reader.latestOffset(position, ReadMaxRows(1_000))
    assert decode_position(end).topic_ids == {"t": "new"}
    cluster.topic_id, cluster.agreed_id = "old", "new"
    planned = [str(each) for each in reader.partitions(position, end)]
    assert planned == ["t-0 [40, 100)", "t-1 [0, 100)"]


def test_a_micro_batch_waits_for_enough_offsets_or_for_the_longest_delay(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reader = cluster.reader(minOffsetsPerTrigger="50", maxTriggerDelay="30s")
    everything = ReadMaxRows(1_000)
    position = reader.latestOffset(reader.initialOffset(), everything)
    assert decode_position(position).offsets == {WHERE: 100, OTHER: 100}, "the first one waits for nothing"
    cluster.ends[WHERE] = LogEnds(0, 149)
    assert reader.latestOffset(position, everything) == position
    now += 29.9
    assert reader.latestOffset(position, everything) == position
    cluster.ends[OTHER] = LogEnds(0, 101)
    position = reader.latestOffset(position, everything)
    assert decode_position(position).offsets == {WHERE: 149, OTHER: 101}
    cluster.ends[OTHER] = LogEnds(0, 102)
    now += 30
    position = reader.latestOffset(position, everything)
    assert decode_position(position).offsets == {WHERE: 149, OTHER: 102}, "it has waited long enough"


def test_available_now_waits_for_no_more_offsets(cluster: Cluster) -> None:
    reader = cluster.reader(minOffsetsPerTrigger="5000")
    reader.prepareForTriggerAvailableNow()
    found, _ = run_on(reader, reader.initialOffset())
    assert read_in_order(found) == {0: 100, 1: 100}
