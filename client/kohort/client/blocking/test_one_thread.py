"""Two threads in one consumer at once: who is told, and who may. No broker is there."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from kohort.client import ClosedError, ConcurrentAccessError, Consumer, TopicPartition, WakeupError
from kohort.client.blocking.one_thread import OneThread, by_one_thread
from tests.interop.waiting import wait_until

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    """A consumer that will never get a record."""
    with Consumer(bootstrap_servers="127.0.0.1:1", group_id="g") as consumer:
        consumer.assign(PARTITION)
        yield consumer


@contextmanager
def inside(consumer: Consumer, call: Callable[[], object]) -> Iterator[Future[object]]:
    """Let another thread, "the other", be in a call of the consumer until the block ends, or it is woken."""

    def run() -> object:
        threading.current_thread().name = "the other"
        return call()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run)
        wait_until(lambda: consumer._inside, "the other is inside")
        try:
            yield done
        finally:
            consumer.wakeup()
            assert isinstance(done.exception(20), WakeupError)


REFUSED: dict[str, Callable[[Consumer], object]] = {
    "poll": lambda consumer: consumer.poll(timeout_ms=0),
    "next": next,
    "commit": lambda consumer: consumer.commit(),
    "commit_async": lambda consumer: consumer.commit_async(),
    "seek": lambda consumer: consumer.seek(PARTITION, 0),
    "pause": lambda consumer: consumer.pause(PARTITION),
    "assign": lambda consumer: consumer.assign(),
    "subscribe": lambda consumer: consumer.subscribe("t"),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "position": lambda consumer: consumer.position(PARTITION),
    "close": lambda consumer: consumer.close(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_during_a_poll_of_another_thread_names_that_thread(consumer: Consumer, name: str) -> None:
    with (
        inside(consumer, consumer.poll),
        pytest.raises(ConcurrentAccessError, match=r"'the other' is in a call .* wakeup\(\) ends a poll"),
    ):
        REFUSED[name](consumer)


def test_iterating_over_the_records_counts_as_a_call(consumer: Consumer) -> None:
    with inside(consumer, lambda: next(consumer)), pytest.raises(ConcurrentAccessError):
        consumer.poll(timeout_ms=0)


def test_reading_properties_is_allowed_in_every_thread(consumer: Consumer) -> None:
    with inside(consumer, consumer.poll):
        assert consumer.assignment() == (PARTITION,)
        assert (consumer.subscription(), consumer.paused()) == ((), ())
        assert consumer.current_lag(PARTITION) is None
        assert consumer.metrics()


def test_the_polling_thread_is_not_disturbed_and_another_can_follow(consumer: Consumer) -> None:
    with inside(consumer, consumer.poll) as done:
        with pytest.raises(ConcurrentAccessError):
            consumer.pause(PARTITION)
        assert not done.done()
    assert consumer.poll(timeout_ms=0) == []
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(consumer.poll, timeout_ms=0).result() == []


def test_a_closed_consumer_raises_closed_error_in_every_thread(consumer: Consumer) -> None:
    consumer.close()
    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(consumer.poll).exception(), ClosedError)
        assert pool.submit(consumer.close).exception() is None


class Doors(OneThread):
    """Rooms that lead into each other."""

    @by_one_thread
    def outer(self, fails: bool) -> int:
        """Go through both."""
        return self.inner(fails=fails) + self.inner(fails=False)

    @by_one_thread
    def inner(self, *, fails: bool) -> int:
        """Be in both."""
        assert self._inside == threading.get_ident()
        if fails:
            raise ZeroDivisionError
        return 1


def test_a_thread_can_enter_again_and_leaves_when_its_first_call_ends() -> None:
    doors = Doors()
    assert (doors.outer(False), doors._inside) == (2, 0)
    with pytest.raises(ZeroDivisionError):
        doors.outer(True)
    assert doors._inside == 0
    assert (Doors.outer.__name__, Doors.outer.__doc__) == ("outer", "Go through both.")
