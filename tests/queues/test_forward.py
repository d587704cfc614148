"""Records pushed to a service over HTTP, on kohort and on Apache Kafka: what each answer does with them."""

from __future__ import annotations

import os
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme

from kohort.client import Admin, NewTopic, ResourceType, TopicPartition
from kohort.client.aio import Consumer, Producer
from kohort.client.config import ConsumerOptions
from kohort.client.errors import KohortError
from kohort.client.workers import Order
from kohort.queues.forward import Destination, Forwarder, open_service, purge, replay, replaying
from kohort.queues.forward.routing import Condition, Route
from tests.queues.service import HttpDouble, http_double
from tests.queues.test_kmq import LARGEST_BYTES, read_all

WITHIN_S = 30


@pytest.fixture
def service() -> Iterator[HttpDouble]:
    with http_double() as server:
        yield server


Make = Callable[..., Destination]


@pytest.fixture
def make(topic: str, service: HttpDouble) -> Make:
    """A destination of the topic at the service."""

    def destination(**settings: object) -> Destination:
        given = {"retry_delays_ms": (50, 200), "url": service.url, **settings}
        return Destination(name=f"d-{uuid.uuid4().hex[:6]}", topic=topic, **given)  # type: ignore[arg-type]

    return destination


async def send(topic: str, options: ConsumerOptions, *values: str, key: bytes | None = None) -> None:
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for value in values:
            headers = [("traceparent", b"00-abc"), ("Colour", b"red"), ("raw", b"\xff")]
            await producer.send(topic, value.encode(), key=key, partition=0, headers=headers)


@asynccontextmanager
async def forwarding(destination: Destination, options: ConsumerOptions) -> AsyncIterator[Forwarder]:
    async with open_service(destination) as service, trio.open_nursery() as nursery:
        forwarder = Forwarder(destination, service, **options)
        nursery.start_soon(forwarder.run)
        yield forwarder
        forwarder.stop()


async def wait_for(condition: Callable[[], object]) -> None:
    with trio.fail_after(WITHIN_S):
        while not condition():
            await trio.sleep(0.02)


def committed(destination: Destination, options: ConsumerOptions, topic: str) -> int:
    with Admin(bootstrap_servers=options["bootstrap_servers"]) as admin:
        found = admin.list_group_offsets(destination.group_id).get(TopicPartition(topic, 0))
    return 0 if found is None else found.offset


async def test_each_answer_decides_what_becomes_of_its_record(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make(attempts_max=3)
    words = ["ok", "fail 1", "status 503", "status 400", "action Stash", "action Skip", "fail 1,delay 0"]
    await send(topic, options, *words, key=b"k")
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["dead"] == 2 and forwarder.counts["done"] == 3)
    assert service.times == {
        "ok": 1,
        "fail 1": 2,
        "status 503": 3,
        "status 400": 1,
        "action Stash": 1,
        "action Skip": 1,
        "fail 1,delay 0": 2,
    }
    dead = await read_all(destination.dead_letters_topic, options)
    assert sorted(each.value or b"" for each in dead) == [b"status 400", b"status 503"]
    assert {each.value: each.header("kohort-forward-of") for each in dead} == {
        b"status 400": f"{topic}/0/3".encode(),
        b"status 503": f"{topic}/0/2".encode(),
    }
    (stashed,) = await read_all(destination.stash_topic, options)
    assert (stashed.key, stashed.header("Colour"), stashed.header("raw")) == (b"k", b"red", b"\xff")
    assert committed(destination, options, topic) == len(words)


async def test_topics_that_are_new_are_read_by_a_static_member_that_returns(
    make: Make, options: ConsumerOptions
) -> None:
    """It gets the assignment that it had before there were such topics, unless the group rebalances."""
    before = make()
    static: ConsumerOptions = {**options, "group_instance_id": "worker-0"}
    async with forwarding(before, static) as forwarder:
        await wait_for(lambda: forwarder.is_ready and forwarder.status()["partitions"])
    after = make(
        group_id=before.group_id,
        retry_delays_ms=(50, 200, 900),
        route=(Route(name="eu", when=(Condition(header="eu"),), url=before.url),),
    )
    wanted = {f"{after.group_id}__{each}-0" for each in ("retry-3", "route", "route-eu")}
    async with forwarding(after, static) as forwarder:
        await wait_for(lambda: wanted <= set(forwarder.status()["partitions"]))  # type: ignore[call-overload]


