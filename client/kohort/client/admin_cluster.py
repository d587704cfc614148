"""The admin client's requests about replicas, leaders, and features of the cluster."""

from collections.abc import Iterable, Mapping, Sequence

from kohort.client.admin_items import AdminCalls, outcome, settle, settle_answered
from kohort.client.admin_values import (
    ElectionType,
    FeatureRange,
    Features,
    FeatureUpgrade,
    LogDirectory,
    PartitionReassignment,
    ReplicaSize,
)
from kohort.client.arguments import one_by_one
from kohort.client.connection import SOFTWARE_NAME
from kohort.client.errors import BrokerError, KohortError, check
from kohort.client.offsets import by_topic
from kohort.client.values import TopicPartition
from kohort.client.versions import SOFTWARE_VERSION
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kohort.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
)
from kohort.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopic,
)
from kohort.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kohort.protocol.messages.update_features import (
    UpdateFeaturesFeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPES_SINCE = 1  # Before, a flag that a downgrade is allowed.


class ClusterAdmin(AdminCalls):
    """Calls about brokers and their replicas. Any broker forwards requests for the controller."""

    async def describe_log_dirs(self, *broker_ids: int) -> dict[int, dict[str, LogDirectory]]:
        """Return the data folders of these brokers, or of all, by path, with the size of each replica.

        Raises: ItemsError.
        """
        wanted = one_by_one(broker_ids, int, "describe_log_dirs")
        await self._cluster.retrying(lambda: self._cluster.refresh_metadata(()))

        async def ask(brokers: tuple[int, ...]) -> dict[int, dict[str, LogDirectory] | KohortError]:
            found: dict[int, dict[str, LogDirectory] | KohortError] = {}
            for each in brokers:
                try:
                    answer = await self._cluster.request(
                        each, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
                    )
                    check(answer.error_code)
                    found[each] = {told.log_dir: _directory(told) for told in answer.results}
                except KohortError as error:
                    found[each] = error
            return found

        return await settle(self._cluster, wanted or sorted(self._cluster.metadata.nodes), ask)

    async def elect_leaders(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, bool]:
        """Elect leaders of these partitions, or with None of all. Return False where none was needed.

        Raises: ItemsError, BrokerError.
        """

        async def ask(wanted: tuple[TopicPartition, ...]) -> dict[TopicPartition, bool | KohortError]:
            return await self._elect(election_type, by_topic(wanted, _number))

        if partitions is None:
            answered = await self._cluster.retrying(lambda: self._elect(election_type, None))
            return await settle_answered(self._cluster, answered, ask)
        return await settle(self._cluster, partitions, ask)

    async def _elect(
        self, election_type: ElectionType, topics: Mapping[str, tuple[int, ...]] | None
    ) -> dict[TopicPartition, bool | KohortError]:
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=None
            if topics is None
            else tuple(
                ElectLeadersTopicPartitions(topic=name, partitions=numbers)
                for name, numbers in topics.items()
            ),
            timeout_ms=self._timeout_ms,
        )
        answer = await self._cluster.request_any(request, ElectLeadersResponse)
        check(answer.error_code)
        found: dict[TopicPartition, bool | KohortError] = {}
        for topic in answer.replica_election_results:
            for each in topic.partition_result:
                needed = each.error_code != ErrorCode.ELECTION_NOT_NEEDED
                found[TopicPartition(topic.topic, each.partition_id)] = outcome(
                    each.error_code if needed else ErrorCode.NONE, each.error_message, needed
                )
        return found

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Begin to move partitions to these brokers, or with None cancel a running move.

        Raises: ItemsError, BrokerError.
        """

        def target(each: TopicPartition) -> ReassignablePartition:
            brokers = targets[each]
            return ReassignablePartition(
                partition_index=each.partition, replicas=None if brokers is None else tuple(brokers)
            )

        async def ask(wanted: tuple[TopicPartition, ...]) -> dict[TopicPartition, KohortError | None]:
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=self._timeout_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=tuple(
                    ReassignableTopic(name=name, partitions=items)
                    for name, items in by_topic(wanted, target).items()
                ),
            )
            answer = await self._cluster.request_any(request, AlterPartitionReassignmentsResponse)
            check(answer.error_code, answer.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): outcome(
                    each.error_code, each.error_message, None
                )
                for topic in answer.responses
                for each in topic.partitions
            }

        await settle(self._cluster, targets, ask)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the partitions, of these or of all, that are being moved. Raises: BrokerError."""
        topics = None if partitions is None else by_topic(partitions, _number)
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms,
            topics=None
            if topics is None
            else tuple(
                ListPartitionReassignmentsTopic(name=name, partition_indexes=numbers)
                for name, numbers in topics.items()
            ),
        )
        answer = await self._ask_any(request, ListPartitionReassignmentsResponse)
        check(answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                each.replicas, each.adding_replicas, each.removing_replicas
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    async def unregister_broker(self, broker_id: int) -> None:
        """Unregister a broker that is gone for good. Its replicas stay assigned to it.

        Raises: BrokerError.
        """
        answer = await self._cluster.request_any(
            UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse
        )
        check(answer.error_code, answer.error_message)

    async def describe_features(self) -> Features:
        """Return the features that a broker supports, and the finalized levels of its cluster (KIP-584)."""
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        answer = await self._ask_any(request, ApiVersionsResponse)
        check(answer.error_code)
        epoch = answer.finalized_features_epoch
        return Features(
            {
                each.name: FeatureRange(each.min_version, each.max_version)
                for each in answer.supported_features
            },
            {
                each.name: FeatureRange(each.min_version_level, each.max_version_level)
                for each in answer.finalized_features
            },
            None if epoch < 0 else epoch,
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade: FeatureUpgrade = FeatureUpgrade.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Give features these levels; 0 removes a feature. A lower level needs another `upgrade`.

        Raises: ItemsError, BrokerError.
        """

        async def ask(wanted: tuple[str, ...]) -> dict[str, KohortError | None]:
            connection = await self._cluster.any_connection()
            typed = connection.version_of(UpdateFeaturesRequest) >= UPGRADE_TYPES_SINCE
            request = UpdateFeaturesRequest(
                timeout_ms=self._timeout_ms,
                feature_updates=tuple(
                    UpdateFeaturesFeatureUpdateKey(
                        feature=each,
                        max_version_level=levels[each],
                        allow_downgrade=not typed and upgrade is not FeatureUpgrade.UPGRADE,
                        upgrade_type=upgrade if typed else FeatureUpgrade.UPGRADE,
                    )
                    for each in wanted
                ),
                validate_only=validate_only,
            )
            answer = await connection.request(request, UpdateFeaturesResponse, timeout_ms=self._timeout_ms)
            check(answer.error_code, answer.error_message)
            told = {
                each.feature: outcome(each.error_code, each.error_message, None) for each in answer.results
            }
            return {each: told.get(each) for each in wanted}  # Since version 2 one error code is for all.

        await settle(self._cluster, levels, ask)


def _number(partition: TopicPartition) -> int:
    return partition.partition


def _directory(told: DescribeLogDirsResult) -> LogDirectory:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaSize(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in told.topics
        for each in topic.partitions
    }
    return LogDirectory(
        replicas,
        None if told.total_bytes < 0 else told.total_bytes,
        None if told.usable_bytes < 0 else told.usable_bytes,
        BrokerError(told.error_code) if told.error_code else None,
    )
