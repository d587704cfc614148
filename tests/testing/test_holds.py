"""Barriers: requests that a test holds, and what becomes of them whatever happens meanwhile."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer

from kohort.broker.transport.reactor import Reactor
from kohort.client import Producer
from kohort.testing import Broker, ErrorCode, NotInTime
from kohort.testing.faults import PausedRequest
from tests.interop.waiting import wait_until

LONG_SECONDS = 3_600.0
"""How long a stop would wait for the answers of requests. No test does."""
Run = Callable[..., object]
"""Runs a function in another thread."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        yield broker


def send(broker: Broker, value: bytes, client_id: str = "writer") -> None:
    with Producer(bootstrap_servers=broker.bootstrap, client_id=client_id) as producer:
        producer.send("orders", value=value)


def values(broker: Broker) -> list[bytes | None]:
    return [each.value for each in broker.records("orders")]


@pytest.fixture
def run() -> Iterator[Run]:
    with ThreadPoolExecutor(8) as threads:
        yield threads.submit


def test_a_held_request_is_not_executed_until_it_is_released(broker: Broker, run: Run) -> None:
    with broker.hold("Produce") as held:
        run(send, broker, b"one")
        [request] = held.wait(1)
        assert (request.api, request.fault, request.is_answered) == ("Produce", "held", False)
        assert values(broker) == []
        assert held.release() is request
        broker.until(lambda: values(broker) == [b"one"])
        assert len(held) == 0


def test_requests_are_released_one_by_one_in_their_order(broker: Broker, run: Run) -> None:
    with broker.hold("Produce") as held:
        for number in range(3):
            run(send, broker, b"%d" % number)
            held.wait(number + 1)
        held.release()
        broker.until(lambda: values(broker) == [b"0"])
        assert len(held.release_all()) == 2
        broker.until(lambda: values(broker) == [b"0", b"1", b"2"])


def test_the_end_of_the_block_releases_what_is_held_also_when_the_test_fails(
    broker: Broker, run: Run
) -> None:
    def fail() -> None:
        with broker.hold("Produce") as held:
            run(send, broker, b"one")
            held.wait(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    broker.until(lambda: values(broker) == [b"one"])
    send(broker, b"two")


def test_only_the_requests_of_one_client_are_held(broker: Broker, run: Run) -> None:
    with broker.hold("Produce", client="billing") as held:
        run(send, broker, b"held", "billing")
        held.wait(1)
        send(broker, b"free", "shipping")
        assert values(broker) == [b"free"]
    broker.until(lambda: values(broker) == [b"free", b"held"])


def test_what_follows_on_the_connection_waits_behind_the_held_request(broker: Broker) -> None:
    producer = ConfluentProducer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
    )
    producer.produce("orders", b"first")
    assert producer.flush(10) == 0
    with broker.hold("Produce") as held:
        for number in range(4):
            producer.produce("orders", b"%d" % number)
            producer.poll(0)
            broker.until(partial(has_requests, broker, "Produce", number + 2))
        assert len(held) == 1, "the other requests have not come to the hold"
        while len(values(broker)) < 5:
            held.wait(1)
            held.release()
        assert producer.flush(10) == 0
    assert values(broker) == [b"first", b"0", b"1", b"2", b"3"]
    assert broker.requests.of("Produce").errors == [], "nothing came out of order"


def has_requests(broker: Broker, api: str, count: int) -> bool:
    return len(broker.requests.of(api)) >= count


def test_a_request_is_held_by_each_of_two_overlapping_holds(broker: Broker, run: Run) -> None:
    with broker.hold("Produce") as every, broker.hold("Produce", client="billing") as billing:
        run(send, broker, b"one", "billing")
        every.wait(1)
        assert len(billing) == 0
        every.release()
        assert [each.client_id for each in billing.wait(1)] == ["billing"]
        assert values(broker) == []
        billing.release()
        broker.until(lambda: values(broker) == [b"one"])


def test_the_inner_of_two_holds_may_end_after_the_outer(broker: Broker, run: Run) -> None:
    one, two = broker.hold("Produce"), broker.hold("Produce")
    one.__enter__()
    two.__enter__()
    run(send, broker, b"one")
    one.wait(1)
    one.__exit__(None, None, None)
    two.wait(1)
    assert values(broker) == []
    two.__exit__(None, None, None)
    broker.until(lambda: values(broker) == [b"one"])


