"""After a varied life of a broker Apache Kafka's dump tool reads every file of its data folder.

Codecs, idempotent producers, groups that rebalance, compaction with tombstones, retention, deleted records,
deleted topics, a kill: then everything is dumped in each of the tool's ways, and it must not complain.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Their home says otherwise.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.interop.broker_process import BrokerProcess
from tests.interop.dump_tool import complaints, kafka_dump
from tests.interop.waiting import wait_until

SMALL = {"internal.segment.bytes": "12000", "index.interval.bytes": "1000"}
TOPICS = {
    "plain": {**SMALL},
    "compacted": {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "both": {**SMALL, "cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.01"},
    "short": {**SMALL, "retention.bytes": "15000"},
    "stamped": {**SMALL, "message.timestamp.type": "LogAppendTime"},
    "squeezed": {**SMALL, "compression.type": "lz4"},
    "lax": {**SMALL, "flush.messages": "1000000"},
    "idle": {},
    "gone": {},
}
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=2",
    "log.cleaner.backoff.ms=200",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.initial.task.delay.ms=500",
    "log.retention.check.interval.ms=500",
    "log.segment.delete.delay.ms=1000",
)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SUFFIXES = (".log", ".index", ".timeindex", ".snapshot")
# What the tool has no way to tell: text files, the journal, files on their way out.
NOT_FOR_THE_TOOL = {
    ".lock",
    ".kafka_cleanshutdown",
    "meta.properties",
    "metadata.jsonl",
    "producer-ids",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}


@pytest.fixture(scope="module")
def folder(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the broker has written by the time it is stopped; `libs` first: without Java there is no use."""
    assert libs.is_dir()
    broker = BrokerProcess(tmp_path_factory.mktemp("varied"), *SETTINGS)
    broker.start()
    try:
        live(broker)
        assert broker.stop() == 0
    finally:
        broker.kill()
    assert not [line for line in broker.log_lines() if "error" in line]
    return broker.data


def live(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics(
        [NewTopic(name, 2, 1, config=each) for name, each in TOPICS.items()]
    ).values():
        future.result(30)
    produce(broker.bootstrap, seed=1)
    rebalance_and_commit(broker.bootstrap)
    shrink = ConfigEntry("internal.segment.bytes", "20000", incremental_operation=AlterConfigOpType.SET)
    offsets = ConfigResource("topic", "__consumer_offsets", incremental_configs=[shrink])
    admin.incremental_alter_configs([offsets])[offsets].result(30)
    for _ in range(2):
        rebalance_and_commit(broker.bootstrap)
    wait_until(lambda: "a log was compacted" in "\n".join(broker.log_lines()), "compaction", 30)
    wait_until(lambda: "old segments were deleted" in "\n".join(broker.log_lines()), "retention", 30)
    place = TopicPartition("plain", 0, 100)
    assert admin.delete_records([place])[place].result(30).low_watermark == 100
    admin.delete_topics(["gone"])["gone"].result(30)
    wait_until(lambda: not list(broker.data.glob("gone-*")), "the folders to go", 30)
    broker.restart(signal.SIGKILL)
    produce(broker.bootstrap, seed=2)
    rebalance_and_commit(broker.bootstrap)


def produce(bootstrap: str, seed: int) -> None:
    """Send keys that come again and some tombstones to every topic, under every codec."""
    dice = Random(seed)
    for place, codec in enumerate(CODECS):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": place % 2 == 0,
                "batch.size": 4_000,
                "linger.ms": 1,
            }
        )
        for number in range(60):
            for topic in TOPICS:
                if topic != "idle" and (topic != "gone" or seed == 1):
                    value = None if number % 9 == 0 else dice.randbytes(dice.randrange(200)).hex()
                    headers = [("h", b"1"), ("n", None)]
                    producer.produce(topic, value, key=b"key %d" % (number % 20), headers=headers)
            producer.poll(0)
        assert producer.flush(30) == 0


