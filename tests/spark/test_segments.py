"""`format("kohort-segments")` reads what a broker's files hold: kohort's own, and ones made by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kohort.client import Admin, TopicPartition
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.options import segment_options
from kohort.pipeline.rows import table_schema
from kohort.pipeline.segment_files import ABORTED_ENTRY, SNAPSHOT_ENTRY
from kohort.pipeline.segment_source import SegmentReader
from kohort.protocol.records import Compression, ControlType, build_batch
from tests.interop.broker_process import BrokerProcess
from tests.spark.batches import T0, marker
from tests.spark.topics import Sent, Topics, numbered, places, values

Load = Callable[..., DataFrame]


@pytest.fixture(params=["kohort-segments", "kohort-segments-python"])
def load(request: pytest.FixtureRequest, spark: SparkSession) -> Load:
    """Return a function that reads a folder, in the JVM or in Python."""

    def read(folder: Path, topic: str, **options: str) -> DataFrame:
        return spark.read.format(request.param).options(path=str(folder), topics=topic, **options).load()

    return read


LoadWith = Callable[..., DataFrame]


@pytest.fixture(params=["kohort-segments", "kohort-segments-python"])
def load_with(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> LoadWith:
    """Return a function that reads the folder with these options alone, and a schema that the user names."""

    def read(options: dict[str, str], schema: str | None = None) -> DataFrame:
        reader = spark.read.format(request.param)
        reader = reader if schema is None else reader.schema(schema)
        return reader.options(**{"path": str(tmp_path), **options}).load()

    return read


def batch(first: int, *numbers: int, producer_id: int = -1, transactional: bool = False) -> bytes:
    """Return a batch from the offset `first` on, with these numbers as values."""
    return build_batch(
        [(T0 + number, None, b"%d" % number, ()) for number in numbers],
        base_offset=first,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=transactional,
    )


@pytest.fixture
def partition(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a segment of partition t-0, and returns its path."""

    def write(first: int, *batches: bytes) -> Path:
        folder = tmp_path / "t-0"
        folder.mkdir(exist_ok=True)
        path = folder / f"{first:020d}.log"
        path.write_bytes(b"".join(batches))
        return path

    return write


def test_the_files_of_a_running_broker_are_the_same_table(
    load: Load, spark: SparkSession, broker: BrokerProcess, topics: Topics
) -> None:
    topic = topics.make(2, segment_bytes="1048576")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [Sent(b"1", b"k", n % 2, T0 + n, [("h", None)]) for n in range(300)]
        topics.fill(topic, records, compression=codec)
    topics.fill(topic, [Sent(b"7" * 9_000, None, n % 2, T0 + 500 + n) for n in range(600)])
    with Admin(bootstrap_servers=topics.bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 3})
    options = {"bootstrap": topics.bootstrap, "topics": topic, "include_headers": "true"}
    from_broker = (
        spark.read.format("kohort").options(**options).load().orderBy("partition", "offset").collect()
    )
    starting = json.dumps({topic: {"0": 3, "1": 0}})
    frame = load(broker.data, topic, include_headers="true", starting=starting)
    assert frame.rdd.getNumPartitions() > 2, "a task per segment"
    assert frame.orderBy("partition", "offset").collect() == from_broker
    ending = json.dumps({topic: {"0": 1048, "1": -1}})
    some = load(broker.data, topic, starting=f"timestamp:{T0 + 1090}", ending=ending)
    assert places(some.collect()) == [
        *((0, n) for n in range(1045, 1048)),
        *((1, n) for n in range(1045, 1050)),
    ]


def test_a_torn_tail_ends_the_table(load: Load, partition: Callable[..., Path], tmp_path: Path) -> None:
    good = batch(0, 0, 1) + batch(2, 2, 3)
    for tail in (batch(4, 4, 5)[:-1], batch(4, 4, 5)[:40], b"\0" * 200, batch(4, 4, 5)[:-1] + b"?"):
        partition(0, good, tail)
        assert values(load(tmp_path, "t")) == [0, 1, 2, 3]


