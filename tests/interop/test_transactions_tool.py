"""kafka-transactions.sh: lists, describes, and aborts what hangs."""

from __future__ import annotations

import uuid

import pytest

from kohort.client import Admin, Consumer, NewTopic, TopicPartition
from tests.interop.kafka_tools import Output, Tools

confluent_kafka = pytest.importorskip("confluent_kafka")

TIMEOUT_S = 30.0


def end_offset(bootstrap: str, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        return consumer.end_offsets(partition)[partition]


def test_a_transaction_is_listed_described_and_aborted(bootstrap: str, tools: Tools) -> None:
    def run(*arguments: str) -> Output:
        output = tools.run("kafka-transactions", "--bootstrap-server", bootstrap, *arguments)
        assert output.status == 0, output
        return output

    topic, transactional_id = f"topic-{uuid.uuid4().hex[:8]}", f"tool-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=1))
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    (listed,) = [row for row in run("list").rows() if row[0] == transactional_id]
    assert listed[-1] == "Ongoing"
    head, described = run("describe", "--transactional-id", transactional_id).rows()
    row = dict(zip(head, described, strict=True))
    assert (row["TransactionState"], row["TopicPartitions"]) == ("Ongoing", f"{topic}-0")
    head, written = run("describe-producers", "--topic", topic, "--partition", "0").rows()
    row = dict(zip(head, written, strict=True))
    assert row["CurrentTransactionStartOffset"] == "0"
    assert end_offset(bootstrap, topic) == 0
    run("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert end_offset(bootstrap, topic) == 2
    head, written = run("describe-producers", "--topic", topic, "--partition", "0").rows()
    assert dict(zip(head, written, strict=True))["CurrentTransactionStartOffset"] == "None"
