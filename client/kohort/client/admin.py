"""The asynchronous admin client, under trio and asyncio."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Never, Self, Unpack

from kohort.client.acls import EVERY_ACL, Acl, AclFilter
from kohort.client.admin_acls import AclAdmin
from kohort.client.admin_cluster import ClusterAdmin
from kohort.client.admin_configs import ConfigAdmin, changes_of
from kohort.client.admin_groups import REMOVED, GroupAdmin
from kohort.client.admin_quotas import QuotaAdmin
from kohort.client.admin_topics import TopicAdmin
from kohort.client.admin_users import UserAdmin
from kohort.client.admin_values import (
    ClusterDescription,
    ConfigEntry,
    ElectionType,
    Features,
    FeatureUpgrade,
    GroupDescription,
    GroupListing,
    LogDirectory,
    NewTopic,
    PartitionReassignment,
    ResourceType,
    ShareGroupOffset,
    TopicDetails,
)
from kohort.client.arguments import by_name_alone, one_by_one
from kohort.client.client_metrics import RequestMetrics
from kohort.client.cluster import Cluster
from kohort.client.cluster_connection import ClusterConnection, options_with
from kohort.client.config import AdminOptions, admin_config, describe_servers
from kohort.client.metrics import MetricName, Metrics
from kohort.client.offsets import list_offsets
from kohort.client.quotas import EVERY_QUOTA, QuotaEntity
from kohort.client.start_stop import StartStop
from kohort.client.unclosed import OpenTasks, no_words
from kohort.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicDescription, TopicPartition


class Admin(StartStop):
    """Asks and changes what a cluster holds: topics, settings, groups, offsets.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topics(NewTopic("flights", partitions=8))

    Everything raises a BrokerError with Kafka's code where a broker refuses; what is about several
    things an ItemsError, which has the error of each and what succeeded. What fails for a while only is
    tried again within default_api_timeout_ms.
    """

    def __init__(
        self, *unnamed: Never, cluster: ClusterConnection | None = None, **options: Unpack[AdminOptions]
    ) -> None:
        by_name_alone(unnamed, "Admin(bootstrap_servers=...)")
        config = admin_config(options_with(cluster, options))
        self._shared = cluster  # As long as this client is held, its connection is.
        self._cluster = Cluster(config, None if cluster is None else cluster.shared)
        self._metrics = Metrics(config.client_id)
        RequestMetrics(self._metrics, "admin-client-metrics", self._cluster)
        self._topics = TopicAdmin(self._cluster)
        self._configs = ConfigAdmin(self._cluster)
        self._acls = AclAdmin(self._cluster)
        self._users = UserAdmin(self._cluster)
        self._quotas = QuotaAdmin(self._cluster)
        self._groups = GroupAdmin(self._cluster)
        self._cluster_admin = ClusterAdmin(self._cluster)

    def __repr__(self) -> str:
        return f"<aio.Admin of {describe_servers(self._cluster.config)}>"

    def __del__(self) -> None:
        if "_open" in self.__dict__:
            self._open.end_soon(self, no_words, 0)

    async def __aenter__(self) -> Self:
        await self._cluster.__aenter__()
        self._open = OpenTasks(self._cluster)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._cluster.__aexit__(kind, error, trace)

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id and brokers."""
        return await self._topics.describe_cluster()

    async def list_topics(self, *, include_internal: bool = False) -> tuple[str, ...]:
        """Return the names of the topics, sorted."""
        return await self._topics.names(include_internal=include_internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicDescription]:
        """Return these topics with their partitions. Raises: ItemsError if one does not exist."""
        return await self._topics.describe(names)

    async def describe_topic_partitions(self, *names: str) -> dict[str, TopicDetails]:
        """Return these topics with the replicas that may lead (KIP-966), page by page."""
        return await self._topics.details(names)

    async def create_topics(self, *topics: NewTopic, validate_only: bool = False) -> None:
        """Make these topics, or check that they could be made."""
        await self._topics.create(topics, validate_only=validate_only)

    async def delete_topics(self, *names: str) -> None:
        """Delete these topics."""
        await self._topics.delete(names)

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Give each topic more partitions, up to this number."""
        await self._topics.create_partitions(counts, validate_only=validate_only)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before these offsets; return the new first offsets."""
        return await self._topics.delete_records(offsets)

    async def describe_configs(self, resource: ResourceType, name: str) -> dict[str, ConfigEntry]:
        """Return the settings of a topic, a broker (its id as the name) or a group."""
        return await self._configs.describe(resource, name)

    async def alter_configs(
        self,
        resource: ResourceType,
        name: str,
        *,
        values: Mapping[str, str] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Set some settings and take others back to their defaults; the rest stays.

        `append` and `subtract` add to settings that are lists, and take away from them.
        """
        changes = changes_of(values, tuple(delete), append, subtract)
        await self._configs.alter(resource, name, changes, validate_only=validate_only)

    async def list_acls(self, wanted: AclFilter = EVERY_ACL) -> tuple[Acl, ...]:
        """Return the access control entries that a filter takes."""
        return await self._acls.listed(wanted)

    async def create_acls(self, *acls: Acl) -> None:
        """Have these access control entries count; those that are there stay."""
        await self._acls.create(acls)

    async def delete_acls(self, *filters: AclFilter) -> tuple[Acl, ...]:
        """Remove the access control entries that these filters take, and return them."""
        return await self._acls.delete(filters)

    async def describe_quotas(self, wanted: QuotaEntity = EVERY_QUOTA) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of every entity that has what `wanted` names, by their keys."""
        return await self._quotas.described(wanted)

    async def alter_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, such as `producer_byte_rate`; None removes one, and the rest stay."""
        await self._quotas.alter(entity, changes)

    async def describe_users(self, *names: str) -> dict[str, dict[str, int]]:
        """Return of these users of SCRAM, or of all, each mechanism with its iterations."""
        return await self._users.describe(names)

    async def set_user_password(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Iterable[str] = ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        iterations: int = 4_096,
    ) -> None:
        """Let a user of SCRAM have this password, and no other; the broker does not learn it."""
        await self._users.set_password(name, password, tuple(mechanisms), iterations)

    async def delete_user(self, name: str, *mechanisms: str) -> None:
        """Take a user's passwords away, by these mechanisms or by all."""
        await self._users.delete(name, mechanisms)

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[GroupListing, ...]:
        """Return the groups of all brokers, sorted; of these states and types only, if given."""
        return await self._groups.listing(tuple(states), tuple(types))

    async def describe_groups(self, *group_ids: str) -> dict[str, GroupDescription]:
        """Return these groups, of any type, with their members. Raises: ItemsError if one is not there."""
        return await self._groups.describe(group_ids)

    async def delete_groups(self, *group_ids: str) -> None:
        """Delete these groups with their offsets; they must be empty."""
        await self._groups.delete(group_ids)

    async def remove_group_members(
        self,
        group_id: str,
        *,
        member_ids: Iterable[str] = (),
        group_instance_ids: Iterable[str] = (),
        reason: str = REMOVED,
    ) -> None:
        """Make these members leave the group, or all if none is named."""
        await self._groups.remove_members(group_id, tuple(member_ids), tuple(group_instance_ids), reason)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what a group has committed, of all partitions or of these."""
        return (await self._groups.offsets({group_id: partitions}))[group_id]

    async def list_offsets_of_groups(
        self, groups: Mapping[str, Iterable[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return what each group has committed, of all partitions (None) or of those given."""
        return await self._groups.offsets(groups)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit in the name of a group that has no members."""
        await self._groups.alter_offsets(group_id, offsets)

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return where a share group begins, of all partitions or of these. Raises: ItemsError."""
        from kohort.client.admin_share_groups import share_offsets  # noqa: PLC0415  # Few ask.

        return await share_offsets(self._cluster, group_id, partitions)

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a share group that has no members begin at these offsets. Raises: ItemsError."""
        from kohort.client.admin_share_groups import alter_share_offsets  # noqa: PLC0415

        await alter_share_offsets(self._cluster, group_id, offsets)

    async def delete_share_group_offsets(self, group_id: str, *topics: str) -> None:
        """Let a share group that has no members forget what it has done of topics. Raises: ItemsError."""
        from kohort.client.admin_share_groups import delete_share_offsets  # noqa: PLC0415

        await delete_share_offsets(
            self._cluster, group_id, one_by_one(topics, str, "delete_share_group_offsets")
        )

    async def delete_group_offsets(self, group_id: str, *partitions: TopicPartition) -> None:
        """Let a group forget its offsets of partitions to which it does not subscribe."""
        await self._groups.delete_offsets(group_id, partitions)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first offset at or after each time in ms, or for LATEST, EARLIEST, MAX_TIMESTAMP."""
        return await self._cluster.retrying(lambda: list_offsets(self._cluster, timestamps))

    async def describe_log_dirs(self, *broker_ids: int) -> dict[int, dict[str, LogDirectory]]:
        """Return the data folders of these brokers, or of all, by path, with the size of each replica."""
        return await self._cluster_admin.log_directories(broker_ids)

    async def elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, bool]:
        """Return of these partitions, or of all (None), which elected; False where it was not needed."""
        return await self._cluster_admin.elect(election_type, partitions)

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Begin to move partitions to these brokers, or with None give up a move that is going on."""
        await self._cluster_admin.reassign(targets, may_change_factor=allow_replication_factor_change)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the partitions, of these or of all, that are being moved."""
        return await self._cluster_admin.reassignments(partitions)

    async def unregister_broker(self, broker_id: int) -> None:
        """Take a broker out of the cluster that has gone for good; its replicas stay assigned to it."""
        await self._cluster_admin.unregister(broker_id)

    async def describe_features(self) -> Features:
        """Return what brokers support, and the levels that the cluster has agreed on (KIP-584)."""
        return await self._cluster_admin.features()

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Give features these levels; 0 takes a feature away. A lower level needs another `upgrade`."""
        await self._cluster_admin.update_features(levels, upgrade, validate_only=validate_only)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what this client counts, under the names of Kafka's Java client."""
        return self._metrics.read()
