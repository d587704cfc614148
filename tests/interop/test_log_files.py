"""Apache Kafka's dump tool reads the folder of a kohort broker; kohort reads the folder of an Apache Kafka.

Real clients have used either broker before: every codec, idempotent producers, commits.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Their home says otherwise.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from kohort.protocol.offsets_topic import OffsetCommitRecord, decode_record
from kohort.protocol.records import iterate_records, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog
from kohort.storage.dump import DumpOptions, dump
from kohort.storage.verify import VerifyOptions, verify_data
from tests.interop.broker_process import BrokerProcess
from tests.interop.dump_tool import complaints, java, kafka_dump
from tests.interop.waiting import wait_until
from tests.ports import free_port

TOPIC = "orders"
GROUP = "readers"
TRANSACTIONAL_GROUP = "payers"
PER_CODEC = 400
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMMITTED = 123
SEGMENT_BYTES = 1024 * 1024
KAFKA_START_S = 90.0
READ_TIMEOUT_S = 60.0


def use(bootstrap: str) -> None:
    """Produce under every codec, plainly and idempotently, and commit, as real clients do."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(TOPIC, 1, 1, config={"segment.bytes": str(SEGMENT_BYTES)})
    admin.create_topics([topic])[TOPIC].result(30)
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": codec in ("none", "lz4"),
                "linger.ms": 2,
            }
        )
        for number in range(PER_CODEC):
            value = f"{codec} {number} ".encode() + Random(number).randbytes(1500)
            producer.produce(TOPIC, value, key=b"key %d" % (number % 10), headers=[("h", b"1"), ("n", None)])
            if number % 50 == 0:
                producer.poll(0.01)
        assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, COMMITTED, metadata="far")], asynchronous=False)
    consumer.close()


def use_further(bootstrap: str) -> None:
    """Change settings and partitions, delete a topic, commit offsets in transactions that end either way."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in ("payments", "gone")]).values():
        future.result(30)
    admin.create_partitions([NewPartitions("payments", 3)])["payments"].result(30)
    change = ConfigEntry("retention.ms", "123456789", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", "payments", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    admin.delete_topics(["gone"])["gone"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payer"})
    producer.init_transactions(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": TRANSACTIONAL_GROUP})
    for offset, end in (
        (COMMITTED, producer.commit_transaction),
        (2 * COMMITTED, producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.produce("payments", b"%d" % offset, partition=0)
        places = [TopicPartition(TOPIC, 0, offset)]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
        assert producer.flush(30) == 0
        end(30)
    consumer.close()
    # Kafka answers before the markers of a transaction are in the logs.
    wait_until(lambda: end_offset(bootstrap, "payments") == 4, "the markers", 30)
    wait_until(lambda: committed(bootstrap, TRANSACTIONAL_GROUP) == COMMITTED, "the commit", 30)


@pytest.fixture(scope="module")
def kohort_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a kohort broker has written by the time it is stopped."""
    broker = BrokerProcess(tmp_path_factory.mktemp("kohort"), "offsets.topic.num.partitions=1")
    broker.start()
    try:
        use(broker.bootstrap)
        assert broker.stop() == 0
    finally:
        broker.kill()
    return broker.data


def logs(folder: Path, *suffixes: str) -> list[str]:
    return [str(path) for path in sorted(folder.iterdir()) if path.suffix in suffixes]


def test_kafka_reads_every_file_that_a_kohort_broker_wrote(libs: Path, kohort_folder: Path) -> None:
    for folder in (kohort_folder / f"{TOPIC}-0", kohort_folder / "__consumer_offsets-0"):
        files = logs(folder, ".log", ".index", ".timeindex", ".snapshot")
        lines = kafka_dump(libs, "--deep-iteration", "--files", ",".join(files))
        assert not complaints(lines)
        assert {line for line in lines if line.startswith("Dumping ")} == {
            f"Dumping {each}" for each in files
        }
        indexes = logs(folder, ".index", ".timeindex")
        lines = kafka_dump(libs, "--index-sanity-check", "--files", ",".join(indexes))
        # An index with few batches behind it is empty, which the tool tells without a verdict.
        assert sum("passed sanity check" in line or "is empty" in line for line in lines) == len(indexes)
    offsets = logs(kohort_folder / "__consumer_offsets-0", ".log")
    decoded = "\n".join(kafka_dump(libs, "--offsets-decoder", "--files", ",".join(offsets)))
    assert f'"group":"{GROUP}","topic":"{TOPIC}","partition":0' in decoded
    assert f'"offset":{COMMITTED}' in decoded