def rebalance_and_commit(bootstrap: str) -> None:
    """Let two members share topics, commit again and again, and leave one after the other."""
    group = "readers"
    options = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    members = [Consumer({**options, "enable.auto.commit": False}) for _ in range(2)]
    for member in members:
        member.subscribe(["plain", "short"])

    def share() -> bool:
        for member in members:
            member.poll(0.1)
        return all(len(member.assignment()) == 2 for member in members)

    wait_until(share, "the members' shares", 30)
    for number in range(500):
        members[0].commit(offsets=[TopicPartition("plain", 0, number)], asynchronous=True)
        if number % 100 == 99:
            members[0].commit(offsets=[TopicPartition("plain", 0, number)], asynchronous=False)
    for member in members:
        member.close()


def every_file(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def of_kind(folder: Path, *suffixes: str) -> list[Path]:
    return [path for path in every_file(folder) if path.suffix in suffixes]


def names(paths: list[Path]) -> str:
    return ",".join(map(str, paths))


def dumped(lines: list[str]) -> set[str]:
    return {line.removeprefix("Dumping ") for line in lines if line.startswith("Dumping ")}


def test_no_file_is_left_undumped(folder: Path) -> None:
    leaving = (".deleted", ".cleaned")  # The next start removes them.
    others = {path.name for path in every_file(folder) if path.suffix not in (*SUFFIXES, *leaving)}
    assert others <= NOT_FOR_THE_TOOL, "nothing is left half done, and nothing is of a kind of our own"
    topics = {path.parent.name.rpartition("-")[0] for path in of_kind(folder, ".log")}
    assert topics == TOPICS.keys() - {"gone"} | {"__consumer_offsets", "__group_events"}
    for topic in ("compacted", "plain", "short", "__consumer_offsets"):
        assert len(list(folder.glob(f"{topic}-*/*.log"))) > 2, f"{topic} has no more than its active segments"
    assert of_kind(folder, ".snapshot")


def test_every_file_is_dumped_without_a_complaint(libs: Path, folder: Path) -> None:
    paths = of_kind(folder, *SUFFIXES)
    lines = kafka_dump(libs, "--deep-iteration", "--print-data-log", "--files", names(paths))
    assert dumped(lines) == set(map(str, paths))
    assert complaints(lines) == []
    assert sum("isvalid: true" in line for line in lines) > 200


def test_every_index_agrees_with_its_segment(libs: Path, folder: Path) -> None:
    indexes = of_kind(folder, ".index", ".timeindex")
    for how in ("--verify-index-only", "--index-sanity-check"):
        lines = kafka_dump(libs, how, "--files", names(indexes))
        assert complaints(lines) == [], how
    # An index with few batches behind it is empty, which the tool tells without a verdict.
    assert sum("passed sanity check" in line or "is empty" in line for line in lines) == len(indexes)


def test_commits_and_groups_are_decoded(libs: Path, folder: Path) -> None:
    paths = [path for path in of_kind(folder, ".log") if path.parent.name.startswith("__consumer_offsets")]
    lines = kafka_dump(libs, "--offsets-decoder", "--files", names(paths))
    assert complaints(lines) == []
    keys = [line for line in lines if "key: " in line]
    assert any('"type":"1"' in line and '"topic":"plain","partition":0' in line for line in keys)
    assert any('"type":"2"' in line for line in keys)
    assert not [line for line in keys if "unknown" in line.lower()]


def test_the_tool_would_complain(libs: Path, folder: Path, tmp_path: Path) -> None:
    """One wrong byte in a batch, and one wrong entry in an index."""
    (log,) = list(folder.glob("stamped-0/*.log"))[:1]
    content = bytearray(log.read_bytes())
    content[-3] ^= 1
    index = bytearray(log.with_suffix(".index").read_bytes())
    index[3] ^= 1
    (tmp_path / log.name).write_bytes(content)
    (tmp_path / log.name).with_suffix(".index").write_bytes(index)
    paths = [tmp_path / log.name, (tmp_path / log.name).with_suffix(".index")]
    found = complaints(kafka_dump(libs, "--files", names(paths)))
    assert any("isvalid: false" in line for line in found)
    assert any("Mismatches in" in line for line in found)