def test_damage_that_is_no_torn_tail_is_an_error(
    load: Load, partition: Callable[..., Path], tmp_path: Path
) -> None:
    bad = batch(2, 2, 3)[:-1] + b"?"
    partition(0, batch(0, 0, 1), bad, batch(4, 4, 5))
    with pytest.raises(PySparkException, match=r"0{20}.log: what lies at \d+, offset 2, is no sound batch"):
        load(tmp_path, "t").count()
    partition(0, batch(0, 0, 1), bad)
    partition(4, batch(4, 4, 5))
    with pytest.raises(PySparkException, match="does not have the CRC that it says"):
        load(tmp_path, "t").count()
    partition(0, batch(0, 0, 1), batch(2, 2, 3)[:-1])
    with pytest.raises(PySparkException, match=r"what lies at \d+, offset 2, is no sound batch"):
        load(tmp_path, "t").count()


def test_gaps_of_compaction_are_skipped(load: Load, partition: Callable[..., Path], tmp_path: Path) -> None:
    partition(0, batch(3, 3, 4), batch(9, 9))
    partition(20, batch(25, 25, 26), batch(40, 40))
    frame = load(tmp_path, "t")
    assert values(frame) == [3, 4, 9, 25, 26, 40]
    assert places(frame.collect()) == [(0, offset) for offset in (3, 4, 9, 25, 26, 40)]
    assert values(load(tmp_path, "t", starting='{"t": {"0": 5}}', ending='{"t": {"0": 26}}')) == [
        9,
        25,
    ]


def test_aborted_and_open_transactions_are_skipped(
    load: Load, partition: Callable[..., Path], tmp_path: Path
) -> None:
    def transactional(first: int, producer_id: int, *numbers: int) -> bytes:
        return batch(first, *numbers, producer_id=producer_id, transactional=True)

    path = partition(
        0,
        transactional(0, 1, 100, 101),  # aborted, its marker is in the next segment
        transactional(2, 2, 2, 3),
        marker(4, ControlType.COMMIT, 2),
        batch(5, 5),
    )
    path.with_suffix(".txnindex").write_bytes(b"")
    second = partition(
        6,
        transactional(6, 1, 106),
        marker(7, ControlType.ABORT, 1),
        transactional(8, 1, 8),
        marker(9, ControlType.COMMIT, 1),
    )
    second.with_suffix(".txnindex").write_bytes(ABORTED_ENTRY.pack(0, 1, 0, 7, 5))
    last = partition(10, batch(10, 10), transactional(11, 3, 111), batch(12, 112))
    assert values(load(tmp_path, "t")) == [2, 3, 5, 8, 10], "up to the open transaction"
    everything = load(tmp_path, "t", isolation_level="read_uncommitted")
    assert values(everything) == [2, 3, 5, 8, 10, 100, 101, 106, 111, 112], "but no markers"
    state = SNAPSHOT_ENTRY.pack(9, 0, 0, 9, 0, T0, 0, 9)  # Producer 9 has a transaction open since offset 9.
    content = struct.pack(">hIi", 1, 0, 1) + state
    last.with_suffix(".snapshot").write_bytes(content)
    assert values(load(tmp_path, "t")) == [2, 3, 5, 8]


