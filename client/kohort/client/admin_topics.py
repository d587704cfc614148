"""The admin client's requests about topics, settings and the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kohort.client.admin_values import ClusterDescription, ConfigEntry, ConfigSource, NewTopic, ResourceType
from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError, check
from kohort.client.offsets import by_topic
from kohort.client.values import Node, TopicDescription, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.schema import ZERO_UUID, Message

Answer = TypeVar("Answer", bound=Message)

SET, DELETE = 0, 1  # AlterConfigOp.OpType
NAMES_IN_DELETE_TOPICS = 5  # Up to here a plain list of names.


class TopicAdmin:
    """Requests that any broker answers, and those that a partition's leader or one broker must."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def _timeout_ms(self) -> int:
        return min(self._cluster.config.default_api_timeout_ms, self._cluster.config.request_timeout_ms)

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id and brokers."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=False
        )
        answer = await self._ask(request, DescribeClusterResponse)
        check(answer.error_code, answer.error_message)
        nodes = tuple(Node(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers)
        return ClusterDescription(answer.cluster_id, answer.controller_id, nodes)

    async def names(self, *, include_internal: bool) -> tuple[str, ...]:
        """Return the names of the topics, sorted."""
        await self._cluster.retrying(lambda: self._cluster.refresh_metadata(None))
        topics = self._cluster.metadata.topics.values()
        return tuple(sorted(each.name for each in topics if include_internal or not each.is_internal))

    async def describe(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Return these topics with their partitions. Raises: BrokerError if one does not exist."""
        await self._cluster.retrying(lambda: self._cluster.refresh_metadata(names))
        described = {}
        for name in names:
            topic = self._cluster.metadata.topics.get(name)
            if topic is None:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
            check(topic.error, f"topic {name!r}")
            partitions = tuple(topic.partitions.values())
            described[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions)
        return described

    async def create(self, topics: Iterable[NewTopic], *, validate_only: bool) -> None:
        """Make these topics, or check that they could be made. Raises: BrokerError."""
        wanted = tuple(
            CreatableTopic(
                name=each.name,
                num_partitions=each.partitions,
                replication_factor=each.replication_factor,
                assignments=(),
                configs=tuple(
                    CreatableTopicConfig(name=name, value=value) for name, value in each.configs.items()
                ),
            )
            for each in topics
        )
        request = CreateTopicsRequest(topics=wanted, timeout_ms=self._timeout_ms, validate_only=validate_only)
        answer = await self._ask(request, CreateTopicsResponse)
        _check_all((each.name, each.error_code, each.error_message) for each in answer.topics)

    async def delete(self, names: Sequence[str]) -> None:
        """Delete these topics. Raises: BrokerError."""
        connection = await self._cluster.retrying(self._cluster.any_connection)
        by_name = connection.version_of(DeleteTopicsRequest) <= NAMES_IN_DELETE_TOPICS
        states = tuple(DeleteTopicState(name=each, topic_id=ZERO_UUID) for each in names)
        request = DeleteTopicsRequest(
            topics=() if by_name else states,
            topic_names=tuple(names) if by_name else (),
            timeout_ms=self._timeout_ms,
        )
        answer = await connection.request(request, DeleteTopicsResponse, timeout_ms=self._timeout_ms)
        _check_all(
            (each.name or str(each.topic_id), each.error_code, each.error_message)
            for each in answer.responses
        )

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Give each topic more partitions, up to this number. Raises: BrokerError."""
        request = CreatePartitionsRequest(
            topics=tuple(
                CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ),
            timeout_ms=self._timeout_ms,
            validate_only=False,
        )
        answer = await self._ask(request, CreatePartitionsResponse)
        _check_all((each.name, each.error_code, each.error_message) for each in answer.results)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before these offsets; return the new first offsets. Raises: BrokerError."""
        await self.describe(sorted({each.topic for each in offsets}))
        nodes: dict[int, list[TopicPartition]] = {}
        for each in offsets:
            nodes.setdefault(self._cluster.leader(each).leader, []).append(each)

        def partition(each: TopicPartition) -> DeleteRecordsPartition:
            return DeleteRecordsPartition(partition_index=each.partition, offset=offsets[each])

        low: dict[TopicPartition, int] = {}
        for node_id, partitions in nodes.items():
            topics = by_topic(partitions, partition)
            request = DeleteRecordsRequest(
                topics=tuple(
                    DeleteRecordsTopic(name=name, partitions=items) for name, items in topics.items()
                ),
                timeout_ms=self._timeout_ms,
            )
            answer = await self._cluster.request(node_id, request, DeleteRecordsResponse)
            for topic in answer.topics:
                for result in topic.partitions:
                    where = TopicPartition(topic.name, result.partition_index)
                    check(result.error_code, f"partition {where}" if result.error_code else None)
                    low[where] = result.low_watermark
        return low

    async def describe_configs(self, resource: ResourceType, name: str) -> dict[str, ConfigEntry]:
        """Return the settings of a topic, a broker or a group. Raises: BrokerError."""
        request = DescribeConfigsRequest(
            resources=(
                DescribeConfigsResource(resource_type=resource, resource_name=name, configuration_keys=None),
            )
        )
        node_id = _node_of(resource, name)
        answer = await self._ask(request, DescribeConfigsResponse, node_id)
        for result in answer.results:
            check(result.error_code, result.error_message)
        return {each.name: _entry(each) for result in answer.results for each in result.configs}

    async def alter_configs(
        self, resource: ResourceType, name: str, values: Mapping[str, str], delete: Sequence[str]
    ) -> None:
        """Set some settings and take others back to their defaults. Raises: BrokerError."""
        changes: list[tuple[str, int, str | None]] = [(each, SET, value) for each, value in values.items()]
        changes += [(each, DELETE, None) for each in delete]
        request = IncrementalAlterConfigsRequest(
            resources=(
                IncrementalAlterConfigsRequestAlterConfigsResource(
                    resource_type=resource,
                    resource_name=name,
                    configs=tuple(
                        IncrementalAlterConfigsRequestAlterableConfig(
                            name=each, config_operation=operation, value=value
                        )
                        for each, operation, value in changes
                    ),
                ),
            ),
            validate_only=False,
        )
        answer = await self._ask(request, IncrementalAlterConfigsResponse, _node_of(resource, name))
        _check_all((each.resource_name, each.error_code, each.error_message) for each in answer.responses)

    async def _ask(self, request: Message, kind: type[Answer], node_id: int | None = None) -> Answer:
        """Return one broker's answer; only a broken connection makes it ask again."""

        async def attempt() -> Answer:
            if node_id is None:
                return await self._cluster.request_any(request, kind)
            if node_id not in self._cluster.metadata.nodes:
                await self._cluster.refresh_metadata(())
            return await self._cluster.request(node_id, request, kind)

        return await self._cluster.retrying(attempt)


def _node_of(resource: ResourceType, name: str) -> int | None:
    """Return the broker that alone knows its own settings; any broker knows the rest."""
    return int(name) if resource is ResourceType.BROKER and name.isdecimal() else None


def _check_all(results: Iterable[tuple[str, int, str | None]]) -> None:
    """Raise one BrokerError for all that failed, with the code of the first."""
    failed = [(name, code, message) for name, code, message in results if code]
    if failed:
        texts = [f"{name!r}: {message or BrokerError(code)}" for name, code, message in failed]
        raise BrokerError(failed[0][1], "; ".join(texts))


def _entry(told: DescribeConfigsResourceResult) -> ConfigEntry:
    source = ConfigSource(told.config_source) if told.config_source in _SOURCES else ConfigSource.UNKNOWN
    return ConfigEntry(told.name, told.value, source, told.read_only, told.is_sensitive)


_SOURCES = frozenset(ConfigSource)
