"""`Cluster`: several brokers in the test's own process, with replication, elections and failover."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from types import TracebackType
from typing import Self, TypeVar

from kohort.broker.broker import Broker as RealBroker
from kohort.broker.config import ConfigError
from kohort.broker.group import coordinator_partition
from kohort.broker.metadata import OFFSETS_TOPIC, PartitionState
from kohort.testing.broker import Broker
from kohort.testing.clock import BrokerClock
from kohort.testing.core import Topics
from kohort.testing.errors import BrokerFailed, NotInTime
from kohort.testing.groups import Group, Record
from kohort.testing.metadata_server import MetadataServer
from kohort.testing.settings import SettingValue, dotted
from kohort.testing.waiting import CHECK_EVERY_SECONDS, TIMEOUT_SECONDS, evaluate, not_in_time_error

T = TypeVar("T")

BROKERS = 3
REPLICAS_MAX = 3
START_SECONDS_MAX = 30.0
WEEK_MS = 7 * 24 * 3_600 * 1_000


class Cluster:
    """Brokers 1 to `brokers` of one cluster. They serve within a `with` block, or from `start` to `close`.

        with Cluster(topics={"orders": 3}) as cluster:
            cluster.leader("orders", 0).stop()

    Each is a test's `Broker`, with injected faults, recorded requests, stop and start. Topics have three
    replicas, or one on each broker if there are fewer. The metadata is in memory, in a server in this process
    with etcd's API. Everything else is what `kohort serve --cluster` runs. Any thread may use it.
    """

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        brokers: int = BROKERS,
        topics: Topics = (),
        **more_settings: SettingValue,
    ) -> None:
        """Configure the brokers. `settings` and `topics` are those of `Broker`. Raises: ConfigError."""
        if brokers < 1:
            raise ConfigError(f"a cluster has 1 broker or more, not {brokers}: give a number from 1 on")
        if find_spec("httpx") is None:
            raise ConfigError('a cluster needs httpx: pip install "kohort[cluster]"')
        given = {dotted(name): value for name, value in {**(settings or {}), **more_settings}.items()}
        self._metadata = MetadataServer()
        self._stack = ExitStack()
        self._stack.callback(self._metadata.close)
        self._topics = topics
        try:
            self.brokers: dict[int, Broker] = {
                number: Broker({**defaults(brokers), **given, **self._cluster_settings(number)})
                for number in range(1, brokers + 1)
            }
        except BaseException:
            self._stack.close()
            raise
        self.clock = BrokerClock(self.brokers[1]._core.clock, self._advance)
        """The brokers' time, which a test may advance."""

    def _cluster_settings(self, number: int) -> Mapping[str, SettingValue]:
        return {
            "kohort.cluster": f"etcd://127.0.0.1:{self._metadata.port}/test",
            "node.id": number,
            "broker.rack": f"rack-{number}",
        }

    # -- starting and ending ------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start. Return when every broker knows all others. Raises: BrokerFailed, NotInTime, ApiError."""
        try:
            with ThreadPoolExecutor(len(self.brokers)) as starters:
                list(starters.map(Broker.start, self.brokers.values()))
            self.until(self._is_complete, START_SECONDS_MAX)
            topics = self._topics if isinstance(self._topics, Mapping) else dict.fromkeys(self._topics)
            for name, partitions in topics.items():
                self.create_topic(name, partitions)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop every broker and remove their data. Raises: the error of a broker that has failed."""
        with self._stack:
            for each in self.brokers.values():
                self._stack.callback(each.close)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            for each in self.brokers.values():
                each._tell_failure()
            if not isinstance(error, NotInTime):
                error.add_note(self.report())
        self.close()

    def _is_complete(self) -> bool:
        """Whether every broker knows all others."""
        return all(
            len(each._core.call(lambda broker: broker.metadata.snapshot().brokers)) == len(self.brokers)
            for each in self.brokers.values()
        )

    # -- leaders and replicas -------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """The addresses for `bootstrap.servers`. Raises: BrokerFailed before the start."""
        return ",".join(each.bootstrap for each in self.brokers.values())

    def leader(self, topic: str, partition: int = 0) -> Broker:
        """Return a partition's leader. Raises: KeyError if there is none now."""
        return self.brokers[self._partition(topic, partition).leader]

    def in_sync(self, topic: str, partition: int = 0) -> frozenset[int]:
        """Return the node ids of the in-sync replicas. Raises: KeyError."""
        return frozenset(self._partition(topic, partition).isr)

    def coordinator(self, group_id: str) -> Broker:
        """Return a group's coordinator. Raises: KeyError if there is none now."""
        partitions = self._states(OFFSETS_TOPIC)
        return self.leader(OFFSETS_TOPIC, coordinator_partition(group_id, len(partitions)))

    def _partition(self, topic: str, partition: int) -> PartitionState:
        return self._states(topic)[partition]

    def _states(self, topic: str) -> Mapping[int, PartitionState]:
        """Return a topic's partitions by number, from the first running broker. Raises: KeyError."""

        def find(broker: RealBroker) -> Mapping[int, PartitionState]:
            return {each.index: each for each in broker.metadata.snapshot().topics[topic].partitions}

        return next(self._running())._core.call(find)

    def _running(self) -> Iterator[Broker]:
        """Return the running brokers. Raises: BrokerFailed if there are none."""
        running = [each for each in self.brokers.values() if each._core.is_running]
        if not running:
            raise BrokerFailed("no broker of this cluster is running")
        return iter(running)

    # -- groups and records ---------------------------------------------------------------------------------

    @property
    def groups(self) -> dict[str, Group]:
        """Every consumer group by its id, from its coordinator."""
        return {name: group for each in self._running() for name, group in each.groups.items()}

    def records(self, topic: str) -> tuple[Record, ...]:
        """Return a topic's records, partition by partition, from the leaders. Raises: KeyError."""
        leaders = {index: self.brokers[state.leader] for index, state in self._states(topic).items()}
        by_broker = {each: each.records(topic) for each in set(leaders.values())}
        return tuple(
            record
            for index, leader in sorted(leaders.items())
            for record in by_broker[leader]
            if record.partition == index
        )

    def create_topic(self, name: str, partitions: int | None = None, **configs: SettingValue) -> str:
        """Create a topic. Return its name once the leaders of its partitions serve.

        Raises: ApiError, NotInTime; BrokerFailed for a leader that has failed.
        """
        next(self._running()).create_topic(name, partitions, **configs)
        self.until(lambda: all(self._is_served(name, *each) for each in self._states(name).items()))
        return name

    def _is_served(self, topic: str, index: int, state: PartitionState) -> bool:
        """Whether the leader knows that it leads this partition."""
        leader = self.brokers.get(state.leader)
        if leader is None or not leader._core.is_running:
            return False
        served = leader._core.call(lambda broker: broker.partitions.get(topic, index))
        return served is not None and served.error_code is None

    def until(self, condition: Callable[[], T | None], timeout: float = TIMEOUT_SECONDS) -> T:
        """Wait until `condition` returns a true value, like `Broker.until`. Raises: NotInTime."""
        deadline = time.monotonic() + timeout
        while True:
            found, last = evaluate(condition)
            if found:
                return found
            if time.monotonic() >= deadline:
                raise not_in_time_error(condition, timeout, last, self.report())
            time.sleep(CHECK_EVERY_SECONDS)

    def report(self) -> str:
        """Return a readable report of each broker."""
        return "\n".join(f"broker {number}: {each.report()}" for number, each in self.brokers.items())

    def _advance(self, seconds: float, alive: Iterable[str]) -> None:
        names = tuple(alive)
        for each in self.brokers.values():
            each.clock.advance(seconds, alive=names)


def defaults(brokers: int) -> Mapping[str, SettingValue]:
    """Return the default settings of a broker in a test's cluster of this size."""
    replicas = min(brokers, REPLICAS_MAX)
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": brokers,
        "replica.lag.time.max.ms": WEEK_MS,  # Advancing the time must not remove replicas from the ISR.
    }
