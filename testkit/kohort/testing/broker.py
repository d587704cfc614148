"""`Broker`: a Kafka broker in a thread of the test's own process."""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from kohort.testing.aio import AsyncBroker
from kohort.testing.core import Core, Topics
from kohort.testing.face import Face
from kohort.testing.settings import SettingValue
from kohort.testing.topics import create_topics
from kohort.testing.waiting import LOOK_EVERY_SECONDS, TIMEOUT_SECONDS, look, not_in_time

T = TypeVar("T")


class Broker(Face):
    """A broker for a test, which serves within a `with` block, or from `start` to `close`.

        with Broker(topics={"orders": 3}) as broker:
            Producer({"bootstrap.servers": broker.bootstrap})

    Its data is in memory where the machine has some to write files to, it syncs nothing, and all is gone when
    the broker is closed. Any thread may use it. `async with` gives an `AsyncBroker`, on asyncio and on trio.
    """

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        topics: Topics = (),
        http: bool = False,
        port: int = 0,
        **more_settings: SettingValue,
    ) -> None:
        """Take what the broker is to be; it starts with the block.

        Settings have Kafka's names: `Broker({"num.partitions": 4})`, or with underscores as keywords:
        `Broker(num_partitions=4)`. `topics` are made at the start, with their number of partitions if that is
        said. `http` serves `/metrics`, `/health` and `/api` as well. `port` is for applications that know one
        address alone; any free one unless told. Its number is 1: `Broker(node_id=0)` gives it another.
        Raises: ConfigError for a wrong setting.
        """
        super().__init__(Core(topics, {**(settings or {}), **more_settings}, http=http, port=port))

    @property
    def aio(self) -> AsyncBroker:
        """The same broker for asyncio and trio: its waiting methods are coroutines."""
        return AsyncBroker(self._core)

    def start(self) -> Self:
        """Serve, from now on or again, with the same address and data; return the broker itself."""
        self._core.start()
        return self

    def stop(self) -> None:
        """Go away: connections are cut, and clients find nobody until `start`. The data stays."""
        self._core.stop()

    def restart(self) -> None:
        """Go away, and return at the same address with the same data."""
        self._core.stop()
        self._core.start()

    def close(self) -> None:
        """End the broker, and remove its data. Raises: what the broker has failed with, if it has."""
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

    def create_topic(self, name: str, partitions: int | None = None, **configs: SettingValue) -> str:
        """Make a topic, with `num.partitions` partitions unless told; return its name. Raises: ApiError."""
        create_topics(self._core.run, {name: partitions}, configs)
        return name

    def until(self, condition: Callable[[], T | None], timeout: float = TIMEOUT_SECONDS) -> T:
        """Return what `condition` gives as soon as that is true; it is asked whenever something happens.

        It is asked again also where it fails with KeyError or IndexError, as a group does that is not there
        yet. Raises: NotInTime after `timeout` real seconds, with what the broker has seen.
        """
        deadline = time.monotonic() + timeout
        while True:
            found, last = look(condition)
            if found:
                return found
            if time.monotonic() >= deadline:
                raise not_in_time(condition, timeout, last, self.report())
            self._core.watch.wait_for_change(LOOK_EVERY_SECONDS)
