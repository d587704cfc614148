"""The way into the loop from other threads."""

import select
import socket
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

from kohort.broker.runtime.loop import Mailbox

THREADS = 4
ACTIONS_EACH = 2_000


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox(socket.socketpair())
    yield made
    made.close()


def is_readable(mailbox: Mailbox) -> bool:
    looking = select.poll()
    looking.register(mailbox.fileno(), select.POLLIN)
    return bool(looking.poll(0))


def test_posted_calls_wake_the_loop_and_run_in_order(mailbox: Mailbox) -> None:
    done: list[int] = []
    for number in range(3):
        mailbox.post(lambda number=number: done.append(number))  # type: ignore[misc]
    assert is_readable(mailbox)
    mailbox.drain()
    assert not is_readable(mailbox)
    while mailbox.actions:
        mailbox.actions.popleft()()
    assert done == [0, 1, 2]


def test_a_running_loop_is_not_woken(mailbox: Mailbox) -> None:
    mailbox.is_in_round = True
    mailbox.wake()
    assert not is_readable(mailbox)
    mailbox.is_in_round = False
    mailbox.wake()
    assert is_readable(mailbox)


def test_unread_wake_signals_do_not_block(mailbox: Mailbox) -> None:
    for _ in range(20_000):
        mailbox.post(lambda: None)
    assert is_readable(mailbox)


def test_threads_that_still_post_while_the_mailbox_closes_notice_nothing() -> None:
    """A flush that ends after the loop has: it signals nobody, and above all no other's descriptor."""
    for _ in range(5):
        mailbox = Mailbox(socket.socketpair())
        failures: list[BaseException] = []
        together = Barrier(THREADS + 1)

        def post(
            mailbox: Mailbox = mailbox,
            failures: list[BaseException] = failures,
            together: Barrier = together,
        ) -> None:
            together.wait()
            try:
                for _ in range(ACTIONS_EACH):
                    mailbox.post(lambda: None)
            except BaseException as error:  # noqa: BLE001  # Whatever a thread meets is to be seen here.
                failures.append(error)

        threads = [Thread(target=post) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        together.wait()
        mailbox.close()
        for thread in threads:
            thread.join()
        assert failures == []
