"""StreamsGroupDescribe: a streams group with its epochs, its topology, its members, and their tasks."""

from collections.abc import Iterable, Mapping

from kohort.broker.group.streams.assignor import NAME
from kohort.broker.group.streams.commands import StreamsGroupDescribe, describe_error
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.streams.tasks import Tasks
from kohort.broker.group.streams.topology import ConfiguredSubtopology, InternalTopic, Topology
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeAssignment,
    StreamsGroupDescribeDescribedGroup,
    StreamsGroupDescribeEndpoint,
    StreamsGroupDescribeKeyValue,
    StreamsGroupDescribeMember,
    StreamsGroupDescribeSubtopology,
    StreamsGroupDescribeTaskIds,
    StreamsGroupDescribeTopicInfo,
    StreamsGroupDescribeTopology,
)

NOT_STORED = 1
"""The status of a description of the topology that is not stored (KIP-1331)."""


def describe(turn: Turn, command: StreamsGroupDescribe) -> None:
    """Answer with the group, or with the error."""
    try:
        group = turn.groups.existing(command.group_id, StreamsGroup)
        answer = described(group, asks_description=command.asks_description)
    except ApiError as error:
        answer = describe_error(command.group_id, error.code, error.message)
    turn.reply(command.request_id, answer)


def described(group: StreamsGroup, *, asks_description: bool) -> StreamsGroupDescribeDescribedGroup:
    """Return the group; its topics with the partitions that they need, as far as that is known."""
    return StreamsGroupDescribeDescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=tuple(_member(group, each) for each in group.members.values()),
        topology_description_status=NOT_STORED if asks_description else 0,
        assignor_name=NAME,
    )


def _topology(group: StreamsGroup) -> StreamsGroupDescribeTopology | None:
    topology, topics = group.topology, group.configured
    if topology is None:
        return None
    if topics is not None and topics.is_ready and topics.subtopologies is not None:
        found = [_configured(key, each) for key, each in topics.subtopologies.items()]
    else:
        found = _described_subtopologies(topology)
    return StreamsGroupDescribeTopology(epoch=topology.epoch, subtopologies=tuple(found))


def _configured(subtopology_id: str, subtopology: ConfiguredSubtopology) -> StreamsGroupDescribeSubtopology:
    return StreamsGroupDescribeSubtopology(
        subtopology_id=subtopology_id,
        source_topics=tuple(sorted(subtopology.source_topics)),
        repartition_sink_topics=tuple(sorted(subtopology.repartition_sinks)),
        state_changelog_topics=_topics(subtopology.changelogs),
        repartition_source_topics=_topics(subtopology.repartition_sources),
    )


def _described_subtopologies(topology: Topology) -> list[StreamsGroupDescribeSubtopology]:
    return [
        StreamsGroupDescribeSubtopology(
            subtopology_id=each.subtopology_id,
            source_topics=tuple(sorted(each.source_topics)),
            repartition_sink_topics=tuple(sorted(each.repartition_sinks)),
            state_changelog_topics=_topics(each.changelogs),
            repartition_source_topics=_topics(each.repartition_sources),
        )
        for each in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
    ]


def _topics(topics: Iterable[InternalTopic]) -> tuple[StreamsGroupDescribeTopicInfo, ...]:
    return tuple(
        StreamsGroupDescribeTopicInfo(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=tuple(
                StreamsGroupDescribeKeyValue(key=key, value=value) for key, value in each.configs
            ),
        )
        for each in sorted(topics, key=lambda each: each.name)
    )


def _member(group: StreamsGroup, member: StreamsMember) -> StreamsGroupDescribeMember:
    endpoint = member.user_endpoint
    return StreamsGroupDescribeMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=(
            None if endpoint is None else StreamsGroupDescribeEndpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=tuple(
            StreamsGroupDescribeKeyValue(key=key, value=member.client_tags[key])
            for key in sorted(member.client_tags)
        ),
        task_offsets=(),
        task_end_offsets=(),
        assignment=_assignment(member.assigned.tasks),
        target_assignment=_assignment(group.target(member.member_id)),
        is_classic=False,
    )


def _assignment(tasks: Tasks) -> StreamsGroupDescribeAssignment:
    def ids(role: Mapping[str, Iterable[int]]) -> tuple[StreamsGroupDescribeTaskIds, ...]:
        return tuple(
            StreamsGroupDescribeTaskIds(subtopology_id=key, partitions=tuple(sorted(role[key])))
            for key in sorted(role)
        )

    return StreamsGroupDescribeAssignment(
        active_tasks=ids(tasks.active), standby_tasks=ids(tasks.standby), warmup_tasks=ids(tasks.warmup)
    )
