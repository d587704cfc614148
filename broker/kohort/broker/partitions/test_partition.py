from pathlib import Path

import pytest

from kohort.broker.partitions import Appended, Partition
from kohort.broker.partitions.produced import RecordsRejected
from kohort.broker.partitions.test_support import World, append_produced, batch_of
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import (
    Compression,
    compress,
    encode_records,
    iterate_batches,
    iterate_records,
    read_header,
    seal_batch,
    verify_crc,
)
from kohort.protocol.records.checking import with_max_timestamp
from kohort.storage import StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem

NOW_MS = 1_700_000_000_000


class Counting:
    def __init__(self) -> None:
        self.heard = 0

    def advanced(self, partition: Partition) -> None:
        self.heard += 1


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def append(partition: Partition, batch: bytes | memoryview, now_ms: int = NOW_MS) -> Appended:
    return append_produced(partition, batch, now_ms)


def refusal(partition: Partition, batch: bytes) -> ApiError:
    before = partition.log.log_end_offset
    with pytest.raises(ApiError) as caught:
        append(partition, batch)
    assert partition.log.log_end_offset == before
    return caught.value


def stored_batches(partition: Partition) -> list[memoryview]:
    return list(partition.log.read_batches())


def flush(world: World, partition: Partition) -> None:
    world.flusher.request(partition, lambda error: None)
    world.flusher.flush()


