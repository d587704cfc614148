"""Expectations: they return what they waited for, and a failure says what was seen instead."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from kohort.client import Producer
from kohort.testing import Broker, ErrorCode, Group, NotInTime, UnexpectedRebalance


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2, "payments": 1}) as broker:
        yield broker


def consumer_of(broker: Broker, client_id: str = "billing", **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "kitchen",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )


def joined(broker: Broker, client_id: str) -> Consumer:
    consumer = consumer_of(broker, client_id)
    consumer.subscribe(["orders"])
    broker.until(
        lambda: (
            consumer.poll(0.05) or client_id in [each.client_id for each in broker.groups["kitchen"].members]
        )
    )
    broker.until(lambda: consumer.poll(0.05) or broker.groups["kitchen"].state == "Stable")
    return consumer


def member_names(broker: Broker) -> list[str]:
    return [each.client_id for each in broker.groups["kitchen"].members]


def commit(consumer: Consumer, offset: int, partition: int = 0) -> None:
    consumer.commit(offsets=[TopicPartition("orders", partition, offset)], asynchronous=False)


def send(broker: Broker, topic: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, client_id="writer") as producer:
        for value in values:
            producer.send(topic, value=value)


def failure_of(expect: Callable[[], object]) -> str:
    with pytest.raises((NotInTime, UnexpectedRebalance)) as raised:
        expect()
    return str(raised.value)


def test_a_commit_is_waited_for(broker: Broker) -> None:
    consumer = consumer_of(broker)
    later = threading.Timer(0.1, commit, (consumer, 7))
    later.start()
    group = broker.expect_commit(group="kitchen", topic="orders", partition=0, offset=7, within_seconds=10)
    assert group.offsets == {("orders", 0): 7}
    later.join()
    consumer.close()


def test_a_missing_commit_says_what_was_committed_and_what_was_asked(broker: Broker) -> None:
    consumer = consumer_of(broker)

    def expect(partition: int, offset: int) -> Group:
        return broker.expect_commit(
            group="kitchen", topic="orders", partition=partition, offset=offset, within_seconds=0.02
        )

    text = failure_of(lambda: expect(0, 7))
    assert text.startswith("expected group 'kitchen' to commit offset 7 of orders-0 within 0.02 s\n")
    assert "seen instead: there is no group 'kitchen' (groups: none)" in text
    assert "kitchen: there is no such group." in text
    commit(consumer, 3)
    assert "seen instead: offset 3 is committed" in failure_of(lambda: expect(0, 7))
    assert "nothing is committed of orders-1 (committed: orders-0: 3)" in failure_of(lambda: expect(1, 7))
    broker.fail_next("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(Exception, match="authorization"):
        commit(consumer, 7)
    text = failure_of(lambda: expect(0, 7))
    assert "  'billing' OffsetCommit: answered GROUP_AUTHORIZATION_FAILED by order" in text
    assert "topic 'orders': 0 records" in text, "the broker's report"
    consumer.close()


def test_a_failure_explains_why_the_group_rebalanced(broker: Broker) -> None:
    consumer = joined(broker, "billing")
    broker.clock.advance(46)
    text = failure_of(
        lambda: broker.expect_commit(group="kitchen", topic="orders", offset=1, within_seconds=0)
    )
    assert "kohort groups explain kitchen:" in text
    assert "billing" in text.partition("kohort groups explain")[2].partition("what the broker at")[0]
    assert "missed its session timeout" in text
    consumer.close()


def test_members_are_waited_for_by_number_and_by_name(broker: Broker) -> None:
    one = joined(broker, "one")
    assert broker.expect_members(group="kitchen", count=1).generation == 1
    broker.expect_members(group="kitchen", clients=["one"])
    text = failure_of(
        lambda: broker.expect_members(group="kitchen", clients=["one", "two"], within_seconds=0.01)
    )
    assert "to be stable with 2 members: one, two" in text
    assert "it is Stable with 1 members: one" in text
    one.close()
    broker.expect_members(group="kitchen", count=0)
    with pytest.raises(ValueError, match="either count="):
        broker.expect_members(group="kitchen")


def test_records_are_waited_for_by_number_and_by_value(broker: Broker) -> None:
    later = threading.Timer(0.1, send, (broker, "payments", b"one", b"two"))
    later.start()
    assert [each.value for each in broker.expect_records(topic="payments", count=2)] == [b"one", b"two"]
    broker.expect_records(topic="payments", values=[b"one", b"two"])
    later.join()
    send(broker, "orders", b"a", b"b", b"c")
    broker.expect_records(topic="orders", values=[b"c", b"b", b"a"])
    text = failure_of(lambda: broker.expect_records(topic="payments", count=3, within_seconds=0.01))
    assert "it has 2 records, the last ones 0-0: b'one', 0-1: b'two'" in text
    text = failure_of(lambda: broker.expect_records(topic="paymnts", count=3, within_seconds=0.01))
    assert "there is no topic 'paymnts' (topics: orders, payments)" in text


@pytest.mark.parametrize("values", [[b"one"], [b"two", b"one"], [b"one", b"three"]])
def test_records_that_cannot_become_right_fail_at_once(broker: Broker, values: list[bytes]) -> None:
    send(broker, "payments", b"one", b"two")
    began = time.monotonic()
    failure_of(lambda: broker.expect_records(topic="payments", values=values, within_seconds=60))
    assert time.monotonic() - began < 30


def test_requests_are_waited_for_by_client_and_by_error(broker: Broker) -> None:
    broker.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    send(broker, "payments", b"one")
    [request] = broker.expect_request("Produce", client="writer", error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert request.client_id == "writer"
    assert len(broker.expect_request("Produce", count=2)) == 2
    text = failure_of(lambda: broker.expect_request("Produce", client="writer", count=3, within_seconds=0.01))
    assert "expected 3 Produce requests of client 'writer' within 0.01 s" in text
    assert "seen instead: 1 answered NOT_LEADER_OR_FOLLOWER by order, 1 answered without an error" in text
    with pytest.raises(ValueError, match="did you mean Fetch"):
        broker.expect_request("Fetsch")


def test_the_end_of_a_topic_is_waited_for(broker: Broker) -> None:
    send(broker, "payments", b"one", b"two")
    consumer = consumer_of(broker)
    consumer.commit(offsets=[TopicPartition("payments", 0, 1)], asynchronous=False)
    text = failure_of(lambda: broker.expect_no_lag(group="kitchen", topic="payments", within_seconds=0.01))
    assert "seen instead: it lags by 1 of payments-0" in text
    consumer.commit(offsets=[TopicPartition("payments", 0, 2)], asynchronous=False)
    broker.expect_no_lag(group="kitchen", topic="payments")
    broker.expect_no_lag(group="kitchen", topic="orders")
    consumer.close()


def test_a_rebalance_that_is_not_expected_says_why_it_began(broker: Broker) -> None:
    one = joined(broker, "one")
    with broker.expect_no_rebalance(group="kitchen"):
        commit(one, 1)

    def add_another() -> None:
        with broker.expect_no_rebalance(group="kitchen"):
            two = consumer_of(broker, "two")
            two.subscribe(["orders"])
            broker.until(lambda: two.poll(0.05) or broker.groups["kitchen"].state == "PreparingRebalance")
            two.close()

    text = failure_of(add_another)
    assert "expected no rebalance of group 'kitchen' in the block" in text
    assert "two" in text.partition("kohort groups explain")[2]
    with pytest.raises(ZeroDivisionError), broker.expect_no_rebalance(group="nobody"):
        raise ZeroDivisionError
    one.close()


def test_a_repeated_request_has_one_line(broker: Broker) -> None:
    for _ in range(3):
        send(broker, "payments", b"one")
    text = failure_of(lambda: broker.expect_records(topic="payments", count=9, within_seconds=0))
    last = text.partition("the last requests:\n")[2].partition("\n\n")[0].splitlines()
    assert len(last) <= 12
    assert any(line.strip().startswith("'writer' Produce") for line in last)


def test_an_async_broker_has_the_same_expectations_as_coroutines() -> None:
    async def main() -> None:
        async with Broker(topics=["payments"]) as broker:
            sending = asyncio.create_task(asyncio.to_thread(send_to, broker.bootstrap))
            [record] = await broker.expect_records(topic="payments", count=1)
            assert record.value == b"one"
            await broker.expect_request("Produce")
            with pytest.raises(NotInTime, match="expected topic 'payments' to have 2 records"):
                await broker.expect_records(topic="payments", count=2, within_seconds=0.01)
            with broker.expect_no_rebalance(group="kitchen"):
                await sending

    asyncio.run(main())


def send_to(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("payments", value=b"one")
