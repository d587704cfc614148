"""Recorded traffic: what a run asked and was answered, read from its file and sent again."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kohort.protocol.messages.fetch import FetchResponse
from kohort.testing import Broker, BrokerFailed, ErrorCode, Recording


def run(broker: Broker) -> None:
    """Write two records, read them, and commit."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "writer", "log_level": 0})
    producer.produce("orders", b"one" * 500, partition=0)
    assert producer.flush(10) == 0
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "kitchen", "client.id": "billing"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition("orders", 0, 0)])
    message = broker.until(lambda: consumer.poll(0.1))
    assert message.value() == b"one" * 500
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()


def recorded(path: Path) -> Recording:
    with Broker(topics={"orders": 1}) as broker:
        with broker.record(path):
            run(broker)
        run_again = len(path.read_text().splitlines())
        with pytest.raises(ValueError, match="did you mean Produce"):
            Recording.read(path).of("Produse")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        producer.produce("orders", b"two")
        assert producer.flush(10) == 0
        assert len(path.read_text().splitlines()) == run_again, "nothing is recorded behind the block"
    return Recording.read(path)


def test_a_run_is_read_from_its_file(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "run.jsonl")
    assert recording.apis[0] == "ApiVersions"
    [produce] = recording.of("Produce", client="writer")
    assert b"oneoneone" in bytes(produce.request.topic_data[0].partition_data[0].records)  # type: ignore[attr-defined]
    assert produce.errors == ()
    fetched = [each.answer for each in recording.of("Fetch", client="billing")]
    records = [
        bytes(partition.records or b"")  # type: ignore[call-overload]
        for answer in fetched
        if isinstance(answer, FetchResponse)
        for topic in answer.responses
        for partition in topic.partitions
    ]
    assert any(b"oneoneone" in each for each in records), "records that were sent from their file"
    assert recording.of("OffsetCommit")[-1].errors == ()
    assert len({each.connection for each in recording}) > 2


def test_requests_are_sent_again_to_another_broker(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "run.jsonl")
    with Broker(topics={"orders": 1}) as broker:
        again = recording.of("Produce").replay(broker.bootstrap)
        assert [each.value for each in broker.records("orders")] == [b"one" * 500]
        assert [each.errors for each in again] == [()]
        commits = recording.of("OffsetCommit")[-1:]
        broker.until(lambda: commits.replay(broker.bootstrap)[0].errors == ())  # The groups are loading.
        broker.expect_commit(group="kitchen", topic="orders", offset=1)
        broker.fail_next("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        again = commits.replay(broker.bootstrap)
        assert [each.errors for each in again] == [(ErrorCode.GROUP_AUTHORIZATION_FAILED,)]
        broker.drop_next("OffsetCommit")
        with pytest.raises(BrokerFailed, match="closed the connection at OffsetCommit"):
            commits.replay(broker.bootstrap)


def test_a_request_without_an_answer_is_recorded_without_one(tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        with broker.hold("Produce") as held, broker.record(tmp_path / "run.jsonl"):
            producer.produce("orders", b"one")
            producer.poll(0)
            held.wait(1)
        assert producer.flush(10) == 0
    [produce] = Recording.read(tmp_path / "run.jsonl").of("Produce")
    assert produce.answer is None