def test_batches_get_consecutive_offsets(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    assert append(partition, batch_of(b"a", b"b")) == Appended(0, -1, 0)
    assert append(partition, batch_of(b"c")) == Appended(2, -1, 0)


def test_readers_see_records_after_the_flush(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    append(partition, batch_of(b"a"))
    assert partition.high_watermark == 0
    flush(world, partition)
    assert partition.high_watermark == 1


def test_waiters_are_informed_once_for_each_commit_with_news(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    wait = Counting()
    partition.waits[wait] = None
    append(partition, batch_of(b"a"))
    append(partition, batch_of(b"b"))
    flush(world, partition)
    flush(world, partition)
    assert wait.heard == 1


def test_topic_that_is_not_synced_is_visible_once_written(world: World) -> None:
    world.create("t", configs={"flush.messages": "1000"})
    partition = world.partition("t")
    assert not partition.durable
    append(partition, batch_of(b"a"))
    flush(world, partition)
    assert (partition.high_watermark, partition.log.flushed_offset) == (1, 0)


def test_leader_epoch_is_written_into_the_batch(world: World) -> None:
    world.create("t", epoch=7)
    partition = world.partition("t")
    append(partition, batch_of(b"a"))
    flush(world, partition)
    assert read_header(stored_batches(partition)[0]).partition_leader_epoch == 7


def test_repeated_batch_of_a_producer_is_answered_with_the_first_ones_offset(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    append(partition, batch_of(b"before"))
    batch = batch_of(b"a", b"b", producer_id=5, producer_epoch=0, base_sequence=0)
    assert append(partition, batch) == Appended(1, -1, 0)
    assert append(partition, batch) == Appended(1, -1, 0, duplicate=True)
    assert partition.log.log_end_offset == 3


def test_gap_in_a_producers_sequence_is_refused(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    append(partition, batch_of(b"a", producer_id=5, producer_epoch=0, base_sequence=0))
    late = batch_of(b"c", producer_id=5, producer_epoch=0, base_sequence=2)
    assert refusal(partition, late).code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_fenced_producer_is_refused(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    append(partition, batch_of(b"a", producer_id=5, producer_epoch=1, base_sequence=0))
    old = batch_of(b"b", producer_id=5, producer_epoch=0, base_sequence=1)
    assert refusal(partition, old).code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producers_are_remembered_when_the_log_is_opened_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("t")
    batch = batch_of(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    append(world.partition("t"), batch)
    flush(world, world.partition("t"))
    world.close()
    again = World(tmp_path, metadata=world.metadata)
    assert append(again.partition("t"), batch).duplicate


def test_batch_above_the_limit_is_too_large(world: World) -> None:
    world.create("t", configs={"max.message.bytes": "100"})
    assert refusal(world.partition("t"), batch_of(b"x" * 100)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time_is_the_brokers(world: World) -> None:
    world.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    partition = world.partition("t")
    appended = append(partition, batch_of(b"a", b"b", timestamp_ms=5), now_ms=NOW_MS)
    assert appended.log_append_time_ms == NOW_MS
    flush(world, partition)
    assert [record.timestamp for record in iterate_records(stored_batches(partition)[0])] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize(
    "name, timestamp_ms",
    [("message.timestamp.before.max.ms", NOW_MS - 1001), ("message.timestamp.after.max.ms", NOW_MS + 1001)],
)
def test_timestamp_beyond_the_topics_limits_is_invalid(world: World, name: str, timestamp_ms: int) -> None:
    world.create("t", configs={name: "1000"})
    partition = world.partition("t")
    append(partition, batch_of(b"a"))
    refused = refusal(partition, batch_of(b"a", timestamp_ms=timestamp_ms))
    assert isinstance(refused, RecordsRejected)
    assert (refused.code, refused.record_errors[0][0]) == (ErrorCode.INVALID_TIMESTAMP, 0)


def test_compacted_topic_names_the_records_without_a_key(world: World) -> None:
    world.create("t", configs={"cleanup.policy": "compact"})
    partition = world.partition("t")
    append(partition, batch_of(b"a", key=b"k"))
    refused = refusal(partition, batch_of(b"a", b"b"))
    assert isinstance(refused, RecordsRejected)
    assert refused.code is ErrorCode.INVALID_RECORD
    assert [place for place, _ in refused.record_errors] == [0, 1]


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("damage", ["count", "offset", "length", "end"])
def test_records_that_would_stop_a_reader_are_refused(
    world: World, compression: Compression, damage: str
) -> None:
    """The CRC is right: it is the producer that is wrong, and every reader and the cleaner would meet it."""
    world.create("t")
    partition = world.partition("t")
    plain = bytearray(encode_records([(NOW_MS, b"k", b"v" * 50, ())] * 3))
    count = 3
    match damage:
        case "count":
            count = 4
        case "offset":
            plain[len(plain) // 3 + 3] ^= 6
        case "length":
            plain[4] ^= 8
        case "end":
            plain = plain[:-1]
    batch = seal_batch(
        compress(compression, bytes(plain)),
        record_count=count,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        compression=compression,
    )
    assert refusal(partition, batch).code is ErrorCode.INVALID_RECORD


def test_a_missing_max_timestamp_of_a_batch_is_computed_from_its_records(world: World) -> None:
    """Some client libraries leave it out; lookups by time and retention go by it."""
    world.create("t")
    partition = world.partition("t")
    append(partition, with_max_timestamp(batch_of(b"a", timestamp_ms=NOW_MS), 5))
    flush(world, partition)
    (stored,) = stored_batches(partition)
    assert read_header(stored).max_timestamp == NOW_MS
    verify_crc(stored)


@pytest.mark.parametrize(
    "name, stored",
    [
        ("uncompressed", Compression.NONE),
        ("gzip", Compression.GZIP),
        ("zstd", Compression.ZSTD),
        ("lz4", Compression.LZ4),
        ("producer", Compression.SNAPPY),
    ],
)
def test_topic_chooses_the_compression(world: World, name: str, stored: Compression) -> None:
    world.create("t", configs={"compression.type": name})
    partition = world.partition("t")
    batch = batch_of(
        b"a", b"b", compression=Compression.SNAPPY, producer_id=5, producer_epoch=0, base_sequence=0
    )
    append(partition, batch)
    flush(world, partition)
    (kept,) = stored_batches(partition)
    header = read_header(kept)
    assert (header.compression, header.producer_id, header.base_sequence) == (stored, 5, 0)
    assert [record.value for record in iterate_records(kept)] == [b"a", b"b"]


def test_changed_settings_hold_at_once(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    world.configure("t", {"max.message.bytes": "10", "flush.messages": "5"})
    assert refusal(partition, batch_of(b"a")).code is ErrorCode.MESSAGE_TOO_LARGE
    assert not partition.durable
    assert partition.log.config.max_message_bytes == 10


def test_a_client_with_a_different_leader_epoch_is_refused(world: World) -> None:
    world.create("t", epoch=3)
    partition = world.partition("t")
    told = [partition.check_leader_epoch(epoch) for epoch in (-1, 3, 2, 4)]
    assert told == [None, None, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH]


def test_a_failed_partition_answers_storage_error_and_recovers() -> None:
    disk = MemoryFileSystem()
    world = World(Path("/data"), disk)
    world.create("t", epoch=4)
    partition = world.partition("t")
    append(partition, batch_of(b"kept"))
    flush(world, partition)
    append(partition, batch_of(b"lost" * 20_000))  # Too large for the journal.
    wait = Counting()
    partition.waits[wait] = None
    disk.syncs_until_failure = 0
    flush(world, partition)
    assert refusal(partition, batch_of(b"x")).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert wait.heard == 1
    with pytest.raises(StorageError):
        partition.append_own(batch_of(b"x"))
    world.reopen_failed()
    assert (partition.offline, partition.leader_epoch, partition.high_watermark) == (None, 4, 1)
    assert append(partition, batch_of(b"again")).base_offset == 1


def test_sound_records_reach_the_disk_unchanged(world: World) -> None:
    world.create("t")
    partition = world.partition("t")
    batch = batch_of(b"a" * 100, b"b")
    append(partition, memoryview(batch))
    flush(world, partition)
    (kept,) = iterate_batches(stored_batches(partition)[0])
    assert kept[16:] == batch[16:]
