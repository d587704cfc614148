"""Apache Kafka's own dump tool reads what the storage wrote, and finds nothing amiss.

`KAFKA_LIBS` may name the folder with the jars of a Kafka installation; without it Maven fetches them.
"""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kohort.protocol.records import (
    Compression,
    ControlType,
    build_batch,
    build_transaction_marker,
    read_header,
    validate_produced,
)
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog
from tests.interop.kafka_tools import MissingTool, jars

TOPIC_ID = UUID("0c0ffee0-0000-4000-8000-00000000beef")
NOW_MS = 1_700_000_000_000
DUMP_TIMEOUT_S = 60
# What the tool says, in any of its ways, when files do not agree with each other.
COMPLAINTS = ("Mismatches in", "timestamp mismatch", "out of order", "not found", "isvalid: false")


def class_path() -> str:
    """Return where Java finds Kafka's tools, or skip the test."""
    libs = os.environ.get("KAFKA_LIBS")
    if libs:
        return f"{libs}/*"
    try:
        return f"{jars('tools')}/*"
    except MissingTool as missing:
        pytest.skip(str(missing))


def dump(*arguments: str) -> str:
    """Return what `kafka-dump-log` prints: what it finds amiss goes to standard error."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("Java is not installed")
    command = [java, "-cp", class_path(), "org.apache.kafka.tools.DumpLogSegments", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def files(folder: Path, *suffixes: str) -> str:
    return ",".join(str(path) for path in sorted(folder.iterdir()) if path.suffix in suffixes)


def write_orders(log: PartitionLog, random: Random) -> int:
    """Write batches of every kind into several segments, and return how many there are."""
    sequence = 0
    for place in range(300):
        count = random.randrange(1, 6)
        idempotent = place % 2 == 1
        timestamp = NOW_MS + place * 1000
        batch = build_batch(
            [
                (timestamp + random.randrange(-5000, 5000), b"key", random.randbytes(90), (("h", None),))
                for _ in range(count)
            ],
            compression=Compression(place % 5),
            producer_id=9 if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=sequence if idempotent else -1,
        )
        sequence += count if idempotent else 0
        append_time = timestamp if place % 50 == 0 else None
        log.stage(batch, (validate_produced(batch),), place // 100, append_time_ms=append_time)
        if place % 3 == 0:
            log.write(True)
    marker = build_transaction_marker(
        ControlType.COMMIT, timestamp_ms=NOW_MS, producer_id=11, producer_epoch=0, coordinator_epoch=4
    )
    log.stage(marker, (read_header(marker),), 2)
    log.write(True)
    return 301


def test_segments_indexes_and_snapshots_agree(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    config = LogConfig(segment_bytes=30_000, index_interval_bytes=800)
    log = directory.open_log("orders", TOPIC_ID, 0, config)
    batches = write_orders(log, Random(7))
    assert log.segment_count > 2
    directory.close()
    folder = tmp_path / "orders-0"
    everything = files(folder, ".log", ".index", ".timeindex", ".snapshot")
    said = dump("--deep-iteration", "--print-data-log", "--files", everything)
    assert said.count("isvalid: true") == batches
    assert not [complaint for complaint in COMPLAINTS if complaint in said]
    assert "endTxnMarker: COMMIT coordinatorEpoch: 4" in said
    assert said.count("producerId: 9 producerEpoch: 0 coordinatorEpoch: -1") == 2
    indexes = files(folder, ".index", ".timeindex")
    said = dump("--index-sanity-check", "--files", indexes)
    assert said.count("passed sanity check") == len(indexes.split(","))
    said = dump("--verify-index-only", "--files", indexes)
    assert not [complaint for complaint in COMPLAINTS if complaint in said]


def test_indexes_built_by_recovery_agree_as_well(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    config = LogConfig(segment_bytes=30_000, index_interval_bytes=800)
    write_orders(directory.open_log("orders", TOPIC_ID, 0, config), Random(8))
    folder = tmp_path / "orders-0"
    newest = max(folder.glob("*.log"))
    os.truncate(newest, newest.stat().st_size - 5)
    del directory
    for path in folder.glob("*index"):
        path.unlink()
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    directory.open_log("orders", TOPIC_ID, 0, config)
    directory.close()
    said = dump("--deep-iteration", "--files", files(folder, ".log", ".index", ".timeindex"))
    assert said.count("isvalid: true") == 300
    assert not [complaint for complaint in COMPLAINTS if complaint in said]


def test_consumer_offsets_are_decoded(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    log = directory.open_log("__consumer_offsets", TOPIC_ID, 12, LogConfig(cleanup_policy=("compact",)))
    member = MemberMetadata(
        member_id="m-1",
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout=1,
        subscription=b"",
        assignment=b"",
    )
    group = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m-1", members=(member,)
    )
    commit = OffsetCommitValue(offset=42, leader_epoch=3, metadata="meta", commit_timestamp=NOW_MS)
    keys = [OffsetCommitKey(group="shop", topic="orders", partition=partition) for partition in (0, 1)]
    batch = build_batch(
        [
            (NOW_MS, encode_key(keys[0]), encode_value(commit), ()),
            (NOW_MS, encode_key(keys[1]), None, ()),
            (NOW_MS, encode_key(GroupMetadataKey(group="shop")), encode_value(group), ()),
        ]
    )
    log.stage(batch, (validate_produced(batch),), 0)
    directory.close()
    said = dump("--offsets-decoder", "--files", files(tmp_path / "__consumer_offsets-12", ".log"))
    assert '"group":"shop","topic":"orders","partition":0' in said
    assert '"offset":42,"leaderEpoch":3,"metadata":"meta"' in said
    assert "payload: <DELETE>" in said
    assert '"generation":3,"protocol":"range","leader":"m-1"' in said
