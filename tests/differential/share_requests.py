"""What is asked of brokers in scripts for share groups."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import trio

from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.messages.share_acknowledge import (
    ShareAcknowledgeBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeTopic,
)
from kohort.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchForgottenTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kohort.protocol.schema import Message
from tests.differential.share_records import JOINING, Words
from tests.differential.told import AGAIN_S, Peer
from tests.differential.wire import Connection

GROUP_RESOURCE = 32
SET = 0
INITIAL = 0
WARM = "nothing but warm"
RESET = "share.auto.offset.reset"


def group_configs(group_id: str, settings: dict[str, str]) -> Message:
    """Return the request that sets these for the group."""
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=SET, value=value)
        for name, value in settings.items()
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group_id, configs=configs
    )
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


def fetch_topics(peer: Peer, named: Sequence[str], said: Sequence[Words]) -> tuple[ShareFetchTopic, ...]:
    """Return the topics of a fetch with what is said of their records."""
    return tuple(
        ShareFetchTopic(
            topic_id=peer.topic_id(topic),
            partitions=(
                ShareFetchPartition(
                    partition_index=0,
                    acknowledgement_batches=tuple(
                        ShareFetchAcknowledgementBatch(
                            first_offset=each.first, last_offset=each.last, acknowledge_types=each.kinds
                        )
                        for each in said
                        if each.topic == topic
                    ),
                ),
            ),
        )
        for topic in dict.fromkeys((*named, *(each.topic for each in said)))
    )


def forgotten_topics(peer: Peer, forgotten: Sequence[str]) -> tuple[ShareFetchForgottenTopic, ...]:
    """Return the topics that a member fetches no more."""
    return tuple(
        ShareFetchForgottenTopic(topic_id=peer.topic_id(each), partitions=(0,)) for each in forgotten
    )


def acknowledged_topics(peer: Peer, said: Sequence[Words]) -> tuple[ShareAcknowledgeTopic, ...]:
    """Return what is said of records."""
    return tuple(
        ShareAcknowledgeTopic(
            topic_id=peer.topic_id(topic),
            partitions=(
                ShareAcknowledgePartition(
                    partition_index=0,
                    acknowledgement_batches=tuple(
                        ShareAcknowledgeBatch(
                            first_offset=each.first, last_offset=each.last, acknowledge_types=each.kinds
                        )
                        for each in said
                        if each.topic == topic
                    ),
                ),
            ),
        )
        for topic in dict.fromkeys(each.topic for each in said)
    )


def consumer_heartbeat(peer: Peer) -> Message:
    """Return a heartbeat of a consumer group's member."""
    return ConsumerGroupHeartbeatRequest(
        group_id=peer.group_id,
        member_id="stranger",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("work",),
        topic_partitions=(),
    )


def classic_heartbeat(peer: Peer) -> Message:
    """Return a heartbeat of a classic group's member."""
    return HeartbeatRequest(
        group_id=peer.group_id, generation_id=1, member_id="stranger", group_instance_id=None
    )


def describe_classic(peer: Peer) -> Message:
    """Return the question for a classic group."""
    return DescribeGroupsRequest(groups=(peer.group_id,), include_authorized_operations=False)


def describe_consumer(peer: Peer) -> Message:
    """Return the question for a consumer group."""
    return ConsumerGroupDescribeRequest(group_ids=(peer.group_id,), include_authorized_operations=False)


def commit(peer: Peer) -> Message:
    """Return a commit of nobody in particular."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
    topic = OffsetCommitRequestTopic(name="work", topic_id=peer.topic_id("work"), partitions=(partition,))
    return OffsetCommitRequest(
        group_id=peer.group_id, generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
    )


def offsets_of(peer: Peer) -> Message:
    """Return the question for all offsets."""
    group = OffsetFetchRequestGroup(group_id=peer.group_id, member_id=None, member_epoch=-1, topics=None)
    return OffsetFetchRequest(group_id="", topics=(), groups=(group,), require_stable=False)


OF_OTHER_KINDS = (
    ("ConsumerGroupHeartbeat", 0, consumer_heartbeat),
    ("Heartbeat", 4, classic_heartbeat),
    ("DescribeGroups", 6, describe_classic),
    ("ConsumerGroupDescribe", 1, describe_consumer),
    ("OffsetCommit", 9, commit),
    ("OffsetFetch", 8, offsets_of),
)
"""What is asked of groups of other kinds."""


async def warm_up(control: Connection, topic_ids: dict[str, UUID]) -> None:
    """Return once a member of a share group has been given a record: Kafka makes its topics by and by."""
    await control.ask("IncrementalAlterConfigs", 1, group_configs(WARM, {RESET: "earliest"}))
    epoch, is_assigned = JOINING, False
    while not is_assigned:
        heartbeat = ShareGroupHeartbeatRequest(
            group_id=WARM, member_id="warm", member_epoch=epoch, subscribed_topic_names=("work",)
        )
        answer = await control.ask("ShareGroupHeartbeat", 1, heartbeat)
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        if not answer.error_code:
            epoch = answer.member_epoch
        is_assigned = answer.assignment is not None and bool(answer.assignment.topic_partitions)
        await trio.sleep(AGAIN_S)
    session = INITIAL
    while True:
        place = ShareFetchPartition(partition_index=0, acknowledgement_batches=())
        fetch = ShareFetchRequest(
            group_id=WARM,
            member_id="warm",
            share_session_epoch=session,
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=1_000,
            max_records=1,
            batch_size=1,
            topics=(ShareFetchTopic(topic_id=topic_ids["work"], partitions=(place,)),),
            forgotten_topics_data=(),
        )
        answer = await control.ask("ShareFetch", 1, fetch)
        assert isinstance(answer, ShareFetchResponse)
        session = INITIAL if answer.error_code else session + 1
        if any(each.acquired_records for topic in answer.responses for each in topic.partitions):
            return