async def test_a_service_is_told_where_a_record_is_from(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make()
    await send(topic, options, "fail 1", key=b"\x00key")
    async with forwarding(destination, options):
        await wait_for(lambda: len(service.pushes) == 2)
    for attempt, push in enumerate(service.pushes, 1):
        assert push.key == "\x00key"
        told = {name: text for name, text in push.headers.items() if name.startswith("kafka-")}
        told.pop("kafka-timestamp-ms")
        assert told == {
            "kafka-topic": topic,
            "kafka-partition": "0",
            "kafka-offset": "0",
            "kafka-group": destination.group_id,
            "kafka-attempt": str(attempt),
            "kafka-key": "AGtleQ==",
            "kafka-header-colour": "red",
        }
        assert push.headers["traceparent"] == "00-abc"


async def test_records_of_one_partition_are_under_way_side_by_side(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make()
    await send(topic, options, *(f"sleep 100,{each}" for each in range(16)))
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["done"] == 16)
    assert service.running_most >= 8


async def test_a_key_keeps_its_order_even_where_records_are_retried(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make(order=Order.KEY)
    await send(topic, options, "a1,fail 2", "a2", "a3,fail 1", "a4", key=b"a")
    await send(topic, options, "b1", "b2", key=b"b")
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["done"] == 6)
    assert [each for each in service.values() if each[0] == "a"] == [
        *["a1,fail 2"] * 3,
        "a2",
        *["a3,fail 1"] * 2,
        "a4",
    ]
    assert service.values().index("b2") < service.values().index("a2")


async def test_who_holds_a_partition_up_is_moved_to_the_retries(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make(window_max=20, timeout_ms=60_000, attempts_max=2)
    await send(topic, options, "sleep 20000", *("ok" for _ in range(15)))
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["relieved"] == 1)
        await wait_for(lambda: committed(destination, options, topic) == 16)
        await wait_for(lambda: service.times["sleep 20000"] == 2)
        (held,) = await read_all(destination.retry_topics[0], options)
        assert held.header("kohort-forward-why") == b"it held the others of its partition up"
        forwarder._tasks.cancel_scope.cancel()


async def test_the_last_push_of_a_record_has_its_time_although_it_holds_the_partition_up(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make(window_max=20, timeout_ms=60_000, attempts_max=1)
    await send(topic, options, "sleep 5000", *("ok" for _ in range(15)))
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["done"] >= 15)
        forwarder._relieve()
        await wait_for(lambda: forwarder.counts["done"] == 16)
        assert (forwarder.counts["relieved"], forwarder.counts["dead"]) == (0, 0)


async def test_a_service_that_is_away_costs_no_attempt(
    topic: str, options: ConsumerOptions, free_port: int
) -> None:
    destination = Destination(
        name=f"d-{uuid.uuid4().hex[:6]}",
        topic=topic,
        url=f"http://127.0.0.1:{free_port}/",
        attempts_max=1,
        failures_max=2,
    )
    await send(topic, options, "ok", "ok too")
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.status()["circuit"] == "open")
        with http_double(free_port) as server:
            await wait_for(lambda: forwarder.counts["done"] == 2)
            assert sorted(server.values()) == ["ok", "ok too"]
        assert forwarder.status()["circuit"] == "closed"
        assert forwarder.counts["dead"] == 0


async def test_no_answer_in_time_is_a_retry(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make(timeout_ms=300, attempts_max=2)
    await send(topic, options, "sleep 1500")
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["dead"] == 1)
    (dead,) = await read_all(destination.dead_letters_topic, options)
    assert dead.header("kohort-forward-why") == b"no answer within 300 ms"
    assert service.times["sleep 1500"] == 2


async def test_a_record_as_large_as_its_topic_allows_is_retried_and_dies_like_others(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make(attempts_max=2)
    largest = "status 503," + "x" * (LARGEST_BYTES - len("status 503,"))
    async with Producer(
        bootstrap_servers=options["bootstrap_servers"], max_request_size=2_000_000
    ) as producer:
        await (await producer.send(topic, largest.encode(), partition=0))
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["dead"] and not forwarder.status()["unfinished"])
        assert await replay(destination, destination.dead_letters_topic, **options) == 1
        await wait_for(lambda: forwarder.counts["dead"] == 2)
    assert service.times[largest] == 4
    assert forwarder.counts == {"retry": 2, "dead": 2}
    first, second = await read_all(destination.dead_letters_topic, options)
    assert first.value == second.value == largest.encode()