def test_a_batch_larger_than_a_read_is_read(
    load: Load, partition: Callable[..., Path], tmp_path: Path
) -> None:
    large = build_batch([(T0, None, b"x" * (9 << 20), ()), (T0, b"k", b"1", ())], base_offset=1)
    small = build_batch([(T0, None, b"2", ())], base_offset=3, compression=Compression.ZSTD)
    partition(0, batch(0, 0), large, small)
    sizes = load(tmp_path, "t").selectExpr("offset", "length(value)").orderBy("offset").collect()
    assert [tuple(each) for each in sizes] == [(0, 1), (1, 9 << 20), (2, 1), (3, 1)]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"topics": "nosuch"}, "holds no topic 'nosuch'"),
        ({"topics": "t", "path": "/nowhere"}, "path is '/nowhere': there is no such folder"),
        ({}, "give either topics, names with commas between them, or a pattern"),
        ({"topics": "t", "pattern": "t"}, "give either topics, names with commas between them, or a pattern"),
        ({"topics": " , "}, "topics is empty"),
        ({"pattern": "t("}, "pattern is 't\\(': "),
        ({"topics": "t", "start": "earliest"}, "unknown option 'start'; did you mean 'starting'?"),
        ({"topics": "t", "zzzzzzzz": "1"}, "unknown option 'zzzzzzzz'"),
        ({"topics": "t", "check_crcs": "maybe"}, "check_crcs is 'maybe': give true or false"),
        ({"topics": "t", "isolation_level": "none"}, "give read_committed or read_uncommitted"),
        ({"topics": "t", "starting": "group:g"}, "segments know no groups"),
        ({"topics": "t", "starting": "soon"}, "starting is 'soon': give earliest, latest, "),
        ({"topics": "t", "ending": '{"t": {"0": 7}}'}, "t-0 holds offsets from 0 up to 1"),
        ({"topics": "t", "ending": '{"t": {"0": -3}}'}, "ending has an offset below -2, which is earliest"),
        ({"topics": "t", "ending": '{"t": {"1": 1}}'}, "offsets are given, but none for t-0"),
        ({"topics": "t", "ending": '{"t": [1]}'}, "are no offsets: give them as "),
        ({"topics": "t", "ending": '{"t": '}, "are no offsets: give them as "),
        (
            {"topics": "t", "starting": "timestamp:2026-13-01"},
            "starting: '2026-13-01' is no time: give 2026-01-31T12",
        ),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(
    load_with: LoadWith, partition: Callable[..., Path], options: dict[str, str], complaint: str
) -> None:
    partition(0, batch(0, 0))
    with pytest.raises(PySparkException, match=complaint):
        load_with(options).count()


@pytest.mark.parametrize(
    "begin",
    [
        "2023-11-14T22:13:25Z",
        "2023-11-14T22:13:25",
        "2023-11-14 22:13:25.000",
        "2023-11-15T00:13:25+02:00",
        "20231114T221325Z",
        "1700000005000",
    ],
)
def test_a_time_can_be_written_in_several_ways(
    load: Load, partition: Callable[..., Path], tmp_path: Path, begin: str
) -> None:
    partition(0, build_batch([(T0 + 1_000 * n, None, b"%d" % n, ()) for n in range(9)]))
    assert values(load(tmp_path, "t", starting=f"timestamp:{begin}")) == [5, 6, 7, 8]


def test_a_pattern_can_be_written_in_python_syntax(
    load_with: LoadWith, partition: Callable[..., Path]
) -> None:
    partition(0, batch(0, 0))
    assert load_with({"pattern": r"(?P<name>[s-u])\Z"}).count() == 1
    with pytest.raises(
        PySparkException, match="there is no column value string; there are key binary, value"
    ):
        load_with({"topics": "t"}, "value string").count()


def test_row_numbers_equal_the_sent_ones(load: Load, broker: BrokerProcess, topics: Topics) -> None:
    topic = topics.make(3)
    topics.fill(topic, numbered(1_000, partitions=3))
    assert values(load(broker.data, topic)) == list(range(1_000))


def test_a_segment_that_became_shorter_while_the_query_ran_is_an_error(
    partition: Callable[..., Path], tmp_path: Path
) -> None:
    path = partition(0, batch(0, 0, 1), batch(2, 2, 3))
    reader = SegmentReader(segment_options({"path": str(tmp_path), "topics": "t"}), table_schema({}))
    (planned,) = reader.partitions()
    path.write_bytes(batch(0, 0, 1))
    with pytest.raises(DataLossError, match=r"0{20}\.log has become shorter while the query ran"):
        list(reader.read(planned))
