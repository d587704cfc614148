"""`format("kohort-segments")` in the JVM beside the same in Python: equal rows, or equal complaints."""

from __future__ import annotations

import random
import struct
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import cramjam
import pytest
from pyarrow import RecordBatch
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.functions import unix_micros

from kohort.pipeline import register
from kohort.pipeline.segment_files import ABORTED_ENTRY
from kohort.protocol.records import (
    HEADER_BYTES,
    Compression,
    ControlType,
    batch_crc,
    build_batch,
    encode_records,
    read_header,
    seal_batch,
)
from kohort.protocol.records.codecs import zstd
from kohort.protocol.records.header import CRC_COVERS_FROM, CRC_POSITION, LOG_APPEND_TIME_FLAG
from kohort.storage import DataDirectory, LogConfig, OsFileSystem
from tests.spark.batches import T0, marker
from tests.spark.ingest_world import only_large

ATTRIBUTES_AT = CRC_COVERS_FROM + 1  # The byte of them that says something.


class Files:
    """Partitions of topics, written by hand."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)

    def batch(self, offset: int, codec: Compression | None = None) -> tuple[bytes, int]:
        """Return a batch of all sorts of records from `offset` on, and the offset behind it."""
        chance = self.chance
        count = chance.choice((1, 2, 17, 300))
        longest = chance.choice((0, 3, 70, 9_000 // count))
        producer_id = chance.choice((-1, -1, 5, 6))
        records = [(T0 + chance.randrange(-90, 90_000), *self._record(longest)) for _ in range(count)]
        if chance.random() < 0.1:
            records[-1] = (-1, *records[-1][1:])
        made = bytearray(
            build_batch(
                records,
                compression=chance.choice(list(Compression)) if codec is None else codec,
                base_offset=offset,
                producer_id=producer_id,
                producer_epoch=min(producer_id, 0),
                base_sequence=min(producer_id, 0),
                is_transactional=producer_id >= 0,
            )
        )
        if chance.random() < 0.2:
            made[ATTRIBUTES_AT] |= LOG_APPEND_TIME_FLAG
            seal(made)
        return bytes(made), offset + count + chance.choice((0, 0, 3))

    def _record(
        self, longest: int
    ) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
        chance = self.chance
        key, value = (
            None if chance.random() < 0.2 else chance.randbytes(chance.randint(0, longest)) for _ in range(2)
        )
        return (
            key,
            value,
            tuple(("h", chance.choice((None, b"", b"x" * 90))) for _ in range(chance.choice((0, 0, 2)))),
        )

    def segment(self, topic: str, first: int, *batches: bytes) -> Path:
        folder = self.folder / f"{topic}-0"
        folder.mkdir(exist_ok=True)
        path = folder / f"{first:020d}.log"
        path.write_bytes(b"".join(batches))
        return path

    def partition(self, topic: str) -> int:
        """Write some segments with aborted transactions among them; return the offset behind the last."""
        offset = self.chance.choice((0, 0, 1 << 40))
        for _ in range(self.chance.randint(1, 3)):
            first, batches, aborted = offset, [], []
            for _ in range(self.chance.randint(1, 12)):
                batch, offset = self.batch(offset)
                batches.append(batch)
            for producer_id in (5, 6):
                kind = self.chance.choice((ControlType.ABORT, ControlType.COMMIT))
                if kind is ControlType.ABORT:
                    aborted.append(ABORTED_ENTRY.pack(0, producer_id, first, offset, first))
                batches.append(marker(offset, kind, producer_id))
                offset += 1
            self.segment(topic, first, *batches).with_suffix(".txnindex").write_bytes(b"".join(aborted))
        return offset


def seal(batch: bytearray) -> None:
    """Give a batch the CRC of what it holds."""
    struct.pack_into(">I", batch, CRC_POSITION, batch_crc(batch))


def load(spark: SparkSession, source: str, folder: Path, **options: str) -> DataFrame:
    return spark.read.format(source).options(path=str(folder), **options).load()


COMPLAINTS = {"DamagedSegmentError": "damaged", "$Damaged": "damaged", "DataLoss": "lost"}
"""What Python and the JVM call the same."""


def outcome(spark: SparkSession, source: str, folder: Path, **options: str) -> list[Row] | str:
    """Return all rows, or what kind of complaint there was."""
    frame = load(spark, source, folder, **options).orderBy("topic", "partition", "offset")
    try:  # Python's own times end with the year 9999.
        return frame.withColumn("timestamp", unix_micros("timestamp")).collect()
    except PySparkException as error:
        return next(kind for name, kind in COMPLAINTS.items() if name in f"{error} {stack_of(error)}")


def stack_of(error: PySparkException) -> str:
    """Return the names of the JVM's exceptions, of which PySpark shows the words alone."""
    return str(getattr(error, "_stackTrace", ""))


