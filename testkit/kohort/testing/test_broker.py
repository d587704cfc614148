"""The kit without Kafka's clients: how a broker starts and ends, what it keeps, and what it tells."""

import asyncio
import logging
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from kohort.broker.broker import Broker as RealBroker
from kohort.broker.config import ConfigError
from kohort.client import Admin, Producer
from kohort.protocol.errors import ApiError
from kohort.testing import AsyncBroker, Broker, BrokerFailed, ErrorCode, NotInTime
from kohort.testing.core import Core
from kohort.testing.groups import groups_of, records_of

DOZENS = 24


def produce(broker: Broker, topic: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for value in values:
            producer.send(topic, value=value)


def test_a_client_writes_and_the_test_reads_what_is_in_the_log() -> None:
    with Broker(topics={"orders": 1}) as broker:
        produce(broker, "orders", b"one", b"two")
        assert [(each.partition, each.offset, each.value) for each in broker.records("orders")] == [
            (0, 0, b"one"),
            (0, 1, b"two"),
        ]
        with pytest.raises(KeyError, match="payments"):
            broker.records("payments")


def test_an_application_that_knows_one_address_alone_finds_it_there() -> None:
    with Broker() as other:
        port = other._core.kafka.port
    broker = Broker(port=port, node_id=0, topics=["orders"])
    with pytest.raises(BrokerFailed, match="was not started"):
        _ = broker.bootstrap
    with broker:
        assert broker.bootstrap == f"127.0.0.1:{port}"
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert [(each.node_id, each.port) for each in admin.describe_cluster().nodes] == [(0, port)]
        broker.restart()
        assert broker.bootstrap == f"127.0.0.1:{port}"
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            Broker(port=port).start()
    with pytest.raises(ConfigError, match="not 70000"):
        Broker(port=70_000)


def test_dozens_live_at_once_each_with_its_own_data() -> None:
    brokers = [Broker(topics=["orders"]).start() for _ in range(DOZENS)]
    try:
        assert len({each.bootstrap for each in brokers}) == DOZENS
        produce(brokers[3], "orders", b"only here")
        assert [len(each.records("orders")) for each in brokers] == [
            int(place == 3) for place in range(DOZENS)
        ]
    finally:
        for each in brokers:
            each.close()


def test_nothing_is_left_behind() -> None:
    threads = set(threading.enumerate())
    with Broker(topics=["orders"]) as broker:
        produce(broker, "orders", b"one")
        folder = broker._core._folder
        assert folder is not None
        assert folder.exists()
    assert not folder.exists()
    assert [each for each in set(threading.enumerate()) - threads if each.name == "kohort-broker"] == []


def test_a_setting_is_given_by_either_form_of_its_name() -> None:
    with Broker({"num.partitions": 3}) as broker:
        assert broker.create_topic("orders") == "orders"
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert len(admin.describe_topics("orders")["orders"].partitions) == 3
    by_keyword: dict[str, Any] = {"num.partitions": 2}
    with Broker(message_max_bytes=10_000, **by_keyword) as broker:
        broker.create_topic("orders", retention_ms=60_000)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert len(admin.describe_topics("orders")["orders"].partitions) == 2


def test_a_wrong_setting_stops_the_start_with_what_would_be_right() -> None:
    with pytest.raises(ConfigError, match=r"num\.partition .*did you mean num\.partitions"):
        Broker(num_partition=4)
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Broker(num_partitions="many")


def test_a_topic_that_cannot_be_stops_the_start_and_leaves_nothing() -> None:
    broker = Broker(topics=["no good name"])
    with pytest.raises(ApiError) as raised:
        broker.start()
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(BrokerFailed, match="closed"):
        broker.start()


def test_it_returns_at_the_same_address_with_the_same_data() -> None:
    with Broker(topics=["orders"]) as broker:
        produce(broker, "orders", b"one")
        bootstrap = broker.bootstrap
        broker.stop()
        with pytest.raises(BrokerFailed, match="is stopped"):
            broker.records("orders")
        assert "is stopped" in broker.report()
        broker.start()
        assert broker.bootstrap == bootstrap
        assert [each.value for each in broker.records("orders")] == [b"one"]
        produce(broker, "orders", b"two")
        broker.restart()
        assert [each.value for each in broker.records("orders")] == [b"one", b"two"]


def test_before_the_start_there_is_no_address_and_after_the_end_no_broker() -> None:
    broker = Broker()
    with pytest.raises(BrokerFailed, match="not started"):
        _ = broker.bootstrap
    with pytest.raises(BrokerFailed, match="was not started"):
        broker.records("orders")
    with broker:
        pass
    with pytest.raises(BrokerFailed, match="was closed"):
        broker.records("orders")


def test_what_ends_the_brokers_thread_is_raised_in_the_test() -> None:
    def fail() -> None:
        raise ZeroDivisionError("a bug in the broker")

    broker = Broker().start()
    run = broker._core.run
    run._token.run_sync_soon(run._nursery.start_soon, trio.to_thread.run_sync, fail)
    run._thread.join(10)
    with pytest.raises(BrokerFailed) as raised:
        broker.records("orders")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert "a bug in the broker" in broker.report()
    with pytest.raises(ZeroDivisionError, match="a bug in the broker"):
        broker.close()


def test_http_is_served_to_who_asks_for_it() -> None:
    with (
        Broker(http=True) as broker,
        urllib.request.urlopen(f"{broker.http}/health/live", timeout=20) as answer,
    ):
        assert answer.status == 200
    with Broker() as broker, pytest.raises(BrokerFailed, match="http=True"):
        _ = broker.http


def test_until_returns_what_the_condition_gives() -> None:
    with Broker(topics=["orders"]) as broker:
        writer = threading.Thread(target=produce, args=(broker, "orders", b"one"))
        writer.start()
        found = broker.until(lambda: broker.records("orders")[0])
        assert found.value == b"one"
        writer.join()


def test_until_says_what_it_waited_for_and_what_the_broker_saw() -> None:
    with Broker(topics=["orders"]) as broker:
        produce(broker, "orders", b"one")
        with pytest.raises(NotInTime) as raised:
            broker.until(lambda: broker.groups["readers"], timeout=0.05)
    text = str(raised.value)
    assert "not within 0.05 s" in text
    assert "KeyError: 'readers'" in text
    assert "Produce x1" in text
    assert "topic 'orders': 1 records" in text


def test_an_error_that_ends_the_block_says_what_the_broker_saw() -> None:
    def fail_behind_a_record() -> None:
        with Broker(topics=["orders"]) as broker:
            produce(broker, "orders", b"one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        fail_behind_a_record()
    [note] = raised.value.__notes__
    assert "Produce x1" in note
    assert "topic 'orders': 1 records" in note


def test_who_asks_a_broker_that_has_ended_is_told_so() -> None:
    async def no_records(broker: RealBroker) -> object:
        return await records_of(broker, "orders", committed=False)

    with Broker(topics=["orders"]) as broker:
        run = broker._core.run
        broker.stop()
        with pytest.raises(BrokerFailed, match="has ended"):
            run.call(groups_of)
        with pytest.raises(BrokerFailed, match="has ended"):
            run.call_async(no_records)
        with pytest.raises(BrokerFailed, match="has ended"):
            run.run_due_timers()


def test_who_asks_while_it_ends_gets_an_answer_or_is_told_so() -> None:
    heard: list[object] = []

    def ask(broker: Broker) -> None:
        try:
            while True:
                assert broker.records("orders") == ()
                assert broker.groups == {}
        except BrokerFailed as error:
            heard.append(error)

    for _ in range(20):
        with Broker(topics=["orders"]) as broker:
            asking = threading.Thread(target=ask, args=(broker,))
            asking.start()
        asking.join(20)
        assert not asking.is_alive()
    assert len(heard) == 20


def test_the_brokers_log_stays_out_of_the_terminal_and_the_users_does_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Broker(topics=["orders"]) as broker:
        produce(broker, "orders", b"one")
        structlog.get_logger("users.own").info("an order came")
        logging.getLogger("users.own").info("nothing of this")
    printed = capfd.readouterr()
    assert "an order came" in printed.out
    assert [line for line in printed.out.splitlines() if "an order came" not in line] == []
    assert printed.err == ""


async def test_async_with_on_trio() -> None:
    async with Broker(topics=["orders"]) as broker:
        assert isinstance(broker, AsyncBroker)
        await trio.to_thread.run_sync(write_one, broker.bootstrap)
        record = await broker.until(lambda: broker.records("orders")[0])
        assert record.value == b"one"
        await broker.restart()
        assert len(broker.records("orders")) == 1


def test_async_with_on_asyncio_holds_nothing_up() -> None:
    async def main() -> None:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.ensure_future(count_turns())
        async with Broker(topics=["orders"]) as broker:
            assert turns > 1  # The start went on beside the loop.
            await broker.create_topic("payments", 2)
            await asyncio.to_thread(write_one, broker.bootstrap)

            async def count() -> int:
                return len(broker.records("orders"))

            assert await broker.until(count) == 1
            with pytest.raises(NotInTime):
                await broker.until(lambda: False, timeout=0.01)
        counting.cancel()

    asyncio.run(main())


def write_one(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("orders", value=b"one")


def test_a_broker_that_was_left_open_goes_with_the_process() -> None:
    code = "from kohort.testing import Broker; b = Broker().start(); print(b._core._folder)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip()
    assert not Path(done.stdout.strip()).exists()


def test_a_port_that_is_taken_for_a_moment_is_waited_for() -> None:
    with Broker() as broker:
        core: Core = broker._core
        broker.stop()
        with Broker() as other:
            core.kafka, kept = other._core.kafka, core.kafka
            releasing = threading.Timer(0.1, other.stop)
            releasing.start()
            broker.start()
            releasing.join()
            assert broker.bootstrap != str(kept)
