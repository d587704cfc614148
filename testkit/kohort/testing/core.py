"""A test's broker behind `Broker` and `AsyncBroker`: its folder, its clock, and its runs."""

import atexit
import errno
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import kohort.broker.lean_imports  # noqa: F401  # isort: skip  # Before structlog.
from kohort.broker import ephemeral
from kohort.broker.broker import Broker as RealBroker
from kohort.broker.config import ConfigError
from kohort.broker.transport.addresses import Address
from kohort.testing import logs
from kohort.testing.api_versions import ApiLimits
from kohort.testing.clock import MovableClock
from kohort.testing.errors import BrokerFailed
from kohort.testing.folder_copy import FolderCopy
from kohort.testing.running import RunningBroker
from kohort.testing.settings import SettingValue, broker_config, dotted
from kohort.testing.topics import create_topics
from kohort.testing.watch import Watch

if TYPE_CHECKING:
    from kohort.testing.schema_registry import RunningRegistry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A prepared broker, from which many brokers start: `Broker(snapshot=snapshot)`. Any thread."""

    settings: Mapping[str, SettingValue] = field(repr=False)
    data: FolderCopy = field(repr=False)
    ahead_seconds: float
    """How far its time is ahead of real time."""

    @property
    def size_bytes(self) -> int:
        """The size of its data, which is in memory."""
        return self.data.size_bytes


Topics = Iterable[str] | Mapping[str, int]

HOST = "127.0.0.1"
PORT_MAX = 65_535
PORT_SECONDS_MAX = 2.0  # A client that reconnects may have taken the broker's port for a moment.
PORT_RETRY_SECONDS = 0.02


class Core:
    """A broker that can be started, stopped and started again. Any thread, one at a time."""

    def __init__(
        self,
        topics: Topics,
        settings: Mapping[str, SettingValue],
        *,
        http: bool,
        port: int,
        schema_registry: bool = False,
        snapshot: Snapshot | None = None,
        api_versions: str | None = None,
    ) -> None:
        """Configure the broker. It starts with the data of `snapshot`. Raises: ConfigError."""
        self._snapshot = snapshot
        names = {dotted(name): value for name, value in settings.items()}
        self._settings = {**(snapshot.settings if snapshot is not None else {}), **names}
        limits = None if api_versions is None else ApiLimits(api_versions)
        self.config = broker_config({**(limits.settings if limits is not None else {}), **self._settings})
        self.topics = topics
        if not 0 <= port <= PORT_MAX:
            raise ConfigError(
                f"a port is a number from 1 to {PORT_MAX}, or 0 for any that is free, not {port}"
            )
        self.kafka = Address(HOST, port)
        self.http = Address(HOST, 0) if http else None
        self.registry = Address(HOST, 0) if schema_registry else None
        self._running_registry: RunningRegistry | None = None
        self.clock = MovableClock()
        if snapshot is not None:
            self.clock.advance(snapshot.ahead_seconds)
        self.watch = Watch(self.clock, limits)
        self.began = time.monotonic()
        self.is_closed = False
        self._stack = ExitStack()
        self._folder: Path | None = None
        self._run: RunningBroker | None = None

    def start(self) -> None:
        """Start, with the data and the address of the last run, if there was one.

        Raises: BrokerFailed after `close`, ApiError for an invalid topic, OSError.
        """
        if self.is_closed:
            raise BrokerFailed("this broker was closed, and its data is removed: create another one")
        if self._run is not None:
            return
        is_new = self._folder is None
        logs.hide_broker_logs()
        _open.add(self)
        try:
            if self._folder is None:
                self._folder = self._stack.enter_context(ephemeral.throw_away_folder())
                if self._snapshot is not None:
                    self._snapshot.data.write(self._folder)
            self._run = self._begin()
            self.kafka, self.http = self._run.kafka, self._run.http
            if is_new and self.topics:
                create_topics(self._run, self.topics)
            if self.registry is not None:
                self.start_registry()
        except BaseException:
            self.close()
            raise

    def start_registry(self) -> None:
        """Start a schema registry beside the broker, at the address of the last one, if there was one.

        The live page decodes records by it.
        Raises: BrokerFailed where the broker does not run, OSError.
        """
        from kohort.testing.schema_registry import RunningRegistry  # noqa: PLC0415  # It imports the client.

        if self._running_registry is None:
            kafka = str(self.run.kafka)
            self._running_registry = self._until_free(
                lambda: RunningRegistry(kafka, self.registry or Address(HOST, 0))
            )
            self.registry = self._running_registry.address
            if self.http is not None:
                self.call(partial(_name_registry, self.registry))

    def _begin(self) -> RunningBroker:
        assert self._folder is not None
        folder = self._folder
        return self._until_free(
            lambda: RunningBroker(
                self.config, folder, self.clock, self.watch, kafka=self.kafka, http=self.http
            )
        )

    def _until_free(self, start: Callable[[], T]) -> T:
        """Return what `start` returns, as soon as its port is free. Raises: OSError where it stays taken."""
        deadline = time.monotonic() + PORT_SECONDS_MAX
        while True:
            try:
                return start()
            except OSError as error:
                is_taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
                if not is_taken or time.monotonic() > deadline:
                    raise
            time.sleep(PORT_RETRY_SECONDS)

    def snapshot(self) -> Snapshot:
        """Return the broker's settings and a copy of its data, as after a clean stop.

        The copy is read between two rounds of the loop, when everything that was answered is in the files.
        A second broker starts with it and stops, so that the brokers that follow have nothing to recover.

        Raises: BrokerFailed before the start and for a broker of a cluster, OSError.
        """
        folder = self._folder
        if self.config.kohort_cluster:
            raise BrokerFailed("a broker of a cluster has no snapshot: its metadata are in etcd")
        if folder is None or self.is_closed:
            raise BrokerFailed(f"the broker {self._state} and has no data: take the snapshot before its end")
        copy = partial(FolderCopy.of, folder)
        data = copy() if self._run is None else self.call(lambda broker: copy())
        with ephemeral.throw_away_folder() as clean:
            data.write(clean)
            watch, kafka = Watch(self.clock), Address(HOST, 0)
            RunningBroker(self.config, clean, self.clock, watch, kafka=kafka, http=None).close()
            return Snapshot(self._settings, FolderCopy.of(clean), self.clock.ahead_seconds)

    def stop(self) -> None:
        """Stop; the data stays. Raises: the broker's own error, if it has failed."""
        run, self._run = self._run, None
        registry, self._running_registry = self._running_registry, None
        try:
            if registry is not None:
                registry.close()
        finally:
            if run is not None:
                run.close()

    def close(self) -> None:
        """Stop, and remove the data. Raises: the broker's own error, if it has failed."""
        self.is_closed = True
        _open.discard(self)
        with self._stack:
            self.stop()

    @property
    def run(self) -> RunningBroker:
        """The current run. Raises: BrokerFailed if there is none."""
        if self._run is None:
            raise BrokerFailed(f"the broker {self._state}")
        return self._run

    @property
    def _state(self) -> str:
        return "was closed" if self.is_closed else "is stopped" if self.was_started else "was not started"

    @property
    def folder(self) -> Path:
        """Its data folder. Raises: BrokerFailed before the start."""
        if self._folder is None:
            raise BrokerFailed(f"the broker {self._state}")
        return self._folder

    @property
    def was_started(self) -> bool:
        """Whether it has an address and data."""
        return self._folder is not None

    @property
    def is_running(self) -> bool:
        """Whether the broker was started and not stopped."""
        return self._run is not None

    def call(self, function: Callable[[RealBroker], T]) -> T:
        """Call the function in the broker's thread and return its result. Raises: BrokerFailed."""
        return self.run.call(function)

    def call_async(self, function: Callable[[RealBroker], Awaitable[T]]) -> T:
        """Run the coroutine function in the broker and return its result. Raises: BrokerFailed."""
        return self.run.call_async(function)


def _name_registry(address: Address, broker: RealBroker) -> None:
    """Have the live page decode records by the registry at the address. The broker's thread only."""
    from kohort.broker.serving import with_own_registry  # noqa: PLC0415  # Few tests have a registry.

    broker.current.config = with_own_registry(broker.current.config, address)


_open: "weakref.WeakSet[Core]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close the brokers that a test has left open, to remove their folders."""
    for each in list(_open):
        each.close()
