"""Libraries that nobody has changed, in simulated processes: servers, HTTP clients, kohort's own client."""

import asyncio
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kohort.client import aio
from kohort.testing.simulation import LeftSimulation, World
from kohort.testing.simulation.running import run_seed


def passes(test: Callable[[World], Coroutine[Any, Any, None]], seed: int = 1) -> World:
    """Return the world of a run without a failure."""
    world, error = run_seed(test, seed)
    if error is not None:
        raise error
    return world


def test_kohorts_client_on_asyncio() -> None:
    async def test(world: World) -> None:
        broker = await world.broker(topics={"orders": 2})
        shown: list[bytes | None] = []

        async def shop() -> None:
            async with aio.Consumer(
                "orders", bootstrap_servers=broker.bootstrap, group_id="shop", auto_offset_reset="earliest"
            ) as consumer:
                async for record in consumer:
                    shown.append(record.value)

        shops = [world.process(f"shop-{number}", shop) for number in range(2)]
        async with (
            world.chaos(kill=shops, restart=[broker], pause_seconds=5),
            aio.Producer(bootstrap_servers=broker.bootstrap) as producer,
        ):
            for number in range(50):
                await (await producer.send("orders", str(number).encode()))
                await asyncio.sleep(0.5)
        await world.until(lambda: {str(number).encode() for number in range(50)} <= set(shown), 900)

    for seed in range(3):
        assert passes(test, seed).faults


def test_a_service_on_asyncios_streams_and_httpx() -> None:
    httpx = pytest.importorskip("httpx")

    async def test(world: World) -> None:
        async def serve() -> None:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
                await writer.drain()
                writer.close()

            server = await asyncio.start_server(answer, "0.0.0.0", 80)
            async with server:
                await server.serve_forever()

        world.process("service", serve)
        await asyncio.sleep(1)
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get("http://service/")).text == "hello"

    passes(test)


def test_aiohttp_on_both_sides() -> None:
    web = pytest.importorskip("aiohttp.web")
    aiohttp = pytest.importorskip("aiohttp")

    async def test(world: World) -> None:
        async def serve() -> None:
            async def hello(_request: Any) -> Any:
                return web.Response(text="hello")

            app = web.Application()
            app.router.add_get("/", hello)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "0.0.0.0", 80).start()
            await asyncio.Event().wait()

        world.process("service", serve)
        await asyncio.sleep(1)
        async with aiohttp.ClientSession() as session, session.get("http://service/") as answer:
            assert await answer.text() == "hello"

    passes(test)


def test_faststream() -> None:
    kafka = pytest.importorskip("faststream.kafka")
    from faststream import FastStream  # type: ignore[import-not-found,unused-ignore]

    async def test(world: World) -> None:
        broker = await world.broker(topics={"orders": 3})
        seen: list[str] = []

        async def app() -> None:
            router = kafka.KafkaBroker(broker.bootstrap, logger=None)

            @router.subscriber("orders", group_id="shop", auto_offset_reset="earliest")  # type: ignore[untyped-decorator,unused-ignore]
            async def handle(order: str) -> None:
                seen.append(order)

            await FastStream(router).run()

        apps = [world.process(f"app-{number}", app) for number in range(2)]
        async with (
            world.chaos(kill=apps, pause_seconds=5),
            kafka.KafkaBroker(broker.bootstrap, logger=None) as router,
        ):
            for number in range(40):
                await router.publish(f"order-{number}", "orders")
                await asyncio.sleep(0.5)
        await world.until(lambda: {f"order-{number}" for number in range(40)} <= set(seen), 900)

    assert passes(test).faults


def test_time_passes_by_itself_and_randomness_is_the_seeds() -> None:
    def seen(seed: int) -> list[object]:
        found: list[object] = []

        async def test(world: World) -> None:
            began = time.time(), time.monotonic(), asyncio.get_running_loop().time()
            await asyncio.sleep(3_600)
            found.extend(
                round(now - before)
                for before, now in zip(
                    began, (time.time(), time.monotonic(), asyncio.get_running_loop().time()), strict=True
                )
            )
            found.extend([uuid.uuid4(), random.random(), await asyncio.to_thread(lambda: 7)])
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 60)

        passes(test, seed)
        return found

    began = time.perf_counter()
    assert seen(1) == seen(1)
    assert seen(1)[:3] == [3600, 3600, 3600]
    assert seen(1)[3:5] != seen(2)[3:5]
    assert time.perf_counter() - began < 60  # Four hours have passed in there.


@pytest.mark.parametrize(
    "leave, what",
    [
        (lambda: threading.Thread(target=print).start(), "a thread"),
        (lambda: time.sleep(1), "time.sleep"),
    ],
)
def test_what_leaves_the_simulation_is_refused(leave: Callable[[], object], what: str) -> None:
    async def test(world: World) -> None:
        leave()

    _world, error = run_seed(test, 1)
    assert isinstance(error, LeftSimulation)
    assert what in str(error)


def test_other_threads_have_the_real_time_and_may_start_threads() -> None:
    """The brokers of the test kit, which tests may share, notice nothing of a simulation beside them."""
    asked, answered = threading.Event(), threading.Event()
    seen: list[float] = []

    def other() -> None:
        asked.wait(30)
        began = time.monotonic()
        inner = threading.Thread(target=lambda: seen.append(time.monotonic() - began))
        inner.start()
        inner.join()
        answered.set()

    thread = threading.Thread(target=other)
    thread.start()

    async def test(world: World) -> None:
        await asyncio.sleep(3_600)
        asked.set()
        assert answered.wait(30)

    passes(test)
    thread.join()
    assert 0 <= seen[0] < 60


def test_a_killed_process_says_nothing_and_a_terminated_one_cleans_up() -> None:
    async def test(world: World) -> None:
        said: list[str] = []

        async def app(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                said.append(name)

        killed, told = world.process("killed", app, "killed"), world.process("told", app, "told")
        await asyncio.sleep(1)
        killed.kill()
        told.terminate()
        await asyncio.sleep(1)
        assert said == ["told"]
        assert not killed.is_running
        assert not told.is_running

    passes(test)


def test_a_process_that_is_killed_behind_its_own_failure_is_not_started_again() -> None:
    async def test(world: World) -> None:
        async def fail() -> None:
            raise ValueError("a fault")

        restarted, killed = world.process("restarted", fail), world.process("killed", fail)
        await asyncio.sleep(1)
        killed.kill()
        await asyncio.sleep(10)
        assert restarted.lives > 1
        assert killed.lives == 1

    passes(test)


AIOKAFKA_INSIDE = """
import asyncio
from kohort.testing.simulation.running import run_seed

async def test(world):
    broker = await world.broker(topics={"orders": 1})

    async def app():
        import aiokafka
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        await producer.send_and_wait("orders", b"an order")
        await producer.stop()

    process = world.process("app", app, restart_seconds=None)
    await world.until(lambda: not process.is_running, 60)
    process.result()

assert run_seed(test, 1)[1] is None
"""


def test_aiokafka_may_be_imported_in_a_process_first() -> None:
    pytest.importorskip("aiokafka")
    subprocess.run([sys.executable, "-c", AIOKAFKA_INSIDE], check=True, capture_output=True)
