"""What the HTTP pages show, read from the parts of this process."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from kohort.broker.config import BrokerConfig, ConfigSource, describe_topic
from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.explain.history import GroupRebalances
from kohort.broker.group import coordinator_partition
from kohort.broker.group.group import AnyGroup
from kohort.broker.http.page_parts import PageParts
from kohort.broker.http.replica_facts import ReplicaFacts, replica_facts
from kohort.broker.http.view import Counters, PageLimits
from kohort.broker.http.view_facts import HealthFacts, PartitionFacts, QuotaUse, SessionFacts
from kohort.broker.lag import LagWatch, PartitionLag
from kohort.broker.metadata import BrokerState, MetadataStore, TopicState
from kohort.broker.partitions import PartitionTable
from kohort.broker.transport.reactor import Reactor
from kohort.storage import StorageError

if TYPE_CHECKING:
    from kohort.broker.authorization.acls import Binding
    from kohort.broker.coordination.share_partitions import SharePartitions
    from kohort.broker.explain.share_groups import ShareGroupExplained
    from kohort.broker.http.asking import Ask
    from kohort.broker.http.brokers import Brokers
    from kohort.broker.http.catching_up import CatchingUp
    from kohort.broker.http.page_parts import T
    from kohort.broker.lag.ends import Ends
    from kohort.broker.runtime.other_brokers import OtherBrokers
    from kohort.broker.telemetry.taking import ClientMetrics

MESSAGES_ENABLE = "kohort.http.messages.enable"


class BrokerView:
    """A broker, looked at from the loop's thread."""

    def __init__(
        self,
        *,
        cluster_id: str,
        node_id: int,
        counters: Counters,
        limits: PageLimits,
        health: HealthFacts,
        reactor: Reactor,
        fetch_sessions: SessionFacts,
        group_shards: GroupShards,
        partitions: PartitionTable,
        metadata: MetadataStore,
        lag: LagWatch,
        current: CurrentConfig,
        asks: "Callable[[], Ask]",
        quota_uses: "Callable[[int], Iterable[QuotaUse]]",
        share_partitions: "Callable[[], SharePartitions | None]",
        telemetry: "Callable[[], ClientMetrics | None]",
        looked_at: Callable[[str, str, str], None],
        parts: PageParts,
        others: "OtherBrokers | None" = None,
        catching_up: "CatchingUp | None" = None,
    ) -> None:
        self._catching_up = catching_up
        self._others = others
        self._share_partitions = share_partitions
        self._asks = asks
        self._quota_uses = quota_uses
        self.telemetry = telemetry
        self._looked_at = looked_at
        self._parts = parts
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.counters = counters
        self.limits = limits
        self.health = health
        self._reactor = reactor
        self._fetch_sessions = fetch_sessions
        self._group_shards = group_shards
        self._partitions = partitions
        self._metadata = metadata
        self._lag = lag
        self._current = current

    def connections(self) -> int:
        """Return how many Kafka clients are connected."""
        return self._reactor.connections

    def fetch_sessions(self) -> int:
        """Return how many incremental fetch sessions are kept."""
        return len(self._fetch_sessions)

    def fetch_sessions_evicted(self) -> int:
        """Return how many have made room for others."""
        return self._fetch_sessions.evictions

    def loading(self) -> list[int]:
        """Return the partitions of `__consumer_offsets` whose groups cannot be asked yet."""
        return self._group_shards.inactive

    def failed(self) -> list[int]:
        """Return the ones that are no longer loaded, because loading failed too often."""
        return self._group_shards.failed

    def partitions(self) -> Iterable[PartitionFacts]:
        """Return every partition of this broker."""
        return iter(self._partitions)

    def partition(self, topic: str, index: int) -> PartitionFacts | None:
        """Return one partition."""
        return self._partitions.peek(topic, index)

    def groups(self) -> Iterator[AnyGroup]:
        """Return every group that is loaded."""
        return self._group_shards.groups()

    def group(self, group_id: str) -> AnyGroup | None:
        """Return one group."""
        return self._group_shards.group(group_id)

    def rebalances(self, group_id: str) -> GroupRebalances:
        """Return the rebalances of a group that is loaded."""
        return self._group_shards.rebalances(group_id)

    def is_loading(self, group_id: str) -> bool:
        """Return whether this broker coordinates a group whose partition is being loaded: it may be there."""
        loading = self._group_shards.inactive
        return bool(loading) and coordinator_partition(group_id, self._group_shards.partitions) in loading

    def share_group(self, group_id: str) -> "ShareGroupExplained | None":
        """Return what this broker knows of a share group, None where that is nothing."""
        # Imported at the first request.
        from kohort.broker.explain.share_groups import ShareGroupExplained, explain_group  # noqa: PLC0415
        from kohort.broker.group.share.group import ShareGroup  # noqa: PLC0415

        group, led = self._group_shards.find(group_id, ShareGroup), self._share_partitions()
        own = None if group is None else explain_group(group)
        partitions = () if led is None else led.explained(group_id)
        if own is None and not partitions:
            return None
        return ShareGroupExplained(
            group_id=group_id, broker_id=self.node_id, group=own, partitions=partitions
        )

    def shards(self) -> Mapping[str, int]:
        """Return how many partitions of `__consumer_offsets` are active, loading and failed."""
        return self._group_shards.shard_counts()

    def topics(self) -> Iterable[TopicState]:
        """Return every topic of the cluster."""
        return self._metadata.snapshot().topics.values()

    def replicas(self) -> ReplicaFacts:
        """Return how many replicas are in sync, moving, led, and not."""
        snapshot = self._metadata.snapshot()
        minimum = self._current.config.min_insync_replicas
        key = ReplicaFacts, self.node_id, minimum
        found = snapshot.memo.get(key)
        if found is None:
            found = snapshot.memo[key] = replica_facts(snapshot, self.node_id, minimum)
        return cast("ReplicaFacts", found)

    def brokers(self) -> int:
        """Return how many brokers the cluster has."""
        return len(self._metadata.snapshot().brokers)

    def controller(self) -> int:
        """Return the id of the cluster's controller, -1 where there is none now."""
        return self._metadata.snapshot().controller_id

    def others(self) -> "Brokers | None":
        """Return the other brokers of the cluster, None where there is no cluster."""
        if self._others is None:
            return None
        from kohort.broker.http.brokers import Brokers  # noqa: PLC0415  # A broker alone has none.

        return Brokers(self._metadata, self._others)

    def catching_up(self) -> list[str]:
        """Return in words which replicas have not been in sync since the start."""
        return [] if self._catching_up is None else self._catching_up.reasons()

    def acl_bindings(self) -> "Iterable[Binding]":
        """Return the access control entries, each with its pattern; none where they may not be shown."""
        from kohort.broker.authorization.acls import Filter  # noqa: PLC0415  # Few look at them.
        from kohort.broker.metadata.acls import bindings  # noqa: PLC0415

        return bindings(self._metadata.snapshot(), Filter()) if self.shows_messages() else ()

    def broker_states(self) -> Iterable[BrokerState]:
        """Return the brokers, each with the address at which clients reach it."""
        return self._metadata.snapshot().brokers

    def topic(self, name: str) -> TopicState | None:
        """Return one topic."""
        return self._metadata.snapshot().topics.get(name)

    def topic_settings(self, name: str) -> list[tuple[str, str | None, bool]]:
        """Return name and value of every setting of a topic, and whether it was set for this one."""
        topic = self.topic(name)
        own = {} if topic is None else topic.configs
        return [
            (each.name, each.value, each.name in own)
            for each in describe_topic(self._current.config, own)
            if not each.sensitive
        ]

    def answers_agents(self) -> bool:
        """Return whether agents may ask at `/mcp`."""
        return self._current.config.kohort_mcp_enable

    def shows_messages(self) -> bool:
        """Return whether records may be shown.

        The settings at the start decide: a user who may alter settings must not read records by that.
        Access control lists do not count here: with an authorizer the page must be closed to strangers.
        """
        return shows_records(self._current.config)

    def schema_registry(self) -> str | None:
        """Return the URLs of the schema registry that decodes records, with commas; None if there is none."""
        return self._current.config.kohort_schema_registry_url

    def looked_at(self, topic: str, user: str, host: str) -> None:
        """Note a request for records of a topic; `user` is the name of the secret in it."""
        self._looked_at(topic, user, host)

    def quota_uses(self) -> "Iterable[QuotaUse]":
        """Return how much clients use of their quotas; the clients that used them last."""
        return self._quota_uses(self.limits.groups_max)

    def asks(self) -> "Ask | None":
        """Return a function that sends the broker a request for a change; None if the page may not."""
        return self._asks() if self._current.config.kohort_http_writes_enable else None

    def reads(self) -> "Ask":
        """Return a function that sends the broker a Kafka request that changes nothing."""
        return self._asks()

    def part(self, name: str, make: "Callable[[], T]") -> "T":
        """Return the part of the pages by that name. The first call makes and starts it."""
        return self._parts.part(name, make)

    async def open_partition(self, topic: str, index: int) -> PartitionFacts | None:
        """Return a partition whose log is open; None where it is not here, or does not serve."""
        try:
            return await self._partitions.opened(topic, index)
        except StorageError:
            return None

    async def lag(self, groups: Iterable[AnyGroup]) -> list[PartitionLag]:
        """Return how far behind these groups are."""
        return await self._lag.of(groups)

    def behind(self, group: AnyGroup) -> Iterator[int | None]:
        """Yield the known lag of a group in each partition, without asking other brokers."""
        return self._lag.behind(group)

    async def ends(self, places: Iterable[tuple[str, int]]) -> "Mapping[tuple[str, int], Ends]":
        """Return where partitions begin and end, whichever broker leads them. Unknown ones are left out."""
        return await self._lag.ends_of(places)


def shows_records(config: BrokerConfig) -> bool:
    """Return whether records may be shown, by the settings at the start and the altered ones."""
    said = config.layer(ConfigSource.STATIC_BROKER).get(MESSAGES_ENABLE)
    if not config.kohort_http_messages_enable or said == "false":  # Earlier versions could alter it.
        return False
    return not config.authorizer_class_name or (
        said == "true" and config.kohort_http_credentials_file is not None
    )
