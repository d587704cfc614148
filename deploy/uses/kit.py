"""Tests such as a user of the test kit writes."""

import confluent_kafka
import kafka
import pytest

from kohort.testing import Broker


@pytest.mark.parametrize("number", range(20))
def test_each_test_has_a_broker_of_its_own(number: int) -> None:
    with Broker(topics={"orders": 1}) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", str(number))
        assert producer.flush(60) == 0
        consumer = kafka.KafkaConsumer(
            "orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id="billing"
        )
        assert next(consumer).value == str(number).encode()
        consumer.commit()
        consumer.close()
        broker.expect_commit(group="billing", topic="orders", offset=1, within_seconds=60)


def test_the_fixtures_are_there(kohort_broker: Broker, kohort_topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kohort_broker.bootstrap})
    producer.produce(kohort_topic, "one")
    assert producer.flush(60) == 0
    assert [each.value for each in kohort_broker.records(kohort_topic)] == [b"one"]