async def test_a_dead_letter_that_no_topic_takes_is_not_pushed_again(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions, caplog: pytest.LogCaptureFixture
) -> None:
    destination = make()
    poison = f"status 400,{os.urandom(5_000).hex()}"
    with Admin(bootstrap_servers=options["bootstrap_servers"]) as admin:
        small = {"max.message.bytes": "1000"}
        admin.create_topics(NewTopic(destination.dead_letters_topic, partitions=2, configs=small))
        await send(topic, options, poison, "ok")
        async with forwarding(destination, options) as forwarder:
            await wait_for(lambda: caplog.text.count("could not be written") >= 2)
            await wait_for(lambda: forwarder.counts["done"] == 1)
            enough = {"max.message.bytes": "20000"}
            admin.alter_configs(ResourceType.TOPIC, destination.dead_letters_topic, values=enough)
            await wait_for(lambda: not forwarder.status()["unfinished"])
    (dead,) = await read_all(destination.dead_letters_topic, options)
    assert dead.value == poison.encode()
    assert (service.times[poison], forwarder.counts["dead"]) == (1, 1)


async def test_no_header_of_a_record_can_harm_the_proxy(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make(attempts_max=2)
    headers = [
        ("spaced", b"  red "),
        ("blank", b""),
        ("line", b"a\r\nhost: elsewhere"),
        ("x-bin", b"bin"),
        ("Content-Length", b"7"),
        ("kohort-forward-of", b"elsewhere"),
        ("kohort-forward-attempt", b"9" * 5_000),
        ("kohort-forward-due-ms", b"9" * 14),
        ("kohort-forward-why", b"\xff"),
        ("ü", b"name"),
        ("nothing", None),
    ]
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        await producer.send(topic, b"fail 1", partition=0, headers=headers)
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["done"] == 1)
    for attempt, push in enumerate(service.pushes, 1):
        told = {name: text for name, text in push.headers.items() if name.startswith("kafka-header")}
        assert told == {
            "kafka-header-spaced": "red",
            "kafka-header-blank": "",
            "kafka-header-x-bin": "bin",
            "kafka-header-content-length": "7",
        }
        place = (push.headers["kafka-topic"], push.headers["kafka-offset"], push.attempt)
        assert place == (topic, "0", attempt)


async def test_dead_letters_are_brought_back_once_or_given_up(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make(attempts_max=1)
    await send(topic, options, "fail 1", "fail 1,b")
    async with forwarding(destination, options) as forwarder:
        await wait_for(lambda: forwarder.counts["dead"] == 2)
        assert await replay(destination, destination.dead_letters_topic, **options) == 2
        assert await replay(destination, destination.dead_letters_topic, **options) == 0
        await wait_for(lambda: forwarder.counts["done"] == 2)
        await send(topic, options, "status 400")
        await wait_for(lambda: forwarder.counts["dead"] == 3)
        assert await purge(destination, destination.dead_letters_topic, **options) == 1
        assert await replay(destination, destination.dead_letters_topic, **options) == 0


@pytest.mark.parametrize("bring_back", [replay, purge])
@pytest.mark.parametrize("commits_before", [0, 1, 2])
@pytest.mark.parametrize("is_noticed", [True, False])
async def test_letters_of_a_topic_made_anew_are_not_committed_with_those_before(
    make: Make,
    options: ConsumerOptions,
    monkeypatch: pytest.MonkeyPatch,
    *,
    bring_back: Callable[..., Awaitable[int]],
    commits_before: int,
    is_noticed: bool,
) -> None:
    destination = make()
    letters, new = destination.dead_letters_topic, ("new 0", "new 1", "new 2")
    commits = 0

    async def commit(reader: Consumer[bytes, bytes], offsets: object = None) -> None:
        nonlocal commits
        if commits == commits_before:
            await trio.to_thread.run_sync(remake_topic, options["bootstrap_servers"], letters)
            await send(letters, options, *new)
            if is_noticed:
                await reader._session.cluster.refresh_metadata({letters})
                reader._session.fetcher.notice_new_topics()
        commits += 1
        await usual(reader, offsets)  # type: ignore[arg-type]

    usual = Consumer.commit
    monkeypatch.setattr(replaying, "BATCH", 4)
    monkeypatch.setattr(Consumer, "commit", commit)
    await trio.to_thread.run_sync(make_topic, options["bootstrap_servers"], letters)
    await send(letters, options, *map(str, range(10)))
    if commits_before and bring_back is purge:
        assert await purge(destination, letters, **options) == 10
        commits = commits_before = 0
        await send(letters, options, "old")
    with pytest.raises(KohortError, match="the topic was deleted"):
        await bring_back(destination, letters, **options)
    commits = commits_before + 1
    assert await replay(destination, letters, **options) == len(new)


def make_topic(bootstrap: str, name: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=1))


