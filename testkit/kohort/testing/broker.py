"""`Broker`: a Kafka broker in a thread of the test's own process."""

import time
from collections.abc import Callable, Mapping
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from kohort.testing import expectations
from kohort.testing.aio import AsyncBroker
from kohort.testing.controls import BrokerControls
from kohort.testing.core import Core, Snapshot, Topics
from kohort.testing.expectations import Expectation
from kohort.testing.holds import Hold
from kohort.testing.settings import SettingValue
from kohort.testing.topics import create_topics
from kohort.testing.waiting import CHECK_EVERY_SECONDS, TIMEOUT_SECONDS, evaluate, not_in_time_error

T = TypeVar("T")
P = ParamSpec("P")


def _waiting(build: Callable[P, Expectation[T]]) -> "Callable[Concatenate[Broker, P], T]":
    """Return a method that waits for the expectation."""

    @wraps(build)
    def expect(self: "Broker", /, *args: P.args, **kwargs: P.kwargs) -> T:
        expectation = build(*args, **kwargs)
        deadline = time.monotonic() + expectation.within_seconds
        while (found := expectation.check(self, deadline)) is None:
            self._core.watch.wait_for_change(CHECK_EVERY_SECONDS)
        return found[0]

    return expect


class Broker(BrokerControls):
    """A broker for a test. It serves within a `with` block, or from `start` to `close`.

        with Broker(topics={"orders": 3}) as broker:
            Producer({"bootstrap.servers": broker.bootstrap})

    Its data is in memory if the machine has a file system in memory. It never syncs, and `close` removes the
    data. Any thread may use it. `async with` gives an `AsyncBroker`, on asyncio and on trio.
    """

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        topics: Topics = (),
        http: bool = False,
        port: int = 0,
        schema_registry: bool = False,
        snapshot: Snapshot | None = None,
        api_versions: str | None = None,
        **more_settings: SettingValue,
    ) -> None:
        """Configure the broker. It starts with the `with` block.

        Settings have Kafka's names: `Broker({"num.partitions": 4})`, or with underscores as keywords:
        `Broker(num_partitions=4)`. `topics` are created at the start; a mapping gives their numbers of
        partitions. `http` also serves `/metrics`, `/health` and `/api`. `port` is for applications with a
        fixed address; the default is any free port. `schema_registry` also serves a schema registry at
        `broker.schema_registry`. With a `snapshot` the broker starts with its topics, records, groups and
        settings. `api_versions`, such as "2.8", limits it to the APIs of that version of Kafka, from 2.4 on:
        it refuses newer requests as such a broker does. The node id is 1: `Broker(node_id=0)` changes it.
        Raises: ConfigError for a wrong setting.
        """
        texts = {**(settings or {}), **more_settings}
        super().__init__(
            Core(
                topics,
                texts,
                http=http,
                port=port,
                schema_registry=schema_registry,
                snapshot=snapshot,
                api_versions=api_versions,
            )
        )

    @property
    def aio(self) -> AsyncBroker:
        """The same broker for asyncio and trio: methods that wait are coroutines."""
        return AsyncBroker(self._core)

    def start(self) -> Self:
        """Start, or start again with the same address and data. Return the broker itself."""
        self._core.start()
        return self

    def stop(self) -> None:
        """Stop the broker and close all connections. The data stays for the next `start`."""
        self._core.stop()

    def restart(self) -> None:
        """Stop, and start again with the same address and data."""
        self._core.stop()
        self._core.start()

    def close(self) -> None:
        """Stop the broker and remove its data. Raises: the broker's own error, if it has failed."""
        self._core.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._explain(error)
        self.close()

    async def __aenter__(self) -> AsyncBroker:
        broker = self.aio
        await broker.start()
        return broker

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._explain(error)
        await self.aio.close()

    def snapshot(self) -> Snapshot:
        """Return a copy of topics, records, groups and settings: `Broker(snapshot=snapshot)` starts with it.

        The broker goes on. Members of groups are in the copy as after a restart: close consumers before.
        Raises: BrokerFailed before the start, and for a broker of a cluster.
        """
        return self._core.snapshot()

    def start_schema_registry(self) -> str:
        """Start a schema registry, if the broker has none yet. Return its URL. Raises: BrokerFailed."""
        self._core.start_registry()
        return self.schema_registry

    def create_topic(self, name: str, partitions: int | None = None, **configs: SettingValue) -> str:
        """Create a topic, by default with `num.partitions` partitions. Return its name. Raises: ApiError."""
        create_topics(self._core.run, {name: partitions}, configs)
        return name

    def hold(self, api: str, *, client: str | None = None) -> Hold:
        """Return a barrier: within its `with` block, requests of an API are held before they are executed.

        `client` is a client id; without it the requests of every client are held. Requests that follow on
        the connection of a held one wait behind it. Raises: ValueError for an unknown API.
        """
        return self._hold(Hold, api, client)

    def until(self, condition: Callable[[], T | None], timeout: float = TIMEOUT_SECONDS) -> T:
        """Wait until `condition` returns a true value. Return that value.

        It is called again whenever a request or an answer arrives. KeyError and IndexError count as false: a
        group, for example, may not exist yet. Raises: NotInTime after `timeout` real seconds, with a report.
        """
        deadline = time.monotonic() + timeout
        while True:
            found, last = evaluate(condition)
            if found:
                return found
            if time.monotonic() >= deadline:
                raise not_in_time_error(condition, timeout, last, self.report())
            self._core.watch.wait_for_change(CHECK_EVERY_SECONDS)

    # -- expectations -----------------------------------------------------------------------------------

    expect_commit = _waiting(expectations.commit)
    expect_members = _waiting(expectations.members)
    expect_records = _waiting(expectations.records)
    expect_request = _waiting(expectations.request)
    expect_no_lag = _waiting(expectations.no_lag)
    expect_no_rebalance = expectations.no_rebalance
