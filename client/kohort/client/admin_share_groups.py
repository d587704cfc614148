"""The admin client's requests about the start offsets of share groups (KIP-932)."""

from collections.abc import Iterable, Mapping

from kohort.client.admin_items import outcome, settle, settle_answered
from kohort.client.admin_values import ShareGroupOffset
from kohort.client.cluster import Cluster
from kohort.client.errors import KohortError
from kohort.client.offsets import by_topic
from kohort.client.values import TopicPartition
from kohort.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsPartition,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsTopic,
)
from kohort.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsTopic,
)
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsPartition,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsTopic,
)

ShareOffsets = dict[TopicPartition, ShareGroupOffset | KohortError]


async def share_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, ShareGroupOffset]:
    """Return the start offsets of the group in these partitions, or with None in all.

    Raises: ItemsError, BrokerError.
    """

    async def ask(wanted: tuple[TopicPartition, ...]) -> ShareOffsets:
        return await _share_offsets_once(cluster, group_id, wanted)

    return await settle_answered(cluster, await _share_offsets_once(cluster, group_id, partitions), ask)


async def _share_offsets_once(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None
) -> ShareOffsets:
    """Return what the group's coordinator says of each partition. Raises: ItemsError, BrokerError."""
    topics = None
    if partitions is not None:
        topics = tuple(
            DescribeShareGroupOffsetsTopic(topic_name=topic, partitions=each)
            for topic, each in by_topic(partitions, lambda each: each.partition).items()
        )
    group = DescribeShareGroupOffsetsGroup(group_id=group_id, topics=topics)

    async def ask(_: tuple[str, ...]) -> dict[str, ShareOffsets]:
        answer = await cluster.request_coordinator(
            group_id,
            DescribeShareGroupOffsetsRequest(groups=(group,)),
            DescribeShareGroupOffsetsResponse,
        )
        (told,) = answer.groups
        cluster.check_coordinated(group_id, told.error_code, told.error_message)
        return {
            group_id: {
                TopicPartition(topic.topic_name, each.partition_index): outcome(
                    each.error_code,
                    each.error_message,
                    _offset(each),
                )
                for topic in told.topics
                for each in topic.partitions
            }
        }

    return (await settle(cluster, (group_id,), ask))[group_id]


async def alter_share_offsets(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the start offsets of a group without members. Raises: ItemsError, BrokerError."""

    async def ask(wanted: tuple[TopicPartition, ...]) -> dict[TopicPartition, KohortError | None]:
        topics = by_topic(
            wanted,
            lambda each: AlterShareGroupOffsetsPartition(
                partition_index=each.partition, start_offset=offsets[each]
            ),
        )
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=tuple(
                AlterShareGroupOffsetsTopic(topic_name=name, partitions=items)
                for name, items in topics.items()
            ),
        )
        answer = await cluster.request_coordinator(group_id, request, AlterShareGroupOffsetsResponse)
        cluster.check_coordinated(group_id, answer.error_code, answer.error_message)
        return {
            TopicPartition(topic.topic_name, each.partition_index): outcome(
                each.error_code, each.error_message, None
            )
            for topic in answer.responses
            for each in topic.partitions
        }

    await settle(cluster, offsets, ask)


async def delete_share_offsets(cluster: Cluster, group_id: str, topics: Iterable[str]) -> None:
    """Let a group without members forget these topics. Raises: ItemsError, BrokerError."""

    async def ask(wanted: tuple[str, ...]) -> dict[str, KohortError | None]:
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=tuple(DeleteShareGroupOffsetsTopic(topic_name=each) for each in wanted)
        )
        answer = await cluster.request_coordinator(group_id, request, DeleteShareGroupOffsetsResponse)
        cluster.check_coordinated(group_id, answer.error_code, answer.error_message)
        return {
            each.topic_name: outcome(each.error_code, each.error_message, None) for each in answer.responses
        }

    await settle(cluster, topics, ask)


def _offset(told: DescribeShareGroupOffsetsPartition) -> ShareGroupOffset:
    """Return the known offset: without a start there is none (Kafka: ListShareGroupOffsetsHandler)."""
    if told.start_offset < 0:
        return ShareGroupOffset(None)
    return ShareGroupOffset(told.start_offset, told.leader_epoch, told.lag if told.lag >= 0 else None)
