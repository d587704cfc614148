"""`AsyncBroker`: the broker of a test that runs on asyncio or trio."""

import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeVar, overload

from anyio import to_thread

from kohort.testing.face import Face
from kohort.testing.settings import SettingValue
from kohort.testing.topics import create_topics
from kohort.testing.waiting import LOOK_EVERY_SECONDS, TIMEOUT_SECONDS, look, not_in_time

T = TypeVar("T")


class AsyncBroker(Face):
    """What `async with Broker()` gives: what may wait does so without holding up the test's loop."""

    async def start(self) -> None:
        """Serve, from now on or again, with the same address and data."""
        await to_thread.run_sync(self._core.start)

    async def stop(self) -> None:
        """Go away: connections are cut, and clients find nobody until `start`. The data stays."""
        await to_thread.run_sync(self._core.stop)

    async def restart(self) -> None:
        """Go away, and return at the same address with the same data."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """End the broker, and remove its data. Raises: what the broker has failed with, if it has."""
        await to_thread.run_sync(self._core.close)

    async def create_topic(self, name: str, partitions: int | None = None, **configs: SettingValue) -> str:
        """Make a topic, with `num.partitions` partitions unless told; return its name. Raises: ApiError."""
        await to_thread.run_sync(create_topics, self._core.run, {name: partitions}, configs)
        return name

    @overload
    async def until(
        self, condition: Callable[[], Awaitable[T | None]], timeout: float = TIMEOUT_SECONDS
    ) -> T: ...
    @overload
    async def until(self, condition: Callable[[], T | None], timeout: float = TIMEOUT_SECONDS) -> T: ...
    async def until(self, condition: Callable[[], object], timeout: float = TIMEOUT_SECONDS) -> object:
        """Return what `condition`, a function or a coroutine function, gives as soon as that is true.

        It is asked again whenever something happens, also where it fails with KeyError or IndexError, as a
        group does that is not there yet. Raises: NotInTime after `timeout` real seconds, with a report.
        """
        deadline = time.monotonic() + timeout
        while True:
            found, last = look(condition)
            if isawaitable(found):
                found = await found
            if found:
                return found
            if time.monotonic() >= deadline:
                raise not_in_time(condition, timeout, last, self.report())
            await to_thread.run_sync(self._core.watch.wait_for_change, LOOK_EVERY_SECONDS)
