"""StreamsGroupDescribe: a streams group with its epochs, its topology, its members, and their tasks."""

from collections.abc import Iterable, Mapping

from kohort.broker.group.group import Group
from kohort.broker.group.member_view import MemberView
from kohort.broker.group.rebalance import Rebalance
from kohort.broker.group.streams.assignor import NAME
from kohort.broker.group.streams.commands import StreamsGroupDescribe, describe_error
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import MemberState, StreamsMember
from kohort.broker.group.streams.tasks import HeldTasks, Task, Tasks, each_task
from kohort.broker.group.streams.topology import ConfiguredSubtopology, InternalTopic, Topology
from kohort.broker.group.turn import Turn
from kohort.broker.group.views import RebalanceView
from kohort.protocol.errors import ErrorCode
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

TASKS_TOLD = 8
NOT_STORED = 1
"""The status of a description of the topology that nobody keeps (KIP-1331)."""


def describe(turn: Turn, command: StreamsGroupDescribe) -> None:
    """Answer with the group, or with what is wrong with asking for it."""
    group = turn.groups.by_id.get(command.group_id)
    if isinstance(group, StreamsGroup):
        turn.reply(command.request_id, described(group, asks_description=command.asks_description))
        return
    words = "not found" if group is None else "is not a streams group"
    answer = describe_error(
        command.group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} {words}."
    )
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
        members=tuple(_member(group, each) for each in group.streams_members.values()),
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
        found = _as_told(topology)
    return StreamsGroupDescribeTopology(epoch=topology.epoch, subtopologies=tuple(found))


def _configured(subtopology_id: str, subtopology: ConfiguredSubtopology) -> StreamsGroupDescribeSubtopology:
    return StreamsGroupDescribeSubtopology(
        subtopology_id=subtopology_id,
        source_topics=tuple(sorted(subtopology.source_topics)),
        repartition_sink_topics=tuple(sorted(subtopology.repartition_sinks)),
        state_changelog_topics=_topics(subtopology.changelogs),
        repartition_source_topics=_topics(subtopology.repartition_sources),
    )


def _as_told(topology: Topology) -> list[StreamsGroupDescribeSubtopology]:
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


def member_views(group: Group, now_ms: int) -> tuple[MemberView, ...]:
    """Return every member for people; its partitions are its active tasks, by subtopology."""
    assert isinstance(group, StreamsGroup), group
    return tuple(_view(group, each, now_ms) for each in group.streams_members.values())


def rebalance_view(group: Group, rebalance: Rebalance, now_ms: int) -> RebalanceView:
    """Return the rebalance in progress: who has yet to come to the newest epoch, or to give something up."""
    assert isinstance(group, StreamsGroup), group
    return RebalanceView(
        cause=rebalance.cause,
        further_causes=tuple(rebalance.further_causes),
        started_ms=rebalance.started_ms,
        ongoing_ms=now_ms - rebalance.started_ms,
        deadline_ms=group.delayed_until_ms,
        waited_for=rebalance.waits(now_ms),
        waits_for_member_ids=tuple(
            each.member_id
            for each in group.streams_members.values()
            if each.epoch < group.epoch or each.state is MemberState.UNREVOKED
        ),
    )


def _waits_for(group: StreamsGroup, member: StreamsMember) -> str | None:
    """Return in words what keeps the member from what it shall have, and who."""
    if group.configured is not None and group.configured.status is not None:
        return f"topics: {group.configured.detail}"
    if member.state is MemberState.UNREVOKED:
        return f"itself: it has yet to give up {_places(_all(member.revoking))}"
    if member.state is not MemberState.UNRELEASED:
        return None
    held: dict[str, list[Task]] = {}
    target = group.target(member.member_id).active
    for task in each_task(target):
        if task.partition in member.assigned.active.get(task.subtopology_id, {}):
            continue
        for holder in group.streams_members.values():
            if holder.member_id != member.member_id and task in _all(holder.revoking) + _all(holder.assigned):
                held.setdefault(holder.member_id, []).append(task)
    words = (f"{holder}, which has yet to give up {_places(tasks)}" for holder, tasks in held.items())
    return "; ".join(words) or "its next heartbeat"


def _all(held: HeldTasks) -> list[Task]:
    return [*each_task(held.active), *each_task(held.standby), *each_task(held.warmup)]


def _places(tasks: list[Task]) -> str:
    told = [f"task {each.subtopology_id}_{each.partition}" for each in tasks[:TASKS_TOLD]]
    more = len(tasks) - TASKS_TOLD
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def _view(group: StreamsGroup, member: StreamsMember, now_ms: int) -> MemberView:
    session = group.sessions.get(member.member_id)
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_leader=False,
        protocols=(NAME,),
        topics=tuple(sorted(group.subscribed_topics or ())),
        partitions=tuple((task.subtopology_id, task.partition) for task in each_task(member.assigned.active)),
        waits_for=_waits_for(group, member),
        last_seen_ms=0 if session is None else session.last_seen_ms,
        session_left_ms=0 if session is None else max(session.deadline_ms - now_ms, 0),
        session_timeout_ms=0 if session is None else session.deadline_ms - session.last_seen_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )
