"""The blocking admin client."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Never, Self, Unpack

from kohort.client import admin
from kohort.client.acls import EVERY_ACL, Acl, AclFilter
from kohort.client.admin_groups import REMOVED
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
from kohort.client.blocking.cluster_connection import ClusterConnection
from kohort.client.config import AdminOptions
from kohort.client.loop_thread import LoopThread, close_at_exit
from kohort.client.metrics import MetricName
from kohort.client.quotas import EVERY_QUOTA, QuotaEntity
from kohort.client.unclosed import end_soon, no_words
from kohort.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicDescription, TopicPartition


class Admin:
    """Asks and changes what a cluster holds: topics, settings, groups, offsets.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topics(NewTopic("flights", partitions=8))

    Everything raises a BrokerError with Kafka's code where a broker refuses; what is about several
    things an ItemsError, which has the error of each and what succeeded. What fails for a while only is
    tried again within default_api_timeout_ms.
    """

    def __init__(
        self, *unnamed: Never, cluster: ClusterConnection | None = None, **options: Unpack[AdminOptions]
    ) -> None:
        shared = None if cluster is None else cluster.connection
        self._admin = admin.Admin(*unnamed, cluster=shared, **options)
        self._loop = LoopThread(self._admin, "kohort-admin", host=None if cluster is None else cluster.loop)
        self._shared = cluster  # As long as this client is held, its connection is.
        self._not_at_exit = close_at_exit(self.close)

    def __repr__(self) -> str:
        state = "" if self._loop.is_running else "closed "
        return repr(self._admin).replace("<aio.", f"<{state}")

    def __del__(self) -> None:
        if "_not_at_exit" in self.__dict__ and self._loop.is_running:
            self._not_at_exit()
            end_soon(self, self._loop, no_words, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._not_at_exit()
        self._loop.stop()

    def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id and brokers."""
        return self._loop.call(self._admin.describe_cluster)

    def list_topics(self, *, include_internal: bool = False) -> tuple[str, ...]:
        """Return the names of the topics, sorted."""
        return self._loop.call(self._admin.list_topics, include_internal=include_internal)

    def describe_topics(self, *names: str) -> dict[str, TopicDescription]:
        """Return these topics with their partitions. Raises: ItemsError if one does not exist."""
        return self._loop.call(self._admin.describe_topics, *names)

    def describe_topic_partitions(self, *names: str) -> dict[str, TopicDetails]:
        """Return these topics with the replicas that may lead (KIP-966), page by page."""
        return self._loop.call(self._admin.describe_topic_partitions, *names)

    def create_topics(self, *topics: NewTopic, validate_only: bool = False) -> None:
        """Make these topics, or check that they could be made."""
        self._loop.call(self._admin.create_topics, *topics, validate_only=validate_only)

    def delete_topics(self, *names: str) -> None:
        """Delete these topics."""
        self._loop.call(self._admin.delete_topics, *names)

    def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Give each topic more partitions, up to this number."""
        self._loop.call(self._admin.create_partitions, counts, validate_only=validate_only)

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before these offsets; return the new first offsets."""
        return self._loop.call(self._admin.delete_records, offsets)

    def describe_configs(self, resource: ResourceType, name: str) -> dict[str, ConfigEntry]:
        """Return the settings of a topic, a broker (its id as the name) or a group."""
        return self._loop.call(self._admin.describe_configs, resource, name)

    def alter_configs(
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
        self._loop.call(
            self._admin.alter_configs,
            resource,
            name,
            values=values,
            delete=delete,
            append=append,
            subtract=subtract,
            validate_only=validate_only,
        )

    def list_acls(self, wanted: AclFilter = EVERY_ACL) -> tuple[Acl, ...]:
        """Return the access control entries that a filter takes."""
        return self._loop.call(self._admin.list_acls, wanted)

    def create_acls(self, *acls: Acl) -> None:
        """Have these access control entries count; those that are there stay."""
        self._loop.call(self._admin.create_acls, *acls)

    def delete_acls(self, *filters: AclFilter) -> tuple[Acl, ...]:
        """Remove the access control entries that these filters take, and return them."""
        return self._loop.call(self._admin.delete_acls, *filters)

    def describe_quotas(self, wanted: QuotaEntity = EVERY_QUOTA) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of every entity that has what `wanted` names, by their keys."""
        return self._loop.call(self._admin.describe_quotas, wanted)

    def alter_quotas(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, such as `producer_byte_rate`; None removes one, and the rest stay."""
        self._loop.call(self._admin.alter_quotas, entity, changes)

    def describe_users(self, *names: str) -> dict[str, dict[str, int]]:
        """Return of these users of SCRAM, or of all, each mechanism with its iterations."""
        return self._loop.call(self._admin.describe_users, *names)

    def set_user_password(
        self,
        name: str,
        password: str,
        *,
        mechanisms: Iterable[str] = ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        iterations: int = 4_096,
    ) -> None:
        """Let a user of SCRAM have this password, and no other; the broker does not learn it."""
        self._loop.call(
            self._admin.set_user_password, name, password, mechanisms=mechanisms, iterations=iterations
        )

    def delete_user(self, name: str, *mechanisms: str) -> None:
        """Take a user's passwords away, by these mechanisms or by all."""
        self._loop.call(self._admin.delete_user, name, *mechanisms)

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[GroupListing, ...]:
        """Return the groups of all brokers, sorted; of these states and types only, if given."""
        return self._loop.call(self._admin.list_groups, states=states, types=types)

    def describe_groups(self, *group_ids: str) -> dict[str, GroupDescription]:
        """Return these groups, of any type, with their members. Raises: ItemsError if one is not there."""
        return self._loop.call(self._admin.describe_groups, *group_ids)

    def delete_groups(self, *group_ids: str) -> None:
        """Delete these groups with their offsets; they must be empty."""
        self._loop.call(self._admin.delete_groups, *group_ids)

    def remove_group_members(
        self,
        group_id: str,
        *,
        member_ids: Iterable[str] = (),
        group_instance_ids: Iterable[str] = (),
        reason: str = REMOVED,
    ) -> None:
        """Make these members leave the group, or all if none is named."""
        self._loop.call(
            self._admin.remove_group_members,
            group_id,
            member_ids=member_ids,
            group_instance_ids=group_instance_ids,
            reason=reason,
        )

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what a group has committed, of all partitions or of these."""
        return self._loop.call(self._admin.list_group_offsets, group_id, partitions)

    def list_offsets_of_groups(
        self, groups: Mapping[str, Iterable[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return what each group has committed, of all partitions (None) or of those given."""
        return self._loop.call(self._admin.list_offsets_of_groups, groups)

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit in the name of a group that has no members."""
        self._loop.call(self._admin.alter_group_offsets, group_id, offsets)

    def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return where a share group begins, of all partitions or of these. Raises: ItemsError."""
        return self._loop.call(self._admin.list_share_group_offsets, group_id, partitions)

    def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a share group that has no members begin at these offsets. Raises: ItemsError."""
        self._loop.call(self._admin.alter_share_group_offsets, group_id, offsets)

    def delete_share_group_offsets(self, group_id: str, *topics: str) -> None:
        """Let a share group that has no members forget what it has done of topics. Raises: ItemsError."""
        self._loop.call(self._admin.delete_share_group_offsets, group_id, *topics)

    def delete_group_offsets(self, group_id: str, *partitions: TopicPartition) -> None:
        """Let a group forget its offsets of partitions to which it does not subscribe."""
        self._loop.call(self._admin.delete_group_offsets, group_id, *partitions)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first offset at or after each time in ms, or for LATEST, EARLIEST, MAX_TIMESTAMP."""
        return self._loop.call(self._admin.list_offsets, timestamps)

    def describe_log_dirs(self, *broker_ids: int) -> dict[int, dict[str, LogDirectory]]:
        """Return the data folders of these brokers, or of all, by path, with the size of each replica."""
        return self._loop.call(self._admin.describe_log_dirs, *broker_ids)

    def elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, bool]:
        """Return of these partitions, or of all (None), which elected; False where it was not needed."""
        return self._loop.call(self._admin.elect_leaders, election_type, partitions)

    def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Begin to move partitions to these brokers, or with None give up a move that is going on."""
        self._loop.call(
            self._admin.alter_partition_reassignments,
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the partitions, of these or of all, that are being moved."""
        return self._loop.call(self._admin.list_partition_reassignments, partitions)

    def unregister_broker(self, broker_id: int) -> None:
        """Take a broker out of the cluster that has gone for good; its replicas stay assigned to it."""
        self._loop.call(self._admin.unregister_broker, broker_id)

    def describe_features(self) -> Features:
        """Return what brokers support, and the levels that the cluster has agreed on (KIP-584)."""
        return self._loop.call(self._admin.describe_features)

    def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Give features these levels; 0 takes a feature away. A lower level needs another `upgrade`."""
        self._loop.call(self._admin.update_features, levels, upgrade=upgrade, validate_only=validate_only)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what this client counts, under the names of Kafka's Java client."""
        return self._admin.metrics()
