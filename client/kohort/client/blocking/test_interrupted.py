"""Calls of a blocking client that a signal interrupts. No broker is there."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kohort.client import (
    Admin,
    ClosedError,
    CommitFailedError,
    Consumer,
    KohortError,
    Producer,
    RequestTimeoutError,
    TopicPartition,
    WouldBlockError,
    accumulator,
)
from kohort.client.fetched_chunk import Chunk
from kohort.client.positions import NOT_COMMITTED
from kohort.protocol.records import build_batch

NOWHERE = "127.0.0.1:1"
PARTITION = TopicPartition("t", 0)


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    """A consumer that gets what a test puts into its buffer."""
    with Consumer(bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign(PARTITION)
        consumer.seek(PARTITION, 0)
        yield consumer


def receive(consumer: Consumer, *values: bytes) -> None:
    """Let these be fetched, offsets from 0 on."""
    state = consumer._session.positions.get(PARTITION)
    consumer._buffer.add(Chunk(state, build_batch([(1_000, None, each, ()) for each in values])))


def test_a_poll_that_is_interrupted_loses_nothing(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = consumer._loop.call

    def interrupted(function: Callable[..., object], *args: object) -> None:
        receive(consumer, b"a", b"b")
        call(function, *args)  # type: ignore[arg-type]  # Whatever a poll waits for.
        raise KeyboardInterrupt

    monkeypatch.setattr(consumer._loop, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll()
    monkeypatch.undo()
    assert [each.offset for each in consumer.poll(timeout_ms=0)] == [0, 1]


def test_records_belong_to_the_topic_they_were_read_from(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop notices at that moment that the topic was made anew."""
    take = consumer._session.take_ready

    def take_and_begin_anew(most: int) -> list[Any]:
        found = take(most)
        consumer._session.positions.get(PARTITION).seek_to(NOT_COMMITTED)
        consumer._session.commits.assigned([PARTITION])
        return found

    receive(consumer, b"a")
    monkeypatch.setattr(consumer._session, "take_ready", take_and_begin_anew)
    records = consumer.poll(timeout_ms=0)
    assert len(records) == 1
    assert records.assignment_number < consumer._session.commits.assignments.number
    with pytest.raises(CommitFailedError, match="t-0 were not committed"):
        consumer.commit(records)


@contextmanager
def alarm(handler: Callable[[], object], within_s: float = 0.3) -> Iterator[None]:
    """Let a signal handler of this thread run soon; whatever it interrupts has ten seconds to end."""
    began_s = time.monotonic()
    before = signal.signal(signal.SIGALRM, lambda number, frame: handler())
    signal.setitimer(signal.ITIMER_REAL, within_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert within_s <= time.monotonic() - began_s < 10


def test_a_signal_handler_can_close_a_polling_consumer(consumer: Consumer) -> None:
    with alarm(consumer.close), pytest.raises(ClosedError, match="while this call was under way"):
        consumer.poll()
    with pytest.raises(ClosedError, match=r"^this client is closed$"):
        consumer.poll()


def test_a_signal_handler_can_close_a_closing_consumer(consumer: Consumer) -> None:
    with alarm(consumer.close, 0.001):
        while consumer._loop.is_running:
            consumer.close()
            time.sleep(0.002)


def test_a_signal_handler_can_close_a_waiting_admin_client() -> None:
    with Admin(bootstrap_servers=NOWHERE) as admin, alarm(admin.close), pytest.raises(ClosedError):
        admin.list_topics()


def test_a_signal_handler_can_close_a_producer_during_send() -> None:
    with Producer(bootstrap_servers=NOWHERE) as producer, alarm(producer.close), pytest.raises(ClosedError):
        producer.send("t", b"")


@pytest.fixture
def producer() -> Iterator[Producer]:
    """One whose topic is known; what it can't write it gives up soon."""
    made = Producer(bootstrap_servers=NOWHERE, linger_ms=0, request_timeout_ms=100, delivery_timeout_ms=300)
    made._session.accumulator.learn("t", 1)
    yield made
    made.close()


def test_a_signal_handler_can_flush_while_a_result_is_awaited(producer: Producer) -> None:
    delivery = producer.send("t", b"")
    with alarm(producer.flush, 0.1), pytest.raises(RequestTimeoutError):
        delivery.result()


def in_the_midst_of_a_send(
    producer: Producer, monkeypatch: pytest.MonkeyPatch, handler: Callable[[], object]
) -> None:
    """Let the handler run where the accumulator's lock is held by this very thread."""
    held: list[bool] = []

    def now_ms() -> int:
        held.append(producer._session.accumulator._lock.locked())
        monkeypatch.undo()
        handler()
        return 1

    monkeypatch.setattr(accumulator, "monotonic_ms", now_ms)
    producer.send("t", b"")
    assert held == [True]


def test_a_close_in_the_midst_of_a_send_is_done_when_that_has_ended(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_midst_of_a_send(producer, monkeypatch, producer.close)
    assert producer._loop.is_running
    with pytest.raises(KohortError):
        producer.send("t", b"")
    assert not producer._loop.is_running


def test_a_flush_in_the_midst_of_a_send_is_refused(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[WouldBlockError] = []

    def flush() -> None:
        with pytest.raises(WouldBlockError) as caught:
            producer.flush()
        refused.append(caught.value)

    in_the_midst_of_a_send(producer, monkeypatch, flush)
    assert "signal handler" in str(refused[0])


def test_a_result_is_awaited_for_seconds_as_every_future_in_python(producer: Producer) -> None:
    delivery = producer.send("t", b"")
    began_s = time.monotonic()
    with pytest.raises(RequestTimeoutError, match=r"0\.1 s"):
        delivery.result(0.1)
    with pytest.raises(RequestTimeoutError, match=r"0\.1 s"):
        delivery.result(timeout_ms=100)
    assert time.monotonic() - began_s >= 0.2