def test_both_dumps_are_identical(libs: Path, kohort_folder: Path) -> None:
    """Batches and records of segments, decoded offsets, indexes and snapshots."""
    data = kohort_folder / f"{TOPIC}-0"
    offsets = kohort_folder / "__consumer_offsets-0"
    for folder, option, options in (
        (data, "--deep-iteration", DumpOptions()),
        (offsets, "--offsets-decoder", DumpOptions(offsets=True)),
    ):
        suffixes = (".log", ".index", ".timeindex", ".snapshot") if folder is data else (".log",)
        for path in logs(folder, *suffixes):
            theirs = [line for line in kafka_dump(libs, option, "--files", path) if is_comparable(line)]
            lines = dump(OsFileSystem(), Path(path), options)
            ours = [line.text for line in lines if is_comparable(line.text)]
            assert ours == theirs, path
            # An index with few batches behind it is empty: how many come to a segment is a matter of time.
            assert len(ours) > 1 or path.endswith(".snapshot") or Path(path).stat().st_size == 0


def is_comparable(line: str) -> bool:
    """Whether it is no record of a deep dump without its payload, and no remark of the tool's own."""
    if line.startswith("| ") and "payload" not in line:
        return False
    return re.match(r"(\| |Dumping|baseOffset|offset|timestamp|producerId|Log starting)", line) is not None


