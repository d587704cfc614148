"""An asynchronous client that is called in another event loop than its own. No broker is there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from kohort.client import ConcurrentAccessError, TopicPartition, aio

NOBODY = "127.0.0.1:1"
WHERE = TopicPartition("t", 0)

CALLS: dict[str, tuple[Callable[[], Any], Callable[[Any], Awaitable[object]]]] = {
    "poll": (lambda: aio.Consumer(bootstrap_servers=NOBODY), lambda client: client.poll()),
    "next": (lambda: aio.Consumer(bootstrap_servers=NOBODY), lambda client: client.__anext__()),
    "position": (lambda: aio.Consumer(bootstrap_servers=NOBODY), lambda client: client.position(WHERE)),
    "commit": (
        lambda: aio.Consumer(bootstrap_servers=NOBODY, group_id="g"),
        lambda client: client.commit({WHERE: 1}),
    ),
    "close": (lambda: aio.Consumer(bootstrap_servers=NOBODY), lambda client: client.close()),
    "unsubscribe": (lambda: aio.Consumer(bootstrap_servers=NOBODY), lambda client: client.unsubscribe()),
    "end_offsets": (lambda: aio.Consumer(bootstrap_servers=NOBODY), lambda client: client.end_offsets(WHERE)),
    "share poll": (
        lambda: aio.ShareConsumer("t", bootstrap_servers=NOBODY, group_id="g"),
        lambda client: client.poll(),
    ),
    "share commit": (
        lambda: aio.ShareConsumer("t", bootstrap_servers=NOBODY, group_id="g"),
        lambda client: client.commit(),
    ),
    "send": (lambda: aio.Producer(bootstrap_servers=NOBODY), lambda client: client.send("t", b"x")),
    "flush": (lambda: aio.Producer(bootstrap_servers=NOBODY), lambda client: client.flush()),
    "admin": (lambda: aio.Admin(bootstrap_servers=NOBODY), lambda client: client.list_topics()),
}


@asynccontextmanager
async def opened(client: Any) -> AsyncIterator[Any]:
    async with client:
        if isinstance(client, aio.Consumer):
            client.assign(WHERE)
        yield client


@pytest.mark.parametrize("call", CALLS)
def test_a_call_from_another_loop_raises_at_once(call: str) -> None:
    make, use = CALLS[call]

    async def main() -> None:
        async with opened(make()) as client:

            def elsewhere() -> None:
                async def call_it() -> None:
                    with anyio.fail_after(5):
                        await use(client)

                with pytest.raises(ConcurrentAccessError, match="was opened in another event loop"):
                    asyncio.run(call_it())

            await asyncio.to_thread(elsewhere)

    asyncio.run(main())


@pytest.mark.parametrize("loops", [("asyncio", "trio"), ("trio", "asyncio")])
def test_the_other_librarys_loop_is_another(loops: tuple[str, str]) -> None:
    first, second = loops

    async def main() -> None:
        async with opened(aio.Consumer(bootstrap_servers=NOBODY)) as consumer:

            def elsewhere() -> None:
                with pytest.raises(ConcurrentAccessError):
                    anyio.run(consumer.poll, backend=second)

            await anyio.to_thread.run_sync(elsewhere)

    anyio.run(main, backend=first)


@pytest.mark.parametrize("first", ["asyncio", "trio"])
@pytest.mark.parametrize("second", ["asyncio", "trio"])
def test_a_client_cannot_be_stopped_in_another_loop(first: str, second: str) -> None:
    async def main() -> None:
        consumer = await aio.Consumer(bootstrap_servers=NOBODY).start()

        async def stop() -> None:
            with anyio.fail_after(5):
                await consumer.stop()

        def elsewhere() -> None:
            with pytest.raises(ConcurrentAccessError):
                anyio.run(stop, backend=second)

        with anyio.fail_after(10):
            await anyio.to_thread.run_sync(elsewhere)
            await consumer.stop()
        assert "closed" in repr(consumer)

    anyio.run(main, backend=first)


def test_a_second_run_of_asyncio_is_another_loop() -> None:
    """As two tests have it that share a fixture's client."""
    producer = aio.Producer(bootstrap_servers=NOBODY)

    async def first() -> None:
        async def open_it() -> None:
            await producer.__aenter__()

        await asyncio.create_task(open_it())

    async def second() -> None:
        with pytest.raises(ConcurrentAccessError):
            await producer.send("t", b"x")

    asyncio.run(first())
    asyncio.run(second())
    with suppress(RuntimeError):  # Its tasks are gone with their loop.
        producer._session.cluster._tasks = None
