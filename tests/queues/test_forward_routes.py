"""Records that are held until they are due, and records that go by their content."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from kohort.client import ConsumerRecord
from kohort.client.aio import Producer
from kohort.client.config import ConsumerOptions
from kohort.queues.forward import Action, Condition, Destination, Forwarder, Route, RouteAction, Verdict
from kohort.queues.forward.service import open_services
from tests.cli.here import kohort
from tests.queues.service import HttpDouble, http_double
from tests.queues.test_forward import wait_for
from tests.queues.test_kmq import read_all

LATE_MS_MAX = 100  # At rest; other work on the machine may add to it.
BUSY_MS = 900


class Clock:
    """A service that notes how much later than its timestamp each record came."""

    def __init__(self) -> None:
        self.lateness_ms: dict[bytes, list[int]] = {}

    async def push(self, record: ConsumerRecord[bytes, bytes], attempt: int) -> Verdict:
        late_ms = time.time_ns() // 1_000_000 - record.timestamp_ms
        self.lateness_ms.setdefault(record.value or b"", []).append(late_ms)
        return Verdict(Action.DONE)

    def all_ms(self) -> list[int]:
        return [each for found in self.lateness_ms.values() for each in found]


def destination(topic: str, **settings: object) -> Destination:
    given = {"url": "http://127.0.0.1/", **settings}
    return Destination(name=f"d-{uuid.uuid4().hex[:6]}", topic=topic, **given)  # type: ignore[arg-type]


async def send(options: ConsumerOptions, topic: str, values: list[bytes], partition: int, at_ms: int) -> None:
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for value in values:
            await producer.send(topic, value, partition=partition, timestamp_ms=at_ms)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def run(forwarder: Forwarder, until_count: int, service: Clock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forwarder.run)
        await wait_for(lambda: len(service.lateness_ms) >= until_count)
        forwarder.stop()


async def test_a_record_is_held_until_it_is_due_and_holds_no_other_partition(
    topic: str, options: ConsumerOptions
) -> None:
    long_ms, short_ms, service = 3_600_000, 1_000, Clock()
    held = destination(topic, delay_ms=long_ms, window_max=10)
    await send(options, topic, [b"new %d" % each for each in range(50)], 0, now_ms())
    await send(options, topic, [b"old %d" % each for each in range(50)], 1, now_ms() - long_ms)
    await run(Forwarder(held, service, **options), 50, service)
    assert all(each.startswith(b"old") for each in service.lateness_ms)
    assert min(service.all_ms()) >= long_ms
    sooner = msgspec.structs.replace(held, delay_ms=short_ms)  # Those that wait survive a new process.
    await run(Forwarder(sooner, service, **options), 100, service)
    assert min(service.all_ms()) >= short_ms
    assert all(len(each) == 1 for each in service.lateness_ms.values())


async def test_many_records_that_wait_come_when_they_are_due(topic: str, options: ConsumerOptions) -> None:
    delay_ms, service = 1_500, Clock()
    held = destination(topic, delay_ms=delay_ms)
    began_ms = now_ms()
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for number in range(2_000):
            at_ms = began_ms + 1_000 + number
            await producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=at_ms)
    await run(Forwarder(held, service, **options), 2_000, service)
    late_ms = sorted(each - delay_ms for each in service.all_ms())
    assert late_ms[0] >= 0
    assert late_ms[len(late_ms) * 9 // 10] <= LATE_MS_MAX + BUSY_MS


@pytest.fixture
def services() -> Iterator[tuple[HttpDouble, HttpDouble]]:
    with http_double() as first, http_double() as second:
        yield first, second


async def test_content_decides_which_service_takes_a_record(
    topic: str, options: ConsumerOptions, services: tuple[HttpDouble, HttpDouble]
) -> None:
    own, eu = services
    region = Condition(header="region", equals="eu")
    routed = destination(
        topic,
        url=own.url,
        retry_delays_ms=(50,),
        route=(
            Route(name="eu", when=(region,), url=eu.url, concurrency_max=2),
            Route(name="tests", when=(Condition(key_prefix="test-"),), action=RouteAction.DROP),
            Route(name="bad", when=(Condition(json_path="$.bad"),), action=RouteAction.DEAD),
        ),
    )
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for number in range(10):
            headers = [("region", b"eu")] if number % 2 else []
            await producer.send(topic, b"sleep 1,%d" % number, partition=0, headers=headers)
        await producer.send(topic, b"fail 1,eu", partition=0, headers=[("region", b"eu")])
        await producer.send(topic, b"ok", partition=0, key=b"test-1")
        await producer.send(topic, b'{"bad": 1}', partition=0)
    async with open_services(routed) as opened, trio.open_nursery() as nursery:
        forwarder = Forwarder(routed, opened[""], routed=opened, **options)
        nursery.start_soon(forwarder.run)
        await wait_for(lambda: forwarder.counts["done"] == 11 and forwarder.counts["dead"])
        routes = forwarder.status()["routes"]
        forwarder.stop()
    assert sorted(own.values()) == [f"sleep 1,{each}" for each in range(0, 10, 2)]
    assert sorted(eu.values()) == ["fail 1,eu"] * 2 + [f"sleep 1,{each}" for each in range(1, 10, 2)]
    assert eu.running_most <= 2
    assert forwarder.counts["skip"] == 1
    assert isinstance(routes, dict)
    assert (routes["eu"]["pushed"], routes["eu"]["circuit"]) == (7, "closed")
    (dead,) = await read_all(routed.dead_letters_topic, options)
    assert (dead.value, dead.header("kohort-forward-why")) == (b'{"bad": 1}', b"route bad")


async def test_a_service_that_is_away_stops_its_route_alone(
    topic: str, options: ConsumerOptions, services: tuple[HttpDouble, HttpDouble]
) -> None:
    routed = destination(
        topic,
        url=services[0].url,
        failures_max=1,
        route=(Route(name="away", when=(Condition(header="away"),), url="http://127.0.0.1:1/"),),
    )
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for number in range(40):
            headers = [("away", b"")] if number % 2 else []
            await producer.send(topic, b"%d" % number, partition=0, headers=headers)
    async with open_services(routed) as opened, trio.open_nursery() as nursery:
        forwarder = Forwarder(routed, opened[""], routed=opened, **options)
        nursery.start_soon(forwarder.run)
        await wait_for(lambda: forwarder.counts["done"] == 20)
        assert forwarder.status()["circuit"] != "closed"
        nursery.cancel_scope.cancel()


FILE = """
[[forward]]
name = "orders"
topic = "orders"
url = "http://127.0.0.1/orders"
delay_ms = 60_000

[[forward.route]]
name = "eu"
when = [{ header = "region", equals = "eu" }, { json_path = "$.total", equals = 7 }]
url = "http://HOST/orders"
"""


def test_a_file_is_explained_and_its_routes_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "forward.toml"
    file.write_text(FILE.replace("HOST", "localhost"))
    sample = '{"topic": "orders", "headers": {"region": "eu"}, "value": {"total": 7}}'
    done = kohort("forward", "--config", str(file), "--explain", sample)
    assert done.stdout.splitlines() == [
        "destination orders",
        "  route eu: yes, push to http://localhost/orders",
        "  no sooner than 60,000 ms after its timestamp",
    ]
    done = kohort("forward", "--config", str(file), "--explain", '{"value": "text"}')
    assert "route eu: no, not header region equals 'eu'" in done.stdout
    assert "no route: push to http://127.0.0.1/orders" in done.stdout
    for wrong in ("{", '{"topic": "others"}', '{"colour": 1}'):
        assert kohort("forward", "--config", str(file), "--explain", wrong).returncode == 2
    file.write_text(FILE.replace("HOST", "elsewhere.example"))
    done = kohort("forward", "--config", str(file), "--check")
    assert (done.returncode, "not one of allowed_hosts" in done.stderr) == (2, True)
