"""What transactions have left in the data folder, as Apache Kafka's kafka-dump-log reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from tests.interop.broker_process import BrokerProcess
from tests.interop.dump_tool import complaints, kafka_dump

TIMEOUT_S = 30.0
EMPTY, ONGOING = 0, 1
COMMITTED, ABORTED = (ONGOING, 2, 4), (ONGOING, 3, 5)  # Begun, prepared, complete.
SETTINGS = ("transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1")


@pytest.fixture(scope="module")
def folder(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed transaction, one that is aborted, and one that was open when the broker was killed."""
    assert libs.is_dir()
    broker = BrokerProcess(tmp_path_factory.mktemp("transactions"), *SETTINGS)
    broker.start()
    try:
        live(broker.bootstrap)
    finally:
        broker.kill()
    return broker.data


def live(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("t", 1)])["t"].result(TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "id"})
    producer.init_transactions(TIMEOUT_S)
    for number in range(3):
        producer.begin_transaction()
        producer.produce("t", b"%d" % number)
        assert producer.flush(TIMEOUT_S) == 0
        offsets = [TopicPartition("t", 0, 10 + number)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
        if number == 0:
            producer.commit_transaction(TIMEOUT_S)
        elif number == 1:
            producer.abort_transaction(TIMEOUT_S)
    consumer.close()


def dumped(libs: Path, paths: Iterable[Path], *how: str) -> list[str]:
    lines = kafka_dump(libs, *how, "--files", ",".join(map(str, sorted(paths))))
    assert complaints(lines) == []
    return lines


def test_its_decoder_reads_the_transaction_log(libs: Path, folder: Path) -> None:
    lines = dumped(libs, folder.glob("__transaction_state-0/*.log"), "--transaction-log-decoder")
    told = [line for line in lines if line.startswith("| ")]
    assert all('key: {"type":"0","data":{"transactionalId":"id"}}' in line for line in told)
    states = [int(number) for line in told for number in re.findall(r'"transactionStatus":(\d)', line)]
    assert [state for state, _ in groupby(states)] == [EMPTY, *COMMITTED, *ABORTED, ONGOING]
    both = '[{"topic":"__consumer_offsets","partitionIds":[0]},{"topic":"t","partitionIds":[0]}]'
    prepared = [line for line in told if re.search(r'"transactionStatus":[23]', line)]
    assert len(prepared) == 2
    assert all(f'"transactionPartitions":{both}' in line for line in prepared)


@pytest.mark.parametrize(
    "place, decoder", [("t-0", "--print-data-log"), ("__consumer_offsets-0", "--offsets-decoder")]
)
def test_it_finds_a_marker_after_each_ended_transaction(
    libs: Path, folder: Path, place: str, decoder: str
) -> None:
    lines = dumped(libs, folder.glob(f"{place}/*.log"), decoder)
    batches = [line for line in lines if line.startswith("baseOffset")]
    assert all("isTransactional: true" in line for line in batches)
    is_control = ["isControl: true" in line for line in batches]
    assert is_control == [False, True, False, True, False], "the last one is open"
    assert re.findall(r"endTxnMarker: (\w+)", "\n".join(lines)) == ["COMMIT", "ABORT"]


def test_it_reads_the_index_of_aborted_transactions(libs: Path, folder: Path) -> None:
    lines = dumped(libs, folder.glob("t-0/*.txnindex"))
    found = [line for line in lines if "firstOffset" in line]
    assert len(found) == 1
    assert re.fullmatch(
        r"version: 0 producerId: \d+ firstOffset: 2 lastOffset: 3 lastStableOffset: 4", found[0]
    )
