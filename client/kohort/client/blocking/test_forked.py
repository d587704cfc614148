"""Clients in a process that was forked off: they have no thread there, and say so instead of waiting."""

import os
import signal
import traceback
from collections.abc import Callable

import pytest

from kohort.client import Admin, ClosedError, ClusterConnection, Consumer, Producer, TopicPartition
from tests.interop.waiting import wait_until

NOWHERE = "127.0.0.1:1"
SAYS_SO = "made in another process"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_child(check: Callable[[], None]) -> None:
    """Run a check in a fork of this process, which has ten seconds for it."""
    child = os.fork()
    if not child:
        try:
            check()
        except BaseException:  # noqa: BLE001 - The child ends here, with a word of it.
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    ended: list[int] = []

    def has_ended() -> bool:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(found)

    try:
        wait_until(has_ended, "the child has ended")
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert ended == [0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_consumer() -> None:
    partition = TopicPartition("t", 0)
    with Consumer(bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign(partition)

        def check() -> None:
            for call in (
                lambda: consumer.poll(timeout_ms=100),
                lambda: next(consumer),
                lambda: consumer.seek(partition, 0),
                consumer.commit,
            ):
                with pytest.raises(ClosedError, match=SAYS_SO):
                    call()
            consumer.wakeup()
            assert consumer.assignment() == (partition,)
            consumer.close()

        in_child(check)
        assert consumer.poll(timeout_ms=10) == [], "here it goes on"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_producer_even_if_another_thread_was_sending() -> None:
    called: list[object] = []
    with Producer(bootstrap_servers=NOWHERE, request_timeout_ms=100, delivery_timeout_ms=5_000) as producer:
        accumulator = producer._session.accumulator
        accumulator.learn("t", 1)
        delivery = producer.send("t", b"", on_delivery=called.append)

        def check() -> None:
            for call in (
                lambda: producer.send("t", b""),
                lambda: producer.send("t", bytearray(b"")),
                producer.flush,
                delivery.result,
            ):
                with pytest.raises(ClosedError, match=SAYS_SO):
                    call()
            producer.close()
            assert called == [], "it is the parent's to be told"

        with accumulator._lock:
            in_child(check)
        producer._session.accumulator.refuse()
        assert not delivery.is_done, "here it is still to be written"
        producer._loop.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_admin_client() -> None:
    with Admin(bootstrap_servers=NOWHERE) as admin:

        def check() -> None:
            with pytest.raises(ClosedError, match=SAYS_SO):
                admin.list_topics()
            admin.close()

        in_child(check)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_client_created_in_the_child_works() -> None:
    with Consumer(bootstrap_servers=NOWHERE) as consumer:
        consumer.assign(TopicPartition("t", 0))

        def check() -> None:
            with Consumer(bootstrap_servers=NOWHERE) as another:
                another.assign(TopicPartition("t", 0))
                assert another.poll(timeout_ms=10) == []

        in_child(check)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_clients_of_a_shared_connection() -> None:
    with ClusterConnection(bootstrap_servers=NOWHERE) as cluster, Admin(cluster=cluster) as admin:

        def check() -> None:
            with pytest.raises(ClosedError, match=SAYS_SO):
                admin.list_topics()
            with pytest.raises(ClosedError, match=SAYS_SO):
                Producer(cluster=cluster)
            admin.close()
            cluster.close()

        in_child(check)
