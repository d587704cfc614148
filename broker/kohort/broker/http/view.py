"""What the HTTP pages look at: the few facts about a broker that they show."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from kohort.broker.group.group import Group
from kohort.broker.lag import PartitionLag
from kohort.broker.metadata import TopicState
from kohort.broker.runtime.counters import BrokerCounters

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


class LogFacts(Protocol):
    """A partition's log."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def size_bytes(self) -> int:
        """The size of all its segments."""
        ...


class PartitionFacts(Protocol):
    """A partition; its log is there once it was opened."""

    @property
    def topic(self) -> str:
        """The topic's name."""
        ...

    @property
    def index(self) -> int:
        """The number of the partition in its topic."""
        ...

    @property
    def opened(self) -> bool:
        """Whether the log has been opened: that happens at the first use."""
        ...

    @property
    def offline(self) -> Exception | None:
        """Why the partition does not serve, if so."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset before which readers see everything."""
        ...

    @property
    def log(self) -> LogFacts:
        """The log."""
        ...


class View(Protocol):
    """What the pages show."""

    counters: BrokerCounters
    cluster_id: str
    node_id: int

    def connections(self) -> int:
        """Return how many Kafka clients are connected."""
        ...

    def fetch_sessions(self) -> int:
        """Return how many incremental fetch sessions are kept."""
        ...

    def fetch_sessions_evicted(self) -> int:
        """Return how many have made room for others."""
        ...

    def loading(self) -> list[int]:
        """Return the partitions of `__consumer_offsets` whose groups cannot be asked yet."""
        ...

    def partitions(self) -> Iterable[PartitionFacts]:
        """Return every partition of this broker."""
        ...

    def partition(self, topic: str, index: int) -> PartitionFacts | None:
        """Return one partition."""
        ...

    def groups(self) -> Iterator[Group]:
        """Return every group that is loaded."""
        ...

    def group(self, group_id: str) -> Group | None:
        """Return one group."""
        ...

    def shards(self) -> Mapping[str, int]:
        """Return how many partitions of `__consumer_offsets` are active, loading and failed."""
        ...

    def topics(self) -> Iterable[TopicState]:
        """Return every topic of the cluster."""
        ...

    def brokers(self) -> int:
        """Return how many brokers the cluster has."""
        ...

    async def lag(self, groups: Iterable[Group]) -> list[PartitionLag]:
        """Return how far behind these groups are."""
        ...


class BrokerView:
    """A broker, looked at from the loop's thread."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.counters = broker.counters
        self.cluster_id = broker.cluster_id
        self.node_id = broker.node_id

    def connections(self) -> int:
        """Return how many Kafka clients are connected."""
        return self._broker.reactor.connections

    def fetch_sessions(self) -> int:
        """Return how many incremental fetch sessions are kept."""
        return len(self._broker.fetch_sessions)

    def fetch_sessions_evicted(self) -> int:
        """Return how many have made room for others."""
        return self._broker.fetch_sessions.evictions

    def loading(self) -> list[int]:
        """Return the partitions of `__consumer_offsets` whose groups cannot be asked yet."""
        return self._broker.coordinators.loading

    def partitions(self) -> Iterable[PartitionFacts]:
        """Return every partition of this broker."""
        return iter(self._broker.partitions)

    def partition(self, topic: str, index: int) -> PartitionFacts | None:
        """Return one partition."""
        return self._broker.partitions.get(topic, index)

    def groups(self) -> Iterator[Group]:
        """Return every group that is loaded."""
        return self._broker.coordinators.groups()

    def group(self, group_id: str) -> Group | None:
        """Return one group."""
        return self._broker.coordinators.group(group_id)

    def shards(self) -> Mapping[str, int]:
        """Return how many partitions of `__consumer_offsets` are active, loading and failed."""
        return self._broker.coordinators.shard_counts()

    def topics(self) -> Iterable[TopicState]:
        """Return every topic of the cluster."""
        return self._broker.metadata.snapshot().topics.values()

    def brokers(self) -> int:
        """Return how many brokers the cluster has."""
        return len(self._broker.metadata.snapshot().brokers)

    async def lag(self, groups: Iterable[Group]) -> list[PartitionLag]:
        """Return how far behind these groups are."""
        return await self._broker.lag.of(groups)