def both(spark: SparkSession, folder: Path, **options: str) -> list[Row] | str:
    """Return what the JVM and Python agree upon."""
    in_jvm = outcome(spark, "kohort-segments", folder, **options)
    assert in_jvm == outcome(spark, "kohort-segments-python", folder, **options)
    return in_jvm


def python_helps(frame: DataFrame) -> bool:
    """Return whether a query needs Python processes for its scan."""
    return "Python" in frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("seed", range(2))
def test_sound_segments_are_the_same_rows_without_python(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    files = Files(tmp_path, seed)
    for number in range(4):
        files.partition(f"topic{number}")
    for level in ("read_committed", "read_uncommitted"):
        options = {"pattern": "topic.*", "isolation_level": level}
        assert both(spark, tmp_path, **options), "there are rows"
        assert not python_helps(load(spark, "kohort-segments", tmp_path, **options))


def test_each_codec_and_each_range_of_offsets_is_read(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(tmp_path, 7)
    for codec in Compression:
        batches, offset = [], 0
        while offset < 404:  # The last three may be a gap.
            batch, offset = files.batch(offset, codec)
            batches.append(batch)
        files.segment(codec.name.lower(), 0, *batches)
        for start, end in ((0, 400), (1, 399), (17, 18), (250, 251), (399, 400)):
            found = both(
                spark, tmp_path, topics=codec.name.lower(), isolation_level="read_uncommitted",
                starting=f'{{"{codec.name.lower()}": {{"0": {start}}}}}',
                ending=f'{{"{codec.name.lower()}": {{"0": {end}}}}}',
            )  # fmt: skip
            assert isinstance(found, list)
            assert all(start <= row.offset < end for row in found)


def test_batches_larger_than_one_read_are_decompressed(spark: SparkSession, tmp_path: Path) -> None:
    files, offset = Files(tmp_path, 9), 0
    for codec in Compression:
        first, batches = offset, []
        for count in (3, 300):
            values = [b"%d" % n * 500 + files.chance.randbytes(700) for n in range(count)]
            records = [(T0 + n, None, value, ()) for n, value in enumerate(values)]
            batches.append(build_batch(records, compression=codec, base_offset=offset))
            offset += count
        files.segment("t", first, *batches)
    found = both(spark, tmp_path, topics="t")
    assert [row.offset for row in found] == list(range(offset))


def test_unusual_compression_of_other_clients_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Snappy without a header, as librdkafka may write it, and zstd in two frames without their size."""
    records = [(T0 + n, b"key", b"value" * n, ()) for n in range(200)]
    plain = encode_records(records)
    cut = len(plain) // 2
    without_size = zstd.ZstdCompressor()
    frames = b"".join(
        without_size.compress(part) + without_size.flush() for part in (plain[:cut], plain[cut:])
    )
    snappy = bytes(cramjam.snappy.compress_raw(plain))
    batches = [
        seal_batch(
            payload,
            record_count=200,
            base_timestamp_ms=T0,
            max_timestamp_ms=T0 + 199,
            base_offset=200 * number,
            compression=codec,
        )
        for number, (codec, payload) in enumerate(((Compression.SNAPPY, snappy), (Compression.ZSTD, frames)))
    ]
    Files(tmp_path, 0).segment("t", 0, *batches)
    found = both(spark, tmp_path, topics="t")
    assert [row.value for row in found] == 2 * [value for _, _, value, _ in records]


def damaged(files: Files) -> Iterator[bytes]:
    """Yield batches one behind the other, of which one is not what it was."""
    chance, offset = files.chance, 0
    wrong = chance.randrange(4)
    for number in range(4):
        batch, offset = files.batch(offset)
        if number == wrong:
            changed = bytearray(batch)
            for _ in range(chance.choice((1, 1, 3))):
                at = chance.randrange(chance.choice((HEADER_BYTES, len(batch))))
                changed[at] = chance.choice((0, 127, 128, 255, changed[at] ^ 1 << chance.randrange(8)))
            if chance.random() < 0.5:
                seal(changed)
            batch = bytes(changed[: chance.choice((len(batch), len(batch), chance.randrange(len(batch))))])
        yield batch


def differing_damage(spark: SparkSession, folder: Path, seeds: range) -> list[int]:
    """Return the seeds of damage at which the two differ."""
    found = []
    for seed in seeds:
        files = Files(folder, seed)
        files.segment(f"t{seed}", 0, *damaged(files))
        options = {
            "topics": f"t{seed}",
            "check_crcs": files.chance.choice(("true", "false")),
            "include_headers": files.chance.choice(("true", "false")),
            "include_timestamp_type": files.chance.choice(("true", "false")),
            "isolation_level": "read_uncommitted",
        }
        one, other = (
            outcome(spark, name, folder, **options) for name in ("kohort-segments", "kohort-segments-python")
        )
        if one != other:
            found.append(seed)
    return found


def test_damage_has_the_same_rows_or_the_same_complaint(spark: SparkSession, tmp_path: Path) -> None:
    assert not differing_damage(spark, tmp_path, range(12))


@only_large
def test_much_damage_has_the_same_rows_or_the_same_complaint(spark: SparkSession, tmp_path: Path) -> None:
    assert not differing_damage(spark, tmp_path, range(12, 60))


@pytest.mark.parametrize("nth", range(3))
@pytest.mark.parametrize("checked", ["true", "false"])
def test_a_batch_with_a_damaged_base_offset_does_not_end_the_segment(
    spark: SparkSession, tmp_path: Path, nth: int, checked: str
) -> None:
    files = Files(tmp_path, nth)
    batches, offset = [], 0
    for _ in range(4):
        batch, offset = files.batch(offset)
        batches.append(bytearray(batch))
    last, _ = files.batch(offset)
    files.segment("t", offset, last)
    struct.pack_into(">q", batches[nth], 0, offset + 1_000)  # No CRC is of it.
    files.segment("t", 0, *batches)
    options = {"topics": "t", "isolation_level": "read_uncommitted", "check_crcs": checked}
    assert both(spark, tmp_path, **options) == "damaged"


def test_a_torn_batch_ends_the_log(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(tmp_path, 1)
    batches, offset = [], 0
    for _ in range(3):
        batch, offset = files.batch(offset, Compression.LZ4)
        batches.append(batch)
    files.segment("t", 0, *batches, batches[-1][:-1])
    options = {"topics": "t", "isolation_level": "read_uncommitted"}
    assert len(both(spark, tmp_path, **options)) == sum(read_header(each).record_count for each in batches)


def test_headers_are_rows_as_well(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(tmp_path, 2)
    files.partition("t")
    options = {"topics": "t", "include_headers": "true", "isolation_level": "read_uncommitted"}
    found = both(spark, tmp_path, **options)
    assert {len(row.headers or ()) for row in found} == {0, 2}
    assert {header.value for row in found for header in row.headers or ()} == {None, b"", b"x" * 90}
    only_headers = load(spark, "kohort-segments", tmp_path, **options).select("headers", "offset")
    assert {(row.offset, tuple(row.headers or ())) for row in only_headers.collect()} == {
        (row.offset, tuple(row.headers or ())) for row in found
    }


def test_the_timestamp_type_is_a_column(spark: SparkSession, tmp_path: Path) -> None:
    of_producer = build_batch([(T0, b"k", b"v", ())])
    of_broker = bytearray(build_batch([(T0, b"k", b"v", ()), (T0, b"k", b"w", ())], base_offset=1))
    of_broker[22] |= LOG_APPEND_TIME_FLAG  # The low byte of the attributes.
    seal(of_broker)
    Files(tmp_path, 0).segment("t", 0, of_producer, bytes(of_broker))
    rows = both(spark, tmp_path, topics="t", include_timestamp_type="true")
    assert sorted((row.offset, row.timestampType) for row in rows) == [(0, 0), (1, 1), (2, 1)]
    frame = load(spark, "kohort-segments", tmp_path, topics="t", include_timestamp_type="true")
    assert frame.columns[-2:] == ["timestamp", "timestampType"], "in the order of Spark's Kafka source"


def test_a_headers_name_that_is_no_text(spark: SparkSession, tmp_path: Path) -> None:
    made = bytearray(build_batch([(T0, b"k", b"v", (("name", b"1"), ("n\u00e4me", b"2")))]))
    made[made.index(b"name") + 1] = 0xFF
    seal(made)
    Files(tmp_path, 0).segment("t", 0, bytes(made))
    (row,) = both(spark, tmp_path, topics="t", include_headers="true")
    assert [tuple(each) for each in row.headers] == [("n\ufffdme", b"1"), ("n\u00e4me", b"2")]


def test_queries_need_no_more_columns_than_they_name(spark: SparkSession, tmp_path: Path) -> None:
    Files(tmp_path, 3).partition("t")
    frame = load(spark, "kohort-segments", tmp_path, topics="t")
    rows = frame.collect()
    assert rows
    assert frame.count() == len(rows)
    assert frame.select("value", "topic").collect() == [(row.value, row.topic) for row in rows]
    assert frame.selectExpr("sum(offset)").first()[0] == sum(row.offset for row in rows)
    keys, values = frame.select("offset", "key"), frame.select("offset", "value")
    joined = keys.join(values, "offset").orderBy("offset").collect()
    assert joined == sorted((row.offset, row.key, row.value) for row in rows)
    plan = frame.select("value")._jdf.queryExecution().executedPlan().toString()
    assert "struct<value:binary>" in plan


def test_each_query_lists_the_files_again(spark: SparkSession, tmp_path: Path) -> None:
    files, offset = Files(tmp_path, 11), 0
    frame = None
    for _ in range(3):
        batch = build_batch([(T0, None, b"value", ())] * 5, base_offset=offset)
        files.segment("t", offset, batch)
        offset += 5
        frame = frame or load(spark, "kohort-segments", tmp_path, topics="t")
        assert frame.count() == frame.filter("length(value) = 5").count() == offset
        assert len(frame.select("*").collect()) == offset


def test_columns_that_the_user_names(spark: SparkSession, tmp_path: Path) -> None:
    Files(tmp_path, 4).partition("t")
    for name in ("kohort-segments", "kohort-segments-python"):
        read = spark.read.format(name).schema("offset bigint, value binary")
        frame = read.options(path=str(tmp_path), topics="t").load()
        assert frame.columns == ["offset", "value"]
        assert frame.count() == load(spark, name, tmp_path, topics="t").count()


def test_a_stream_of_segments_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    Files(tmp_path, 5).partition("t")
    with pytest.raises(PySparkException, match="does not support streamed reading"):
        spark.readStream.format("kohort-segments").options(path=str(tmp_path), topics="t").load()


class Formats:
    """What stands for a session of Spark Connect: it has no JVM, and is told of formats."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.dataSource = self

    def register(self, source: type[DataSource]) -> None:
        self.names.append(source.name())


class OfSpark(Formats):
    """A session of some version of Spark, whose JVM knows nothing of segments yet."""

    sparkContext = SimpleNamespace(_gateway=None)

    def __init__(self, version: str) -> None:
        super().__init__()
        self.version = version

    @property
    def _jvm(self) -> object:
        system = SimpleNamespace(getProperty=lambda _name: None)
        return SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))


