"""What happened: requests, records, groups and their rebalances, and the report."""

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from kohort.testing import Broker, ErrorCode
from kohort.testing.watch import REQUESTS_KEPT


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        yield broker


def member(broker: Broker, client_id: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "group.id": "readers",
            "heartbeat.interval.ms": 50,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    return consumer


def test_records_have_all_that_was_sent(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "compression.type": "zstd"})
    producer.produce(
        "orders",
        key=b"k",
        value=b"v",
        partition=1,
        headers=[("trace", b"7"), ("none", None)],
        timestamp=1_000,
    )
    producer.produce("orders", key=b"gone", value=None, partition=1)
    assert producer.flush(20) == 0
    first, second = broker.records("orders")
    assert (first.topic, first.partition, first.offset, first.timestamp_ms) == ("orders", 1, 0, 1_000)
    assert (first.key, first.value, first.headers) == (b"k", b"v", (("trace", b"7"), ("none", None)))
    assert (second.key, second.value) == (b"gone", None)


def test_requests_say_who_asked_what_and_was_answered_what(broker: Broker) -> None:
    consumer = member(broker, "billing")
    broker.until(lambda: (consumer.poll(0.01), broker.groups["readers"].state == "Stable")[1])
    joins = broker.requests.of("JoinGroup", client_id="billing")
    assert joins[0].errors == (ErrorCode.MEMBER_ID_REQUIRED,)
    assert joins[-1].errors == ()
    assert joins[-1].is_answered
    assert getattr(joins[-1].message, "group_id") == "readers"  # noqa: B009  # A message is any API's.
    assert broker.requests.apis[0] == "ApiVersions"
    assert joins[-1].time == pytest.approx(broker.clock.time(), abs=30)
    assert list(broker.requests[:2]) == [broker.requests[0], broker.requests[1]]
    consumer.close()


def test_rebalances_say_why(broker: Broker) -> None:
    first = member(broker, "first")
    broker.until(lambda: (first.poll(0.01), broker.groups["readers"].state == "Stable")[1])
    second = member(broker, "second")

    def both_read() -> bool:
        first.poll(0.01)
        second.poll(0.01)
        group = broker.groups["readers"]
        return group.state == "Stable" and len(group.members) == 2

    broker.until(both_read)
    group = broker.groups["readers"]
    assert {each.client_id: len(each.partitions) for each in group.members} == {"first": 1, "second": 1}
    assert [each.cause.split(":")[0] for each in group.rebalances] == ["a member joined"] * 2
    assert group.rebalances[-1].generation == group.generation
    assert group.rebalances[-1].moved >= 1
    second.close()
    broker.until(
        lambda: (first.poll(0.01), "a member left" in broker.groups["readers"].rebalances[-1].cause)[1]
    )
    first.close()


def test_the_report_tells_a_person_what_happened(broker: Broker) -> None:
    assert "no request at all" in broker.report()
    consumer = member(broker, "billing")
    broker.until(lambda: (consumer.poll(0.01), broker.groups["readers"].state == "Stable")[1])
    report = broker.report()
    for line in (
        "client 'billing':",
        "1 answered MEMBER_ID_REQUIRED",
        "group 'readers': Stable, generation 1, 1 members",
        "billing reads orders-0, orders-1",
        "rebalance to generation 1, stable: a member joined",
        "topic 'orders': 0 records",
    ):
        assert line in report, report
    consumer.close()


def test_no_more_requests_are_kept_than_fit(broker: Broker) -> None:
    assert broker._core.watch.requests.maxlen == REQUESTS_KEPT
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce("orders", b"one")
    assert producer.flush(20) == 0
    [sent] = broker.requests.of("Produce")
    assert sent.message is None


def test_aiokafka_on_asyncio() -> None:
    async def main() -> None:
        async with Broker(topics={"orders": 1}) as broker:
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
                await producer.send_and_wait("orders", b"one")
            async with AIOKafkaConsumer(
                "orders",
                bootstrap_servers=broker.bootstrap,
                group_id="readers",
                auto_offset_reset="earliest",
            ) as consumer:
                assert (await consumer.getone()).value == b"one"
                await consumer.commit()
                group = await broker.until(lambda: broker.groups["readers"])
                assert group.offsets == {("orders", 0): 1}

    asyncio.run(main())
