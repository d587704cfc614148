"""The admin client's requests about topics, their partitions and the cluster."""

from collections.abc import Mapping

from kohort.client.admin_items import AdminCalls, outcome, settle
from kohort.client.admin_values import ClusterDescription, NewTopic, PartitionDetails, TopicDetails
from kohort.client.arguments import one_by_one
from kohort.client.errors import BrokerError, KohortError, check
from kohort.client.offsets import by_topic, list_offsets
from kohort.client.values import Node, OffsetAndTimestamp, TopicDescription, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kohort.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopicRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kohort.protocol.schema import ZERO_UUID

NAMES_IN_DELETE_TOPICS = 5  # Up to here a plain list of names.


class TopicAdmin(AdminCalls):
    """Calls about topics and their partitions, and about the cluster as a whole."""

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id and its brokers."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=False
        )
        answer = await self._ask_any(request, DescribeClusterResponse)
        check(answer.error_code, answer.error_message)
        nodes = tuple(Node(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers)
        return ClusterDescription(answer.cluster_id, answer.controller_id, nodes)

    async def list_topics(self, *, include_internal: bool = False) -> tuple[str, ...]:
        """Return the names of the topics, sorted."""
        return await self._cluster.topic_names(include_internal=include_internal)

    async def describe_topics(self, *names: str) -> dict[str, TopicDescription]:
        """Return these topics with their partitions. Raises: ItemsError if one does not exist."""

        async def ask(wanted: tuple[str, ...]) -> dict[str, TopicDescription | KohortError]:
            await self._cluster.refresh_metadata(wanted)
            return {each: self._description(each) for each in wanted}

        return await settle(self._cluster, one_by_one(names, str, "describe_topics"), ask)

    def _description(self, name: str) -> TopicDescription | KohortError:
        topic = self._cluster.metadata.topics.get(name)
        if topic is None:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        partitions = tuple(topic.partitions.values())
        found = TopicDescription(name, topic.topic_id, topic.is_internal, partitions)
        return outcome(topic.error, f"topic {name!r}", found)

    async def describe_topic_partitions(self, *names: str) -> dict[str, TopicDetails]:
        """Return these topics with the replicas that may lead (KIP-966). It asks for them page by page.

        Raises: ItemsError.
        """

        async def ask(wanted: tuple[str, ...]) -> dict[str, TopicDetails | KohortError]:
            found: dict[str, TopicDetails | KohortError] = {}
            cursor: DescribeTopicPartitionsRequestCursor | None = None
            while True:
                request = DescribeTopicPartitionsRequest(
                    topics=tuple(
                        DescribeTopicPartitionsRequestTopicRequest(name=each) for each in sorted(wanted)
                    ),
                    cursor=cursor,
                )
                answer = await self._cluster.request_any(request, DescribeTopicPartitionsResponse)
                for topic in answer.topics:
                    _add_details(topic, found)
                if answer.next_cursor is None:
                    return found
                cursor = DescribeTopicPartitionsRequestCursor(
                    topic_name=answer.next_cursor.topic_name,
                    partition_index=answer.next_cursor.partition_index,
                )

        return await settle(self._cluster, one_by_one(names, str, "describe_topic_partitions"), ask)

    async def create_topics(self, *topics: NewTopic, validate_only: bool = False) -> None:
        """Create these topics, or check that they could be created. Raises: ItemsError."""
        wanted = {each.name: each for each in one_by_one(topics, NewTopic, "create_topics")}

        async def ask(names: tuple[str, ...]) -> dict[str, KohortError | None]:
            request = CreateTopicsRequest(
                topics=tuple(_creatable(wanted[each]) for each in names),
                timeout_ms=self._timeout_ms,
                validate_only=validate_only,
            )
            answer = await self._cluster.request_any(request, CreateTopicsResponse)
            return {each.name: outcome(each.error_code, each.error_message, None) for each in answer.topics}

        await settle(self._cluster, wanted, ask)

    async def delete_topics(self, *names: str) -> None:
        """Delete these topics. Raises: ItemsError."""

        async def ask(wanted: tuple[str, ...]) -> dict[str, KohortError | None]:
            connection = await self._cluster.any_connection()
            by_name = connection.version_of(DeleteTopicsRequest) <= NAMES_IN_DELETE_TOPICS
            states = tuple(DeleteTopicState(name=each, topic_id=ZERO_UUID) for each in wanted)
            request = DeleteTopicsRequest(
                topics=() if by_name else states,
                topic_names=wanted if by_name else (),
                timeout_ms=self._timeout_ms,
            )
            answer = await connection.request(request, DeleteTopicsResponse, timeout_ms=self._timeout_ms)
            return {
                each.name or "": outcome(each.error_code, each.error_message, None)
                for each in answer.responses
            }

        await settle(self._cluster, one_by_one(names, str, "delete_topics"), ask)

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Add partitions to each topic, up to this number. Raises: ItemsError."""

        async def ask(names: tuple[str, ...]) -> dict[str, KohortError | None]:
            request = CreatePartitionsRequest(
                topics=tuple(
                    CreatePartitionsTopic(name=each, count=counts[each], assignments=None) for each in names
                ),
                timeout_ms=self._timeout_ms,
                validate_only=validate_only,
            )
            answer = await self._cluster.request_any(request, CreatePartitionsResponse)
            return {each.name: outcome(each.error_code, each.error_message, None) for each in answer.results}

        await settle(self._cluster, counts, ask)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets; return the new first offsets. Raises: ItemsError."""

        async def ask(wanted: tuple[TopicPartition, ...]) -> dict[TopicPartition, int | KohortError]:
            await self._cluster.refresh_metadata({each.topic for each in wanted})
            found: dict[TopicPartition, int | KohortError] = {}
            nodes: dict[int, list[TopicPartition]] = {}
            for each in wanted:
                try:
                    nodes.setdefault(self._cluster.leader(each).leader, []).append(each)
                except BrokerError as error:
                    found[each] = error
            for node_id, partitions in nodes.items():
                found.update(await self._delete_records_of(node_id, partitions, offsets))
            return found

        return await settle(self._cluster, offsets, ask)

    async def _delete_records_of(
        self, node_id: int, partitions: list[TopicPartition], offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KohortError]:
        def partition(each: TopicPartition) -> DeleteRecordsPartition:
            return DeleteRecordsPartition(partition_index=each.partition, offset=offsets[each])

        topics = by_topic(partitions, partition)
        request = DeleteRecordsRequest(
            topics=tuple(DeleteRecordsTopic(name=name, partitions=items) for name, items in topics.items()),
            timeout_ms=self._timeout_ms,
        )
        answer = await self._cluster.request(node_id, request, DeleteRecordsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): outcome(
                each.error_code, None, each.low_watermark
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, committed_only: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first offset at or after each time in ms, or for LATEST, EARLIEST, MAX_TIMESTAMP.

        With `committed_only`, LATEST is the last stable offset: the beginning of the first open transaction.
        """
        return await self._cluster.retrying(
            lambda: list_offsets(self._cluster, timestamps, committed_only=committed_only)
        )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.replicas else topic.partitions,
        replication_factor=-1 if topic.replicas else topic.replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=partition, broker_ids=tuple(brokers))
            for partition, brokers in sorted(topic.replicas.items())
        ),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
    )


def _add_details(
    told: DescribeTopicPartitionsResponseTopic, found: dict[str, TopicDetails | KohortError]
) -> None:
    """Add one topic of a page; a topic may continue on the next page."""
    name = told.name or ""
    if told.error_code:
        found[name] = BrokerError(told.error_code)
        return
    before = found.get(name)
    earlier = before.partitions if isinstance(before, TopicDetails) else ()
    partitions = (*earlier, *(_partition_details(each) for each in told.partitions))
    found[name] = TopicDetails(name, told.topic_id, told.is_internal, partitions)


def _partition_details(told: DescribeTopicPartitionsResponsePartition) -> PartitionDetails:
    return PartitionDetails(
        told.partition_index,
        told.leader_id,
        told.leader_epoch,
        told.replica_nodes,
        told.isr_nodes,
        told.offline_replicas,
        told.eligible_leader_replicas or (),
        told.last_known_elr or (),
    )
