"""`AsyncBroker`: the broker of a test that runs on asyncio or trio."""

import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from inspect import isawaitable
from typing import Concatenate, ParamSpec, TypeVar, overload

from anyio import to_thread

from kohort.testing import expectations
from kohort.testing.controls import BrokerControls
from kohort.testing.core import Snapshot
from kohort.testing.expectations import Expectation
from kohort.testing.holds import AsyncHold
from kohort.testing.settings import SettingValue
from kohort.testing.topics import create_topics
from kohort.testing.waiting import CHECK_EVERY_SECONDS, TIMEOUT_SECONDS, evaluate, not_in_time_error

T = TypeVar("T")
P = ParamSpec("P")


def _waiting(
    build: Callable[P, Expectation[T]],
) -> "Callable[Concatenate[AsyncBroker, P], Coroutine[object, object, T]]":
    """Return a coroutine method that waits for the expectation."""

    @wraps(build)
    async def expect(self: "AsyncBroker", /, *args: P.args, **kwargs: P.kwargs) -> T:
        expectation = build(*args, **kwargs)
        deadline = time.monotonic() + expectation.within_seconds
        while (found := expectation.check(self, deadline)) is None:
            await to_thread.run_sync(self._core.watch.wait_for_change, CHECK_EVERY_SECONDS)
        return found[0]

    return expect


class AsyncBroker(BrokerControls):
    """The broker of `async with Broker()`: methods that wait are coroutines."""

    async def start(self) -> None:
        """Start, or start again with the same address and data."""
        await to_thread.run_sync(self._core.start)

    async def stop(self) -> None:
        """Stop the broker and close all connections. The data stays for the next `start`."""
        await to_thread.run_sync(self._core.stop)

    async def restart(self) -> None:
        """Stop, and start again with the same address and data."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """Stop the broker and remove its data. Raises: the broker's own error, if it has failed."""
        await to_thread.run_sync(self._core.close)

    async def snapshot(self) -> Snapshot:
        """Return a copy of topics, records, groups and settings: `Broker(snapshot=snapshot)` starts with it.

        The broker goes on. Members of groups are in the copy as after a restart: close consumers before.
        Raises: BrokerFailed before the start, and for a broker of a cluster.
        """
        return await to_thread.run_sync(self._core.snapshot)

    async def create_topic(self, name: str, partitions: int | None = None, **configs: SettingValue) -> str:
        """Create a topic, by default with `num.partitions` partitions. Return its name. Raises: ApiError."""
        await to_thread.run_sync(create_topics, self._core.run, {name: partitions}, configs)
        return name

    def hold(self, api: str, *, client: str | None = None) -> AsyncHold:
        """Return a barrier: within its `with` block, requests of an API are held before they are executed.

        `client` is a client id; without it the requests of every client are held. Requests that follow on
        the connection of a held one wait behind it. Raises: ValueError for an unknown API.
        """
        return self._hold(AsyncHold, api, client)

    @overload
    async def until(
        self, condition: Callable[[], Awaitable[T | None]], timeout: float = TIMEOUT_SECONDS
    ) -> T: ...
    @overload
    async def until(self, condition: Callable[[], T | None], timeout: float = TIMEOUT_SECONDS) -> T: ...
    async def until(self, condition: Callable[[], object], timeout: float = TIMEOUT_SECONDS) -> object:
        """Wait until `condition`, which may be a coroutine function, returns a true value. Return that value.

        It is called again whenever a request or an answer arrives. KeyError and IndexError count as false: a
        group, for example, may not exist yet. Raises: NotInTime after `timeout` real seconds, with a report.
        """
        deadline = time.monotonic() + timeout
        while True:
            found, last = evaluate(condition)
            if isawaitable(found):
                found = await found
            if found:
                return found
            if time.monotonic() >= deadline:
                raise not_in_time_error(condition, timeout, last, self.report())
            await to_thread.run_sync(self._core.watch.wait_for_change, CHECK_EVERY_SECONDS)

    # -- expectations -----------------------------------------------------------------------------------

    expect_commit = _waiting(expectations.commit)
    expect_members = _waiting(expectations.members)
    expect_records = _waiting(expectations.records)
    expect_request = _waiting(expectations.request)
    expect_no_lag = _waiting(expectations.no_lag)
    expect_no_rebalance = expectations.no_rebalance
