"""Clients that share one cluster connection: what they have in common, and what one does not do to others."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import pytest

from kohort.client import (
    Admin,
    ClosedError,
    ClusterConnection,
    ConfigurationError,
    Consumer,
    Delivery,
    NewTopic,
    Producer,
    TopicPartition,
    WouldBlockError,
    aio,
)
from tests.client.steps import LONG_MS
from tests.interop.waiting import wait_until

MakeTopic = Callable[[int], str]
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


@pytest.fixture
def threads() -> Callable[[], list[str]]:
    """Return the names of the client's threads that were not there before the test."""
    before = set(threading.enumerate())
    return lambda: sorted(
        each.name for each in threading.enumerate() if each.name.startswith("kohort-") and each not in before
    )


def total(metrics: object, name: str) -> float:
    assert isinstance(metrics, dict)
    return sum(value for each, value in metrics.items() if each.name == name)


def test_clients_of_a_connection_have_one_thread_and_one_main_connection(
    bootstrap: str, topic: MakeTopic, group: str, threads: Callable[[], list[str]]
) -> None:
    name = topic(2)
    with ClusterConnection(bootstrap_servers=bootstrap) as cluster:
        with (
            Producer(cluster=cluster) as producer,
            Admin(cluster=cluster) as admin,
            Consumer(name, group_id=group, cluster=cluster, auto_offset_reset="earliest") as consumer,
            Consumer(name, group_id=f"{group}-2", cluster=cluster, auto_offset_reset="earliest") as other,
        ):
            assert threads() == ["kohort-cluster"]
            for number in range(50):
                producer.send(name, b"%d" % number)
            producer.flush()
            for each in (consumer, other):
                seen: list[bytes | None] = []
                while len(seen) < 50:
                    seen += [record.value for record in each.poll(timeout_ms=5_000)]
                each.commit()
            assert sum(each.offset for each in admin.list_group_offsets(group).values()) == 50
            found = cluster.metrics()
            assert total(found, "connection-count") == 1  # To the one broker.
            assert total(found, "response-total") > 5
            assert total(producer.metrics(), "connection-count") == 0
            assert total(consumer.metrics(), "connection-count") == 2  # Its fetches and its membership.
        assert cluster._loop.is_running
        assert not cluster._loop._guests
    assert threads() == []


def test_a_waiting_consumer_does_not_delay_others(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    with (
        ClusterConnection(bootstrap_servers=bootstrap) as cluster,
        Admin(cluster=cluster) as admin,
        Consumer(cluster=cluster, fetch_max_wait_ms=LONG_MS, fetch_min_bytes=1_000_000) as consumer,
    ):
        consumer.assign(TopicPartition(name, 0))
        consumer.poll(timeout_ms=500)
        for _ in range(20):
            admin.list_topics()  # In its time, which is less than that of the fetch.


def test_closing_one_client_keeps_the_others(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    with ClusterConnection(bootstrap_servers=bootstrap) as cluster:
        first = Producer(cluster=cluster)
        with Producer(cluster=cluster) as second:
            first.send(name, b"one")
            first.close()
            with pytest.raises(ClosedError):
                first.send(name, b"two")
            assert second.send(name, b"three").result(10).offset == 1


def test_closing_the_connection_closes_its_clients(
    bootstrap: str, topic: MakeTopic, threads: Callable[[], list[str]]
) -> None:
    name = topic(1)
    cluster = ClusterConnection(bootstrap_servers=bootstrap)
    admin, consumer = Admin(cluster=cluster), Consumer(cluster=cluster)
    consumer.assign(TopicPartition(name, 0))
    failed: list[BaseException] = []

    def poll() -> None:
        try:
            while True:
                consumer.poll(timeout_ms=60_000)
        except ClosedError as error:
            failed.append(error)

    polling = threading.Thread(target=poll)
    polling.start()
    admin.list_topics()
    cluster.close()
    polling.join(10)
    assert len(failed) == 1
    for late in (admin.list_topics, lambda: Producer(cluster=cluster)):
        with pytest.raises(ClosedError, match="closed"):
            late()
    admin.close()
    consumer.close()
    assert threads() == []


def test_a_callback_cannot_wait_for_its_own_thread(bootstrap: str, topic: MakeTopic) -> None:
    name, errors = topic(1), list[BaseException]()
    with (
        ClusterConnection(bootstrap_servers=bootstrap) as cluster,
        Admin(cluster=cluster) as admin,
        Producer(cluster=cluster) as producer,
    ):

        def ask(delivery: Delivery) -> None:
            try:
                admin.list_topics()
            except WouldBlockError as error:
                errors.append(error)

        producer.send(name, b"one", on_delivery=ask)
        wait_until(lambda: bool(errors), "the callback was told")
        assert "its own thread" in str(errors[0]) or "client's own thread" in str(errors[0])


@pytest.mark.parametrize(
    "options", [{"bootstrap_servers": "127.0.0.1:1"}, {"metadata_recovery_strategy": "none"}]
)
def test_settings_of_the_connection_are_refused_by_its_clients(
    bootstrap: str, options: dict[str, str]
) -> None:
    with ClusterConnection(bootstrap_servers=bootstrap, request_timeout_ms=7_000) as cluster:
        for kind in (Admin, Consumer, Producer):
            with pytest.raises(ConfigurationError, match=f"{next(iter(options))} belongs to the cluster"):
                kind(cluster=cluster, **options)
        with Producer(cluster=cluster, request_timeout_ms=8_000) as own, Producer(cluster=cluster) as same:
            assert own._session.config.request_timeout_ms == 8_000
            assert same._session.config.request_timeout_ms == 7_000
            assert same._session.config.bootstrap_servers == bootstrap
    with pytest.raises(ConfigurationError, match="unknown setting 'group_id'"):
        ClusterConnection(group_id="g")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="by name"):
        ClusterConnection(bootstrap)  # type: ignore[arg-type]


@both_loops
def test_tasks_share_as_threads_do(bootstrap: str, topic: MakeTopic, group: str, loop: str) -> None:
    name = topic(1)

    async def main() -> None:
        async with aio.ClusterConnection(bootstrap_servers=bootstrap) as cluster:
            async with (
                aio.Producer(cluster=cluster) as producer,
                aio.Admin(cluster=cluster) as admin,
                aio.Consumer(name, group_id=group, cluster=cluster, auto_offset_reset="earliest") as consumer,
            ):
                await (await producer.send(name, b"one"))
                assert [each.value for each in await consumer.poll(timeout_ms=10_000)] == [b"one"]
                await admin.create_topics(NewTopic(f"{name}-2", partitions=1))
                assert total(cluster.metrics(), "connection-count") == 1
            async with aio.Admin(cluster=cluster) as admin:
                assert name in await admin.list_topics()

    async def limited() -> None:
        with anyio.fail_after(30):
            await main()

    anyio.run(limited, backend=loop)
