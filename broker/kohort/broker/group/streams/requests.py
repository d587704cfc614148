"""Checks of a heartbeat that do not depend on the group.

Kafka: GroupCoordinatorService and GroupMetadataManager, throwIfStreamsGroupHeartbeatRequestIsInvalid.
"""

from kohort.broker.group.epochs.members import AWAY, JOINING, refuse_if
from kohort.broker.group.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTopicInfo,
    StreamsGroupHeartbeatTopology,
)
from kohort.protocol.streams_group_records import StreamsGroupSubtopology, StreamsGroupTopicInfo

VERSION_OF_TASK_OFFSETS = 1
"""From this version members send task offsets, and may have warm-ups (Kafka 4.4)."""


def check_heartbeat(message: StreamsGroupHeartbeatRequest, version: int) -> None:
    """Pass a heartbeat that can be meant. Raises: ApiError, with Kafka's words."""
    _check_supported(message, version)
    refuse_if(not message.member_id.strip(), "MemberId can't be empty.")
    refuse_if(not message.group_id.strip(), "GroupId can't be empty.")
    refuse_if(message.rack_id is not None and not message.rack_id.strip(), "RackId can't be empty.")
    instance_id = message.instance_id
    refuse_if(instance_id is not None and not instance_id.strip(), "InstanceId can't be empty.")
    epoch = message.member_epoch
    if epoch == JOINING:
        _check_join(message)
    elif epoch == AWAY:
        refuse_if(message.instance_id is None, "InstanceId can't be null.")
    else:
        refuse_if(epoch < AWAY, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    roles = (message.active_tasks, message.standby_tasks, message.warmup_tasks)
    is_partial = any(each is None for each in roles) and any(each is not None for each in roles)
    refuse_if(is_partial, "If one task-type is non-null, all must be non-null.")
    refuse_if(
        epoch != JOINING and message.topology is not None, "Topology can only be provided when (re-)joining."
    )


def _check_supported(message: StreamsGroupHeartbeatRequest, version: int) -> None:
    """Refuse what Kafka 4.3 does not do yet, and what no Kafka does: topics by their expression."""
    if version < VERSION_OF_TASK_OFFSETS:
        refuse_if(message.task_offsets is not None, "TaskOffsets are not supported yet.")
        refuse_if(message.task_end_offsets is not None, "TaskEndOffsets are not supported yet.")
        refuse_if(bool(message.warmup_tasks), "WarmupTasks are not supported yet.")
    topology = message.topology
    for each in () if topology is None else topology.subtopologies:
        refuse_if(
            len(each.source_topic_regex) > 0, "Regular expressions for source topics are not supported yet."
        )


def _check_join(message: StreamsGroupHeartbeatRequest) -> None:
    refuse_if(message.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
    refuse_if(not _is_empty(message.active_tasks), "ActiveTasks must be empty when (re-)joining.")
    refuse_if(not _is_empty(message.standby_tasks), "StandbyTasks must be empty when (re-)joining.")
    refuse_if(not _is_empty(message.warmup_tasks), "WarmupTasks must be empty when (re-)joining.")
    if message.topology is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Topology must be non-null when (re-)joining.")
    _check_topology(message.topology)


def _is_empty(ids: tuple[StreamsGroupHeartbeatTaskIds, ...] | None) -> bool:
    """Return whether no tasks are sent; not whether the field is missing."""
    return ids is not None and not ids


def _check_topology(topology: StreamsGroupHeartbeatTopology) -> None:
    """Pass a topology that can be configured. Raises: ApiError STREAMS_INVALID_TOPOLOGY."""
    names: set[str] = set()
    for each in topology.subtopologies:
        _invalid_if(each.subtopology_id in names, f"Subtopology {each.subtopology_id} is there twice.")
        names.add(each.subtopology_id)
        for topic in each.state_changelog_topics:
            _invalid_if(
                topic.partitions != 0,
                f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                f"{topic.partitions}.",
            )
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            _invalid_if(topic.partitions < 0, f"Topic {topic.name} can't have {topic.partitions} partitions.")
        for group in each.copartition_groups:
            for indexes, topics in (
                (group.source_topics, each.source_topics),
                (group.source_topic_regex, each.source_topic_regex),
                (group.repartition_source_topics, each.repartition_source_topics),
            ):
                _invalid_if(
                    any(index < 0 or index >= len(topics) for index in indexes),
                    f"A copartition group of subtopology {each.subtopology_id} names a topic that is not "
                    "there.",
                )


def _invalid_if(is_wrong: bool, words: str) -> None:
    if is_wrong:
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)


def topology_of(told: StreamsGroupHeartbeatTopology) -> Topology:
    """Return the topology of a heartbeat, its lists in the order of the log."""
    subtopologies = sorted(map(subtopology_of, told.subtopologies), key=lambda each: each.subtopology_id)
    return Topology(told.epoch, tuple(subtopologies))


def subtopology_of(told: StreamsGroupHeartbeatSubtopology | StreamsGroupSubtopology) -> Subtopology:
    """Return the subtopology of a heartbeat or of a record."""
    return Subtopology(
        subtopology_id=told.subtopology_id,
        source_topics=told.source_topics,
        source_topic_regex=told.source_topic_regex,
        changelogs=tuple(map(_internal, told.state_changelog_topics)),
        repartition_sinks=told.repartition_sink_topics,
        repartition_sources=tuple(map(_internal, told.repartition_source_topics)),
        copartition_groups=tuple(
            CopartitionGroup(each.source_topics, each.source_topic_regex, each.repartition_source_topics)
            for each in told.copartition_groups
        ),
    )


def _internal(told: StreamsGroupHeartbeatTopicInfo | StreamsGroupTopicInfo) -> InternalTopic:
    configs = tuple((each.key, each.value) for each in told.topic_configs)
    return InternalTopic(told.name, told.partitions, told.replication_factor, configs)