class KafkaProcess:
    """Apache Kafka in a folder of its own: controller and broker in one process."""

    def __init__(self, libs: Path, folder: Path) -> None:
        self.data = folder / "kafka-logs"
        self._log = folder / "kafka.log"
        ports = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{ports[0]}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{ports[1]}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{ports[1]}",
            "log.dirs": self.data,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = java(libs, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk")
        subprocess.run([*command, "-c", str(config)], check=True, capture_output=True, timeout=60)
        with self._log.open("w") as log:
            command = [*java(libs, "kafka.Kafka", str(config))]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait()

    def _wait(self) -> None:
        deadline_s = time.monotonic() + KAFKA_START_S
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while True:
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < deadline_s, "Kafka did not start in time"
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException as error:
                if error.args[0].code() != KafkaError._TRANSPORT:
                    raise

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def kafka_folders(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What Apache Kafka has written when it is killed, of which it knows nothing, and when it is stopped."""
    kafka = KafkaProcess(libs, tmp_path_factory.mktemp("kafka"))
    killed = tmp_path_factory.mktemp("killed") / "kafka-logs"
    try:
        use(kafka.bootstrap)
        use_further(kafka.bootstrap)
        shutil.copytree(kafka.data, killed)
        kafka.stop()
    finally:
        kafka.kill()
    return {"killed": killed, "stopped": kafka.data}


def opened(directory: DataDirectory, topic: str) -> PartitionLog:
    topic_id = next(each.topic_id for each in directory.partitions() if each.topic == topic)
    assert topic_id is not None
    return directory.open_log(topic, topic_id, 0, LogConfig(segment_bytes=SEGMENT_BYTES))


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_folder_that_kafka_wrote_is_read_with_its_records_and_offsets(
    end: str, kafka_folders: dict[str, Path]
) -> None:
    kafka_folder = kafka_folders[end]
    report = verify_data(OsFileSystem(), kafka_folder / f"{TOPIC}-0", VerifyOptions(deep=True))
    assert report.problems == []
    assert report.records == PER_CODEC * len(CODECS)
    assert report.segments > 1
    directory = DataDirectory.open(kafka_folder, OsFileSystem())
    assert directory.meta is not None
    assert directory.meta.node_id == 1
    log = opened(directory, TOPIC)
    assert (log.log_start_offset, log.log_end_offset) == (0, PER_CODEC * len(CODECS))
    records = [record for batch in log.read_batches() for record in iterate_records(batch)]
    assert [record.offset for record in records] == list(range(log.log_end_offset))
    found = [(record.value or b"").split(b" ")[:2] for record in records]
    assert found == [[codec.encode(), b"%d" % number] for codec in CODECS for number in range(PER_CODEC)]
    assert records[0].headers == (("h", b"1"), ("n", None))
    for offset in (0, 777, log.log_end_offset - 1):
        assert log.read(offset, 1, log.log_end_offset).size_bytes > 0
    middle = records[len(records) // 2]
    by_time = log.offset_for_timestamp(middle.timestamp)
    assert by_time is not None
    assert by_time.timestamp == middle.timestamp
    assert committed_offsets(opened(directory, "__consumer_offsets"))[GROUP] == COMMITTED
    producers = dict(log.producers.items())
    assert len(producers) == 2, "one for each idempotent producer"
    directory.close()


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_broker_imports_a_folder_of_kafka(end: str, kafka_folders: dict[str, Path], tmp_path: Path) -> None:
    """Topics, settings, records and committed offsets; it goes on from there, and over its own restart."""
    broker = BrokerProcess(tmp_path)
    shutil.copytree(kafka_folders[end], broker.data)
    broker.start()
    try:
        check_taken_over(broker.bootstrap)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        producer.produce(TOPIC, b"kohort 0")
        assert producer.flush(30) == 0
        broker.restart(signal.SIGTERM)
        records = read_all(broker.bootstrap, TOPIC)
        assert records[-1] == (PER_CODEC * len(CODECS), b"kohort 0")
        assert committed(broker.bootstrap, GROUP) == COMMITTED
        assert broker.stop() == 0
    finally:
        broker.kill()
    assert not [line for line in broker.log_lines() if "error" in line]
    assert verify_data(OsFileSystem(), broker.data, VerifyOptions(deep=True)).problems == []


def check_taken_over(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = admin.list_topics(timeout=30).topics
    users = {name: len(topic.partitions) for name, topic in topics.items() if not name.startswith("__")}
    assert users == {TOPIC: 1, "payments": 3}
    (settings,) = admin.describe_configs([ConfigResource("topic", "payments")]).values()
    assert settings.result(30)["retention.ms"].value == "123456789"
    records = read_all(bootstrap, TOPIC)
    assert [offset for offset, _ in records] == list(range(PER_CODEC * len(CODECS)))
    assert [value.split(b" ")[0].decode() for _, value in records[::PER_CODEC]] == list(CODECS)
    assert committed(bootstrap, GROUP) == COMMITTED
    assert committed(bootstrap, TRANSACTIONAL_GROUP) == COMMITTED, "the commit of an aborted transaction"
    assert [value for _, value in read_all(bootstrap, "payments")] == [b"123"], "committed records alone"


def read_all(bootstrap: str, topic: str) -> list[tuple[int, bytes]]:
    """Return offset and value of every record in partition 0 that was committed."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "proof", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes]] = []
    deadline_s = time.monotonic() + READ_TIMEOUT_S
    try:
        while time.monotonic() < deadline_s:
            for message in consumer.consume(500, 0.5):
                error = message.error()
                if error is None:
                    found.append((message.offset() or 0, message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    raise AssertionError("the end did not come")


def end_offset(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "proof"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)
    consumer.close()
    return end


def committed(bootstrap: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], 30)
    consumer.close()
    return found.offset


def committed_offsets(log: PartitionLog) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in log.read_batches():
        if read_header(batch).is_transactional:
            continue
        for record in iterate_records(batch):
            said = decode_record(record.key or b"", record.value)
            if isinstance(said, OffsetCommitRecord) and said.value is not None:
                found[said.key.group] = said.value.offset
    return found
