"""The records that keep a streams group, as Kafka writes them (StreamsCoordinatorRecordHelpers)."""

from collections.abc import Iterator, Mapping

from kohort.broker.group.decision import Record
from kohort.broker.group.epochs.records import EpochRecords
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.streams.tasks import Since, Tasks, TaskSet
from kohort.broker.group.streams.topology import InternalTopic, Subtopology, Topology
from kohort.protocol.streams_group_records import (
    StreamsGroupAssignmentConfig,
    StreamsGroupClientTag,
    StreamsGroupCopartitionGroup,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentTaskIds,
    StreamsGroupEndpoint,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupSubtopology,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTargetTaskIds,
    StreamsGroupTopicConfig,
    StreamsGroupTopicInfo,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

RECORDS = EpochRecords(
    group_epoch=StreamsGroupMetadataKey,
    member=StreamsGroupMemberMetadataKey,
    target_epoch=StreamsGroupTargetAssignmentMetadataKey,
    target_epoch_value=StreamsGroupTargetAssignmentMetadataValue,
    target=StreamsGroupTargetAssignmentMemberKey,
    current=StreamsGroupCurrentMemberAssignmentKey,
)
target_epoch_record = RECORDS.target_epoch_record
member_tombstones = RECORDS.member_tombstones


def epoch_record(
    group: StreamsGroup, epoch: int, metadata_hash: int, validated: int, configs: Mapping[str, str]
) -> Record:
    """Return the record of a group's new epoch, and of the values behind it."""
    stored, failed = group.description_epochs
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated,
        last_assignment_configs=tuple(
            StreamsGroupAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)
        ),
        stored_description_topology_epoch=stored,
        failed_description_topology_epoch=failed,
    )
    return Record(StreamsGroupMetadataKey(group_id=group.group_id), value)


def member_record(group_id: str, member: StreamsMember) -> Record:
    """Return the record of a member's metadata."""
    endpoint = member.user_endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=(
            None if endpoint is None else StreamsGroupEndpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=tuple(
            StreamsGroupClientTag(key=key, value=member.client_tags[key])
            for key in sorted(member.client_tags)
        ),
    )
    return Record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def topology_record(group_id: str, topology: Topology) -> Record:
    """Return the record of the application's topology."""
    value = StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=tuple(
            map(_subtopology, sorted(topology.subtopologies, key=lambda each: each.subtopology_id))
        ),
    )
    return Record(StreamsGroupTopologyKey(group_id=group_id), value)


def _subtopology(subtopology: Subtopology) -> StreamsGroupSubtopology:
    return StreamsGroupSubtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        source_topic_regex=subtopology.source_topic_regex,
        state_changelog_topics=tuple(map(_topic_info, subtopology.changelogs)),
        repartition_sink_topics=subtopology.repartition_sinks,
        repartition_source_topics=tuple(map(_topic_info, subtopology.repartition_sources)),
        copartition_groups=tuple(
            StreamsGroupCopartitionGroup(
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                repartition_source_topics=each.repartition_source_topics,
            )
            for each in subtopology.copartition_groups
        ),
    )


def _topic_info(topic: InternalTopic) -> StreamsGroupTopicInfo:
    return StreamsGroupTopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=tuple(StreamsGroupTopicConfig(key=key, value=value) for key, value in topic.configs),
    )


def target_record(group_id: str, member_id: str, target: Tasks) -> Record:
    """Return the record of a member's target assignment."""

    def ids(tasks: TaskSet) -> tuple[StreamsGroupTargetTaskIds, ...]:
        return tuple(
            StreamsGroupTargetTaskIds(subtopology_id=key, partitions=tuple(sorted(tasks[key])))
            for key in sorted(tasks)
        )

    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=ids(target.active), standby_tasks=ids(target.standby), warmup_tasks=ids(target.warmup)
    )
    return Record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: StreamsMember) -> Record:
    """Return the record of a member's current assignment and epoch."""
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_since_ids(member.assigned.active),
        standby_tasks=_ids(member.assigned.standby),
        warmup_tasks=_ids(member.assigned.warmup),
        active_tasks_pending_revocation=_since_ids(member.revoking.active),
        standby_tasks_pending_revocation=_ids(member.revoking.standby),
        warmup_tasks_pending_revocation=_ids(member.revoking.warmup),
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Record(key, value)


def _ids(tasks: TaskSet) -> tuple[StreamsGroupCurrentTaskIds, ...]:
    return tuple(
        StreamsGroupCurrentTaskIds(subtopology_id=key, partitions=tuple(sorted(tasks[key])))
        for key in sorted(tasks)
    )


def _since_ids(tasks: Since) -> tuple[StreamsGroupCurrentTaskIds, ...]:
    return tuple(
        StreamsGroupCurrentTaskIds(
            subtopology_id=key,
            partitions=tuple(sorted(tasks[key])),
            assignment_epochs=tuple(tasks[key][partition] for partition in sorted(tasks[key])),
        )
        for key in sorted(tasks)
    )


def group_tombstones(group: StreamsGroup) -> Iterator[Record]:
    """Yield the records that delete a group with all that it has."""
    group_id = group.group_id
    for member_id in group.members:
        yield from member_tombstones(group_id, member_id)
    yield Record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    yield Record(StreamsGroupMetadataKey(group_id=group_id), None)
    yield Record(StreamsGroupTopologyKey(group_id=group_id), None)
