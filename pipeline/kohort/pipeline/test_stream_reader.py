"""What a stream plans, with brokers that a test plays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.types import StructType

from kohort.client import TopicPartition
from kohort.pipeline import stream_reader
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.offsets import Position, encode_position
from kohort.pipeline.options import read_options
from kohort.pipeline.ranges import LogEnds, OffsetRange
from kohort.pipeline.stream_reader import StreamReader

WHERE = TopicPartition("t", 0)


def test_a_batch_that_was_planned_before_its_topic_was_made_anew_is_not_read_of_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark plans it again when a query is started that has ended in the midst of it."""
    ids = {"t": "old"}
    monkeypatch.setattr(stream_reader, "chosen_partitions", lambda *_: [WHERE])
    monkeypatch.setattr(stream_reader, "log_ends", lambda *_, **__: {WHERE: LogEnds(0, 100)})
    reader = StreamReader(
        read_options({"bootstrap": "here:9092", "topics": "t"}, is_stream=True), StructType()
    )
    reader._brokers = cast("Brokers", SimpleNamespace(known_topic_ids=lambda _: dict(ids)))
    start, end = (encode_position(Position({WHERE: offset}, {"t": "old"})) for offset in (10, 20))
    assert [str(each) for each in reader.partitions(start, end)] == [str(OffsetRange("t", 0, 10, 20))]
    ids["t"] = "new"
    with pytest.raises(DataLossError, match="t was made anew"):
        reader.partitions(start, end)
    assert reader.partitions(end, end) == [], "nothing of it was to be read"