def test_a_session_without_a_jvm_reads_in_python() -> None:
    session = Formats()
    register(session)
    assert session.names == ["kohort", "kohort-segments-python", "kohort-segments"]


def test_an_unsupported_spark_is_warned_about_once_and_python_reads() -> None:
    session = OfSpark("9.9.1")
    with pytest.warns(RuntimeWarning, match=r"this Spark is 9\.9\.1, for which there is no .*-9\.9\.jar"):
        register(session)
    assert session.names == ["kohort", "kohort-segments-python", "kohort-segments"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register(session)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """Two partitions of three segments with ten records each, a minute apart, the last one not sealed."""
    for partition in range(2):
        folder = tmp_path / f"t-{partition}"
        folder.mkdir()
        for number in range(3):
            first, at_ms = 10 * number, T0 + 60_000 * number
            records = [(at_ms + each, None, b"v", ()) for each in range(10)]
            name = folder / f"{first:020d}"
            name.with_suffix(".log").write_bytes(build_batch(records, base_offset=first))
            if number < 2:
                name.with_suffix(".timeindex").write_bytes(struct.pack(">qi", at_ms + 9, 9))
    return tmp_path


@pytest.mark.parametrize(
    "condition, segments, rows",
    [
        ("partition = 1", 3, 30),
        ("partition in (1, 7)", 3, 30),
        ("partition > 1", 0, 0),
        ("topic = 'other'", 0, 0),
        ("offset >= 20", 2, 20),
        ("offset > 9 and offset < 20", 2, 20),
        ("offset <= 9 and partition = 0", 1, 10),
        ("offset = 15", 2, 2),
        (f"timestamp >= timestamp_millis({T0 + 60_000})", 4, 40),
        (f"timestamp > timestamp_millis({T0 + 60_009})", 2, 20),
        (f"timestamp < timestamp_millis({T0 + 60_000})", 6, 20),
        ("offset = 15 or partition = 1", 6, 31),
        ("offset is not null", 6, 60),
    ],
)
def test_filters_skip_whole_segments(
    spark: SparkSession, sealed: Path, condition: str, segments: int, rows: int
) -> None:
    frame = load(spark, "kohort-segments", sealed, topics="t").where(condition)
    assert frame._jdf.queryExecution().toRdd().getNumPartitions() == segments
    assert len(frame.collect()) == rows
    assert load(spark, "kohort-segments-python", sealed, topics="t").where(condition).count() == rows


def test_java_8_time_filters_skip_segments_too(spark: SparkSession, sealed: Path) -> None:
    spark.conf.set("spark.sql.datetime.java8API.enabled", "true")
    try:
        condition = f"timestamp >= timestamp_millis({T0 + 60_000})"
        frame = load(spark, "kohort-segments", sealed, topics="t").where(condition)
        assert frame._jdf.queryExecution().toRdd().getNumPartitions() == 4
        assert len(frame.collect()) == 40
    finally:
        spark.conf.unset("spark.sql.datetime.java8API.enabled")


def test_a_segment_that_a_cleaner_replaces_is_read_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(tmp_path, 9)
    records = [(T0, None, bytes(100_000), ())] * 200  # So large that the writer waits for its reader.
    path = files.segment("t", 0, build_batch(records, base_offset=0), build_batch(records, base_offset=200))
    other = path.with_suffix(".swap")
    other.write_bytes(build_batch(records[:150], base_offset=0))

    def swap(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            if other.exists():
                other.replace(path)
            yield batch

    frame = load(spark, "kohort-segments", tmp_path, topics="t", isolation_level="read_uncommitted")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    try:
        rows = frame.mapInArrow(swap, frame.schema).select("offset").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert not other.exists()
    assert sorted(row.offset for row in rows) == list(range(400))


@pytest.mark.parametrize("seed", range(2))
def test_ranges_by_time_are_planned_alike(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Files as the broker writes them, indexes included, with times that go to and fro."""
    chance = random.Random(seed)
    config = LogConfig(segment_bytes=4_000, index_interval_bytes=500)
    with closing(DataDirectory.open(tmp_path, OsFileSystem())) as folder:
        log = folder.open_log("t", uuid4(), 0, config)
        for number in range(60):
            times = [
                T0 + 1_000 * number + chance.randrange(-3_000, 3_000) for _ in range(chance.randint(1, 9))
            ]
            records = [(each, None, b"v" * 40, ()) for each in times]
            batch = build_batch(records, compression=chance.choice(list(Compression)))
            log.stage(batch, (read_header(batch),), 0)
            log.write(True)
    assert len(list((tmp_path / "t-0").glob("*.log"))) >= 3
    for _ in range(6):
        begin_ms = T0 + chance.randrange(-2_000, 64_000)
        options = {
            "topics": "t",
            "starting": f"timestamp:{begin_ms}",
            "ending": f"timestamp:{begin_ms + chance.choice((0, 1, 5_000, 90_000))}",
        }
        both(spark, tmp_path, **options)


def test_registering_again_still_reads_in_the_jvm(spark: SparkSession, tmp_path: Path) -> None:
    Files(tmp_path, 6).partition("t")
    register(spark)


def test_a_file_that_was_deleted_when_the_query_was_planned(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(tmp_path, 8)
    path = files.segment("t", 0, files.batch(0)[0])
    frame = load(spark, "kohort-segments", tmp_path, topics="t", isolation_level="read_uncommitted")
    assert frame._jdf.queryExecution().toRdd().getNumPartitions() == 1
    path.unlink()
    with pytest.raises(PySparkException, match=r"0{20}\.log is not there: it was deleted while"):
        frame.collect()
