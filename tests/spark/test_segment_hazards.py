"""What may befall segments, and what others write into them: both readers say the same."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import lz4.frame
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kohort.pipeline.segment_files import SNAPSHOT_ENTRY
from kohort.protocol.records import Compression, build_batch, encode_records, seal_batch
from tests.spark.batches import T0
from tests.spark.topics import values

SOURCES = ("kohort-segments", "kohort-segments-python")


class Partition:
    """Segments of t-0, and the table that a source makes of them."""

    def __init__(self, spark: SparkSession, source: str, folder: Path) -> None:
        self.spark, self.source, self.folder = spark, source, folder

    def segment(self, first: int, *batches: bytes | bytearray) -> Path:
        path = self.folder / "t-0" / f"{first:020d}.log"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"".join(batches))
        return path

    def load(self, **options: str) -> DataFrame:
        return (
            self.spark.read.format(self.source).options(path=str(self.folder), topics="t", **options).load()
        )


@pytest.fixture(params=SOURCES)
def partition(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Partition:
    """A partition that is read in the JVM, or in Python."""
    return Partition(spark, request.param, tmp_path)


def outcome(rows: DataFrame) -> list[bytes] | str:
    """Return the values, or that a segment is damaged."""
    try:
        return [bytes(row.value) for row in rows.collect()]
    except PySparkException as error:
        return "damaged" if "0.log: " in str(error) else str(error)


def batch(first: int, count: int = 1, *, producer_id: int = -1) -> bytes:
    """Return a batch whose values are its offsets; of a producer it is part of a transaction."""
    return build_batch(
        [(T0 + first + n, None, b"%d" % (first + n), ()) for n in range(count)],
        base_offset=first,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def test_a_transaction_open_in_the_first_segment_is_found(partition: Partition) -> None:
    """Without a snapshot all of it has to be looked at, though it was cut to its middle."""
    partition.segment(0, batch(0, 3), batch(3), batch(4, producer_id=7))
    partition.segment(5, batch(5))
    (partition.folder / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    assert values(partition.load()) == [3]


def test_a_transaction_opened_after_a_snapshot_within_a_segment_is_found(partition: Partition) -> None:
    first = partition.segment(0, batch(0, 3), batch(3, producer_id=7))
    partition.segment(4, batch(4))
    state = SNAPSHOT_ENTRY.pack(9, 0, 0, 9, 0, T0, 0, -1)
    first.with_name(f"{2:020d}.snapshot").write_bytes(struct.pack(">hIi", 1, 0, 1) + state)
    assert values(partition.load()) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_lz4_frames_with_linked_blocks_are_read(partition: Partition, seed: int) -> None:
    """As lz4's own library and kafka-python write them, with whatever checksums."""
    chance, batches, wanted = random.Random(seed), [], []
    for linked in (True, True, False, True):
        text = b"".join(b"%d, " % (n * n) for n in range(chance.choice((9, 30_000, 90_000))))
        noise = chance.randbytes(chance.choice((0, 70_000)))  # It is stored as it is.
        contents = [text, b"x" * chance.randrange(90_000), noise, text[::-1], text]
        payload = lz4.frame.compress(
            encode_records([(T0, b"k", each, ()) for each in contents]),
            block_linked=linked,
            block_size=chance.choice((0, 4, 5, 6, 7)),
            block_checksum=chance.random() < 0.5,
            content_checksum=chance.random() < 0.5,
            store_size=chance.random() < 0.5,
            compression_level=chance.choice((0, 3, 9)),
        )
        made = seal_batch(
            payload,
            record_count=len(contents),
            base_timestamp_ms=T0,
            max_timestamp_ms=T0,
            base_offset=len(wanted),
            compression=Compression.LZ4,
        )
        batches.append(made)
        wanted += contents
    partition.segment(0, *batches)
    rows = partition.load().orderBy("offset").collect()
    assert [bytes(row.value) for row in rows] == wanted, f"seed {seed}"


