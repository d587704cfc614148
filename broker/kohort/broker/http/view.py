"""What the HTTP pages look at: the few facts about a broker that they show."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.explain.history import GroupRebalances
from kohort.broker.group.group import AnyGroup
from kohort.broker.http.replica_facts import ReplicaFacts
from kohort.broker.http.view_facts import HealthFacts, PartitionFacts, QuotaUse
from kohort.broker.lag import PartitionLag
from kohort.broker.metadata import BrokerState, TopicState
from kohort.broker.metadata.leadership_counters import LeadershipCounters
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.transport.counters import TransportCounters

if TYPE_CHECKING:
    from kohort.broker.authorization.acls import Binding
    from kohort.broker.explain.share_groups import ShareGroupExplained
    from kohort.broker.http.asking import Ask
    from kohort.broker.http.brokers import Brokers
    from kohort.broker.http.page_parts import T
    from kohort.broker.lag.ends import Ends
    from kohort.broker.telemetry.taking import ClientMetrics


class Counters(msgspec.Struct, frozen=True):
    """What each part of the broker has counted."""

    transport: TransportCounters
    partitions: PartitionCounters
    groups: GroupCounters
    leaderships: LeadershipCounters = msgspec.field(default_factory=LeadershipCounters)


class PageLimits(msgspec.Struct, frozen=True):
    """How much of what a page may show has a row of its own."""

    groups_max: int = 1_000
    partitions_max: int = 5_000


class View(Protocol):
    """What the pages show."""

    counters: Counters
    cluster_id: str
    node_id: int
    limits: PageLimits

    @property
    def health(self) -> HealthFacts:
        """How the broker's parts fare."""
        ...

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

    def failed(self) -> list[int]:
        """Return those of them that nobody loads any more, since it failed too often."""
        ...

    def partitions(self) -> Iterable[PartitionFacts]:
        """Return every partition of this broker."""
        ...

    def partition(self, topic: str, index: int) -> PartitionFacts | None:
        """Return one partition."""
        ...

    def groups(self) -> Iterator[AnyGroup]:
        """Return every group that is loaded."""
        ...

    def group(self, group_id: str) -> AnyGroup | None:
        """Return one group."""
        ...

    def rebalances(self, group_id: str) -> GroupRebalances:
        """Return the rebalances of a group that is loaded."""
        ...

    def is_loading(self, group_id: str) -> bool:
        """Return whether this broker coordinates a group whose partition is being loaded: it may be there."""
        ...

    def share_group(self, group_id: str) -> "ShareGroupExplained | None":
        """Return what this broker knows of a share group, None where that is nothing."""
        ...

    def telemetry(self) -> "ClientMetrics | None":
        """Return what clients have sent of their metrics, None while nobody asks for any."""
        ...

    def shards(self) -> Mapping[str, int]:
        """Return how many partitions of `__consumer_offsets` are active, loading and failed."""
        ...

    def topics(self) -> Iterable[TopicState]:
        """Return every topic of the cluster."""
        ...

    def replicas(self) -> ReplicaFacts:
        """Return how many replicas are in sync, moving, led, and not."""
        ...

    def brokers(self) -> int:
        """Return how many brokers the cluster has."""
        ...

    def controller(self) -> int:
        """Return the id of the cluster's controller, -1 where there is none now."""
        ...

    def others(self) -> "Brokers | None":
        """Return the other brokers of the cluster, None where there is no cluster."""
        ...

    def catching_up(self) -> list[str]:
        """Return in words which replicas have not been in sync since the start."""
        ...

    def broker_states(self) -> Iterable[BrokerState]:
        """Return the brokers, each with the address at which clients reach it."""
        ...

    def acl_bindings(self) -> "Iterable[Binding]":
        """Return the access control entries, each with its pattern; none where they may not be shown."""
        ...

    def topic(self, name: str) -> TopicState | None:
        """Return one topic."""
        ...

    def topic_settings(self, name: str) -> list[tuple[str, str | None, bool]]:
        """Return name and value of every setting of a topic, and whether it was set for this one."""
        ...

    def answers_agents(self) -> bool:
        """Return whether agents may ask at `/mcp`."""
        ...

    def shows_messages(self) -> bool:
        """Return whether records may be shown."""
        ...

    def schema_registry(self) -> str | None:
        """Return the URLs of the schema registry that decodes records, with commas between; None without."""
        ...

    def looked_at(self, topic: str, user: str, host: str) -> None:
        """Note who wants to see records of a topic; `user` is the name of the secret that was shown."""
        ...

    def quota_uses(self) -> "Iterable[QuotaUse]":
        """Return how much of their quotas the clients use that used them last."""
        ...

    def asks(self) -> "Ask | None":
        """Return what asks the broker to change something, None where the page may only look."""
        ...

    def reads(self) -> "Ask":
        """Return what asks the broker as a Kafka client would, for requests that change nothing."""
        ...

    def part(self, name: str, make: "Callable[[], T]") -> "T":
        """Return what the pages keep and run by that name, made and started for the first who asks."""
        ...

    async def open_partition(self, topic: str, index: int) -> PartitionFacts | None:
        """Return a partition whose log is open; None where it is not here, or does not serve."""
        ...

    async def lag(self, groups: Iterable[AnyGroup]) -> list[PartitionLag]:
        """Return how far behind these groups are."""
        ...

    def behind(self, group: AnyGroup) -> Iterator[int | None]:
        """Yield how far behind a group is in each partition, by what is known without asking anybody."""
        ...

    async def ends(self, places: Iterable[tuple[str, int]]) -> "Mapping[tuple[str, int], Ends]":
        """Return where partitions begin and end, whoever leads them; without those nobody can tell of."""
        ...
