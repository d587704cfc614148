"""Tests of an application with unittest: python -m unittest examples.unittest_orders."""

import unittest

from confluent_kafka import Consumer, Producer

from kohort.testing import Broker, ErrorCode, Snapshot


def copy_one(bootstrap: str) -> None:
    """Stands for your application: it copies an order for the kitchen, and commits it."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "copier", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    while (message := consumer.poll(0.1)) is None or message.error() is not None:
        pass
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("kitchen", message.value())
    producer.flush(10)
    consumer.commit(message=message, asynchronous=False)
    consumer.close()


class OrdersTest(unittest.TestCase):
    """Each test has a broker of its own, with one order."""

    prepared: Snapshot
    broker: Broker

    @classmethod
    def setUpClass(cls) -> None:
        """Prepare a broker once."""
        with Broker(topics={"orders": 1, "kitchen": 1}) as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce("orders", b"two pizzas")
            producer.flush(10)
            cls.prepared = broker.snapshot()

    def setUp(self) -> None:
        """Start a copy of it."""
        self.broker = self.enterContext(Broker(snapshot=self.prepared))

    def test_an_order_is_copied_and_committed(self) -> None:
        """The copy is written before the commit."""
        copy_one(self.broker.bootstrap)
        self.broker.expect_records(topic="kitchen", values=[b"two pizzas"])
        self.broker.expect_commit(group="copier", topic="orders", offset=1)

    def test_an_order_is_copied_although_the_broker_refuses_it_at_first(self) -> None:
        """The producer sends it again."""
        self.broker.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        copy_one(self.broker.bootstrap)
        self.broker.expect_records(topic="kitchen", values=[b"two pizzas"])


if __name__ == "__main__":
    unittest.main()