def remake_topic(bootstrap: str, name: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics(name)
        admin.create_topics(NewTopic(name, partitions=1))


async def test_workers_share_partitions_and_a_clean_handover_pushes_nothing_twice(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    destination = make()
    sent = 0

    async def send_more(producer: Producer) -> None:
        nonlocal sent
        for _ in range(20):
            await producer.send(topic, b"sleep 5,%d" % sent, partition=sent % 2)
            sent += 1
        await producer.flush()
        await trio.sleep(0.05)

    async with (
        Producer(bootstrap_servers=options["bootstrap_servers"]) as producer,
        forwarding(destination, options) as first,
    ):
        while not first.counts["done"]:
            await send_more(producer)
        async with forwarding(destination, options) as second:
            with trio.fail_after(WITHIN_S):
                while not second.counts["done"]:
                    await send_more(producer)
            await wait_for(lambda: first.counts["done"] + second.counts["done"] == sent)
    assert set(service.times.values()) == {1}


async def test_a_push_that_takes_long_keeps_no_partition_from_its_next_owner(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions
) -> None:
    """What the first worker hears in the end of a record that is not its own any more counts for nothing."""
    destination = make(drain_timeout_ms=200, attempts_max=1)
    values = ["sleep 5000,status 503,0", "sleep 5000,status 503,1"]
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for partition, value in enumerate(values):
            await producer.send(topic, value.encode(), partition=partition)
    async with forwarding(destination, options) as first:
        await wait_for(lambda: set(service.times) == set(values))
        async with forwarding(destination, options) as second:
            await wait_for(lambda: service.times.total() >= 3)  # The second has a partition, and pushes.
            await wait_for(lambda: first.counts["dead"] + second.counts["dead"] == 2)
            assert second.counts["dead"]
    dead = await read_all(destination.dead_letters_topic, options)
    assert sorted(each.value or b"" for each in dead) == [each.encode() for each in values]


async def test_a_token_is_read_for_each_push(
    make: Make, topic: str, service: HttpDouble, options: ConsumerOptions, tmp_path: object
) -> None:
    token = trio.Path(str(tmp_path)) / "token"
    await token.write_text("first\n")
    destination = make(token_file=str(token))
    async with forwarding(destination, options):
        await send(topic, options, "a")
        await wait_for(lambda: len(service.pushes) == 1)
        await token.write_text("second\n")
        await send(topic, options, "b")
        await wait_for(lambda: len(service.pushes) == 2)
    assert [each.headers["authorization"] for each in service.pushes] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_service_is_known_by_its_certificate_before_it_is_told_anything(
    make: Make, topic: str, options: ConsumerOptions, tmp_path: Path, is_known: bool
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    (authority if is_known else trustme.CA()).cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "token").write_text("secret\n")
    await send(topic, options, "ok")
    with http_double(tls=context) as service:
        destination = make(
            url=service.url,
            ca_file=str(tmp_path / "ca.pem"),
            token_file=str(tmp_path / "token"),
            failures_max=1,
        )
        async with forwarding(destination, options) as forwarder:
            await wait_for(lambda: forwarder.counts["done" if is_known else "unreached"])
            told = str(forwarder.status()["last_failure"])
        assert [each.headers["authorization"] for each in service.pushes] == ["Bearer secret"] * is_known
        assert ("CERTIFICATE_VERIFY_FAILED" in told) != is_known