def test_a_client_that_disconnects_takes_its_request_with_it(broker: Broker) -> None:
    host, port = broker.bootstrap.split(":")
    frame = bytes.fromhex("0012 0000 00000007 0001 63".replace(" ", ""))  # ApiVersions.
    with broker.hold("ApiVersions") as held:
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall((len(frame).to_bytes(4, "big") + frame) * 3)
            held.wait(1)
        broker.until(lambda: len(held) == 0)
        with pytest.raises(LookupError, match=r"hold\('ApiVersions'\) holds no request"):
            held.release()
        assert len(held.release_all()) == 0
    send(broker, b"one")


def test_a_broker_stops_at_once_while_it_holds_requests(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reactor.drain, "__defaults__", (LONG_SECONDS, LONG_SECONDS))
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    with broker.hold("Produce") as held:
        producer.produce("orders", b"one")
        producer.poll(0)
        held.wait(1)
        stopping = threading.Thread(target=broker.stop, daemon=True)
        stopping.start()
        wait_until(lambda: not stopping.is_alive(), "it does not wait for the answers of held requests")
        assert len(held) == 0
        broker.start()
        held.wait(1)  # The producer sends it again, and the hold is still there.
        assert values(broker) == []
    assert producer.flush(20) == 0
    assert values(broker) == [b"one"]


def test_a_hold_may_end_behind_its_broker() -> None:
    broker = Broker(topics=["orders"]).start()
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    with broker.hold("Produce") as held:
        producer.produce("orders", b"one")
        producer.poll(0)
        held.wait(1)
        broker.close()
        assert len(held) == 0
    producer.purge()


def test_a_request_that_comes_while_the_block_ends_is_not_held(broker: Broker, run: Run) -> None:
    faults = broker._core.watch.faults
    with broker.hold("Produce") as held:
        is_coming, add = threading.Event(), held.add

        def add_late(asked: PausedRequest) -> None:
            is_coming.set()
            while faults._orders:  # Until the block ends.
                time.sleep(0.001)
            add(asked)

        held.add = add_late  # type: ignore[method-assign]
        run(send, broker, b"one")
        assert is_coming.wait(10)
    assert len(held) == 0
    broker.until(lambda: values(broker) == [b"one"])


def test_many_threads_release_while_clients_come_and_go(broker: Broker, run: Run) -> None:
    with broker.hold("Produce") as held:
        over = threading.Event()

        def release() -> None:
            while not over.wait(0.001):
                held.release_all()

        for _ in range(2):
            run(release)
        with ThreadPoolExecutor(4) as writers:
            list(writers.map(partial(send, broker), [b"%d" % number for number in range(40)]))
        over.set()
    assert len(values(broker)) == 40


def test_a_held_request_can_fail_afterwards(broker: Broker) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers", "log_level": 0})
    broker.fail_next("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with broker.hold("OffsetCommit") as held, ThreadPoolExecutor(1) as other:
        committing = other.submit(
            lambda: consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        )
        [request] = held.wait(1)
        held.release()
        with pytest.raises(KafkaException):
            committing.result(20)
    assert request.fault == "held, answered GROUP_AUTHORIZATION_FAILED by order"
    consumer.close()


def test_clear_faults_leaves_a_hold_to_its_block(broker: Broker, run: Run) -> None:
    with broker.hold("Produce") as held:
        broker.clear_faults()
        run(send, broker, b"one")
        held.wait(1)
    broker.until(lambda: values(broker) == [b"one"])


def test_an_unknown_api_is_refused_with_the_most_similar_name(broker: Broker) -> None:
    with pytest.raises(ValueError, match="did you mean Fetch"):
        broker.hold("Fetsh")


def test_a_wait_in_vain_says_what_the_broker_saw(broker: Broker) -> None:
    send(broker, b"one")
    with broker.hold("Fetch", client="billing") as held, pytest.raises(NotInTime) as raised:
        held.wait(2, timeout=0.01)
    assert "hold('Fetch', client='billing') holds 0 requests, not 2" in str(raised.value)
    assert "Produce x1" in str(raised.value)


def test_an_async_broker_waits_without_blocking_its_loop() -> None:
    async def main() -> None:
        async with Broker(topics=["orders"]) as broker:
            with broker.hold("Produce") as held:
                sending = asyncio.create_task(asyncio.to_thread(send_to, broker.bootstrap))
                await held.wait(1)
                assert broker.records("orders") == ()
                held.release()
                await sending
            assert len(broker.records("orders")) == 1

    asyncio.run(main())


def send_to(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("orders", value=b"one")