@pytest.mark.parametrize("seed", range(3))
def test_damaged_linked_lz4_is_reported_as_damaged(partition: Partition, seed: int) -> None:
    """Without CRCs all that is wrong has to be found by the decoder itself, or is another value."""
    chance = random.Random(seed)
    text = b"".join(b"%d, " % n for n in range(40_000))
    payload = lz4.frame.compress(encode_records([(T0, b"k", text, ())]), content_checksum=True)
    for number in range(12):
        changed = bytearray(payload)
        changed[chance.randrange(7 if number < 3 else len(changed))] ^= 1 << chance.randrange(8)
        cut = bytes(changed[: chance.choice((len(changed), chance.randrange(1, len(changed))))])
        made = seal_batch(
            cut, record_count=1, base_timestamp_ms=T0, max_timestamp_ms=T0, compression=Compression.LZ4
        )
        partition.segment(0, made)
        partition.segment(1, batch(1))
        rows = partition.load(check_crcs="false").filter("offset = 0")
        assert outcome(rows) in ([text], "damaged"), f"seed {seed}, number {number}"


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_before_kafka_0_11_are_no_torn_tail(partition: Partition, magic: int) -> None:
    times = struct.pack(">q", T0) if magic else b""
    covered = bytes((magic, 0)) + times + struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    message = struct.pack(">I", zlib.crc32(covered)) + covered
    partition.segment(0, struct.pack(">qi", 0, len(message)) + message)
    with pytest.raises(PySparkException, match=rf"0\.log: .* in the format {magic}, of before Kafka 0.11"):
        partition.load().count()


def test_a_segment_that_was_rewritten_while_the_query_ran_is_an_error(partition: Partition) -> None:
    """The cleaner leaves some batches out: where one began there now begins a later one."""
    batches = [batch(number) for number in range(10, 60)]
    size_bytes = len(batches[0])
    path = partition.segment(10, *batches)
    partition.segment(60, batch(60))
    index = [(offset - 10, (offset - 10) * size_bytes) for offset in range(10, 60)]
    path.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *each) for each in index))
    frame = partition.load(starting='{"t": {"0": 30}}').filter("offset < 60")
    ranges = frame.rdd  # It is planned now.
    assert ranges.getNumPartitions() >= 1
    path.write_bytes(b"".join([*batches[5:], *map(batch, range(60, 65))]))  # Two segments become one.
    with pytest.raises(PySparkException, match=r"0\.log was rewritten while the query ran"):
        ranges.map(lambda row: row.offset).collect()


def test_a_damaged_length_uses_no_more_memory_than_one_read(partition: Partition) -> None:
    path = partition.segment(0, batch(0), batch(1))
    partition.segment(9, batch(9))
    content = bytearray(path.read_bytes())
    struct.pack_into(">i", content, len(batch(0)) + 8, 900 << 20)
    path.write_bytes(content)
    with path.open("r+b") as file:
        file.truncate(len(content) + (900 << 20))
    with pytest.raises(PySparkException, match=r"no sound batch|CRC"):
        partition.load().count()


def test_a_damaged_last_offset_does_not_end_the_segment(partition: Partition) -> None:
    """Without CRCs it is the batch that follows which shows it."""
    wrong = bytearray(batch(0, 3))
    struct.pack_into(">i", wrong, 23, 1_000)
    partition.segment(0, wrong, batch(3), batch(4))
    with pytest.raises(PySparkException, match="the batch at offset 3 lies behind offset 1000"):
        partition.load(check_crcs="false").collect()


def test_a_folder_with_any_name(spark: SparkSession, tmp_path: Path) -> None:
    for source in SOURCES:
        there = Partition(spark, source, tmp_path / "m\u00e4rz 2026 \U0001f680")
        there.segment(0, batch(0, 2))
        assert values(there.load()) == [0, 1]


def test_a_segment_deleted_before_its_task_starts_is_reported(partition: Partition) -> None:
    path = partition.segment(0, batch(0, 2))
    partition.segment(2, batch(2))
    planned = partition.load().rdd
    assert planned.getNumPartitions() >= 1, "it is planned now"
    path.unlink()
    with pytest.raises(PySparkException, match=r"0\.log is not there: it was deleted .* or this host"):
        planned.map(lambda row: row.offset).collect()


def test_an_unreadable_file_is_reported_with_its_path(spark: SparkSession, tmp_path: Path) -> None:
    partition = Partition(spark, "kohort-segments", tmp_path)
    partition.segment(3, batch(3))
    (tmp_path / "t-0" / f"{0:020d}.log").mkdir()
    with pytest.raises(PySparkException, match=r"0\.log can't be read: java.io.IOException: Is a directory"):
        partition.load().collect()
