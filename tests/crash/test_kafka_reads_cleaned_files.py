"""Apache Kafka's own dump tool reads what compaction left, and understands what it notes in the batches."""

from pathlib import Path
from uuid import UUID

from kohort.protocol.records import (
    Compression,
    ControlType,
    build_batch,
    build_transaction_marker,
    read_header,
)
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog
from kohort.storage.cleaning import LogCleaning, plan_cleaning
from tests.crash.test_kafka_reads_the_files import COMPLAINTS, dump, files

TOPIC_ID = UUID("0c0ffee0-0000-4000-8000-00000000cafe")
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
CONFIG = LogConfig(
    segment_bytes=6_000,
    index_interval_bytes=400,
    cleanup_policy=("compact",),
    delete_retention_ms=HOUR_MS,
    file_delete_delay_ms=0,
)


def write(log: PartitionLog) -> None:
    """Write keys that come again, tombstones, an idempotent producer and transactions, in every codec."""
    sequence = 0
    for place in range(240):
        numbers: dict[str, int] = {}
        if place % 4 == 1:
            numbers = {"producer_id": 9, "producer_epoch": 0, "base_sequence": sequence}
            sequence += 3
        batch = build_batch(
            [
                (
                    NOW_MS + place * 1000,
                    b"key %d" % ((place + each) % 40),
                    None if place % 7 == 0 else b"v" * 60,
                    (("h", b"x"),),
                )
                for each in range(3)
            ],
            compression=Compression(place % 5),
            is_transactional=place % 8 == 1,
            **numbers,  # type: ignore[arg-type]
        )
        stage(log, batch)
        if place % 8 == 1:
            kind = ControlType.ABORT if place % 16 == 1 else ControlType.COMMIT
            stage(
                log,
                build_transaction_marker(
                    kind, timestamp_ms=NOW_MS, producer_id=9, producer_epoch=0, coordinator_epoch=2
                ),
            )
    log.write(True)


def stage(log: PartitionLog, batch: bytes) -> None:
    log.stage(batch, (read_header(batch),), 0)


def clean(directory: DataDirectory, log: PartitionLog, now_ms: int) -> None:
    plan = plan_cleaning(
        log.segments,
        log.config,
        checkpoint=None,
        log_start_offset=0,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.written_offset,
        now_ms=now_ms,
    )
    cleaning = LogCleaning.of(log, plan, now_ms=now_ms, keys_max=1000, progress=lambda _: None)
    for replacement in cleaning.replacements():
        assert log.replace_segments(replacement, now_ms)
    log.remove_deleted_files(now_ms)
    directory.save_cleaner_offset("orders", 0, cleaning.end_offset, cleaned=log)


def test_cleaned_segments_and_their_indexes_agree(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    write(log)
    before = log.size_bytes
    for hours in (1, 4):
        clean(directory, log, NOW_MS + hours * HOUR_MS)
        folder = tmp_path / "orders-0"
        everything = files(folder, ".log", ".index", ".timeindex")
        said = dump("--deep-iteration", "--print-data-log", "--files", everything)
        batches = sum(1 for _ in log.read_batches())
        assert said.count("isvalid: true") == batches
        assert not [complaint for complaint in COMPLAINTS if complaint in said]
        if hours == 1:
            assert f"deleteHorizonMs: OptionalLong[{NOW_MS + 2 * HOUR_MS}]" in said
            assert "endTxnMarker: ABORT coordinatorEpoch: 2" in said
    assert log.size_bytes < before / 3
    indexes = files(folder, ".index", ".timeindex")
    said = dump("--index-sanity-check", "--files", indexes)
    assert said.count("passed sanity check") == len(indexes.split(","))
    directory.close()
