"""Snapshots: a prepared broker from which many tests start."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, TopicPartition

from kohort.client import Producer
from kohort.testing import Broker, BrokerFailed, Cluster, Snapshot

pytest_plugins = ["pytester"]


def send(bootstrap: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send("orders", value=value)


def commit(broker: Broker, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "kitchen", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def values(broker: Broker) -> list[bytes | None]:
    return [each.value for each in broker.records("orders")]


@pytest.fixture(scope="module")
def snapshot() -> Iterator[Snapshot]:
    with Broker(topics={"orders": 1}, num_partitions=4) as broker:
        send(broker.bootstrap, b"one", b"two")
        commit(broker, 1)
        broker.clock.advance(3600)
        yield broker.snapshot()


def test_a_copy_has_topics_records_groups_settings_and_time(snapshot: Snapshot) -> None:
    with Broker(snapshot=snapshot) as broker:
        assert values(broker) == [b"one", b"two"]
        broker.expect_commit(group="kitchen", topic="orders", offset=1)
        broker.create_topic("others")
        assert {each.partition for each in broker.records("orders")} == {0}
        assert broker._core.config.num_partitions == 4
        assert broker.clock.time() > time.time() + 3500
        assert broker.requests.apis == []


def test_copies_know_nothing_of_each_other(snapshot: Snapshot) -> None:
    with Broker(snapshot=snapshot) as one, Broker(snapshot=snapshot) as two:
        send(one.bootstrap, b"three")
        commit(one, 3)
        assert values(one) == [b"one", b"two", b"three"]
        assert values(two) == [b"one", b"two"]
        two.expect_commit(group="kitchen", topic="orders", offset=1)
        one.restart()
        assert values(one) == [b"one", b"two", b"three"]


def test_a_copy_may_have_other_settings_and_more_topics(snapshot: Snapshot) -> None:
    with Broker({"num.partitions": 2}, snapshot=snapshot, topics={"more": 1}, http=True) as broker:
        assert broker._core.config.num_partitions == 2
        assert broker.records("more") == ()
        assert values(broker) == [b"one", b"two"]
        assert broker.http


def test_the_broker_goes_on_and_its_snapshot_does_not_change() -> None:
    with Broker(topics={"orders": 1}) as broker:
        send(broker.bootstrap, b"one")
        snapshot = broker.snapshot()
        send(broker.bootstrap, b"two")
        assert values(broker) == [b"one", b"two"]
    with Broker(snapshot=snapshot) as copy:
        assert values(copy) == [b"one"]


def test_a_stopped_broker_has_a_snapshot_too() -> None:
    with Broker(topics={"orders": 1}) as broker:
        send(broker.bootstrap, b"one")
        broker.stop()
        snapshot = broker.snapshot()
    with Broker(snapshot=snapshot) as copy:
        assert values(copy) == [b"one"]
        again = copy.snapshot()
    with Broker(snapshot=again) as copy:
        assert values(copy) == [b"one"]


def test_under_load_a_snapshot_has_all_that_was_acknowledged_and_nothing_torn() -> None:
    over = threading.Event()
    acknowledged: list[int] = []

    def write(bootstrap: str) -> None:
        with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            number = 0
            while not over.is_set():
                producer.send("orders", value=b"%d:" % number + b"x" * 50_000).result(10)
                acknowledged.append(number)
                number += 1

    def read(bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "kitchen", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        while not over.is_set():
            if consumer.poll(0.01) is not None:
                consumer.commit(asynchronous=False)
        consumer.close()

    settings = {"log.segment.bytes": 1_048_576}
    with Broker(settings, topics={"orders": 1}) as broker, ThreadPoolExecutor() as threads:
        loads = [threads.submit(each, broker.bootstrap) for each in (write, read)]
        try:
            broker.until(lambda: len(acknowledged) > 50)
            for _ in range(5):
                check_copy(broker, len(acknowledged))
        finally:
            over.set()
        for each in loads:
            each.result(20)


def check_copy(broker: Broker, acknowledged: int) -> None:
    """Check that a copy has `acknowledged` records or more, without a gap, and no commit behind them."""
    with Broker(snapshot=broker.snapshot()) as copy:
        found = [int((each or b"").partition(b":")[0]) for each in values(copy)]
        assert found == list(range(len(found)))
        assert len(found) >= acknowledged
        committed = copy.groups["kitchen"].offsets if "kitchen" in copy.groups else {}
        assert committed.get(("orders", 0), 0) <= len(found)


def test_a_transaction_that_is_open_can_be_aborted_in_the_copy() -> None:
    with Broker(topics={"orders": 1}) as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap, transactional_id="copier")
        producer.begin_transaction()
        producer.send("orders", value=b"open").result(10)
        snapshot = broker.snapshot()
        producer.abort_transaction()
        producer.close()
    with Broker(snapshot=snapshot) as copy:
        assert values(copy) == []
        assert len(copy.records("orders", isolation_level="read_uncommitted")) == 1
        with Producer(bootstrap_servers=copy.bootstrap, transactional_id="copier") as other:
            other.begin_transaction()
            other.send("orders", value=b"mine").result(10)
            other.commit_transaction()
        assert values(copy) == [b"mine"]


def test_who_has_no_data_has_no_snapshot() -> None:
    with pytest.raises(BrokerFailed, match="was not started"):
        Broker().snapshot()
    with Cluster(brokers=1) as cluster, pytest.raises(BrokerFailed, match="a broker of a cluster"):
        cluster.brokers[1].snapshot()


def test_an_async_broker_has_snapshots(snapshot: Snapshot) -> None:
    async def main() -> None:
        async with Broker(snapshot=snapshot) as broker:
            again = await broker.snapshot()
        async with Broker(snapshot=again) as broker:
            assert len(broker.records("orders")) == 2

    trio.run(main)


def test_a_hundred_copies_are_started_in_parallel_runs_of_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from kohort.client import Producer
        from kohort.testing import Broker

        @pytest.fixture(scope="session")
        def prepared():
            with Broker(topics={"orders": 3}) as broker:
                with Producer(bootstrap_servers=broker.bootstrap) as producer:
                    producer.send("orders", value=b"one")
                return broker.snapshot()

        @pytest.mark.parametrize("number", range(100))
        def test_one_record(prepared, number):
            with Broker(snapshot=prepared) as broker:
                assert len(broker.records("orders")) == 1
                broker.create_topic(f"mine-{number}")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2")
    result.assert_outcomes(passed=100)


def test_nothing_is_left_behind_when_a_process_ends_with_a_snapshot() -> None:
    code = (
        "from kohort.testing import Broker\n"
        "with Broker(topics=['a']) as b: s = b.snapshot()\n"
        "c = Broker(snapshot=s).start(); print(c._core._folder)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    folder = done.stdout.strip()
    assert folder
    assert not Path(folder).exists()
