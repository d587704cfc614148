"""The only place where the logged state of a streams group changes: live, and while loading."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kohort.broker.group.epochs.replaying import forget, group_of, known, made_unless_gone
from kohort.broker.group.streams.group import FIRST_EPOCH, StreamsGroup
from kohort.broker.group.streams.member import Endpoint, MemberState, StreamsMember
from kohort.broker.group.streams.tasks import NOTHING_HELD, HeldTasks, Since, Tasks, task_set
from kohort.broker.group.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from kohort.broker.group.turn import ShardState
from kohort.protocol.schema import Message
from kohort.protocol.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentTaskIds,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupSubtopology,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopicInfo,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)


def knows(key: Message) -> bool:
    """Return whether a record of that key is about a streams group."""
    return type(key) in _REPLAYS


def replay(groups: ShardState, key: Message, value: Message | None) -> None:
    """Take over what the log says of a streams group; with None it has gone."""
    _REPLAYS[type(key)](groups, key, value)


def streams_group(groups: ShardState, group_id: str) -> StreamsGroup:
    """Return the group; what was there under its id before was written earlier, and is over."""
    return group_of(groups, group_id, StreamsGroup)


def _epoch(groups: ShardState, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
    if value is None:
        _forget(groups, key.group_id)
        return
    group = streams_group(groups, key.group_id)
    group.generation_id = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.last_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    group.description_epochs = (
        value.stored_description_topology_epoch,
        value.failed_description_topology_epoch,
    )
    group.refresh()


def _forget(groups: ShardState, group_id: str) -> None:
    group = known(groups, group_id, StreamsGroup)
    if group is None:
        return
    for member_id in list(group.streams_members):
        group.drop_member(member_id)
    group.let_go()
    forget(groups, group)


def _member(
    groups: ShardState, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group = known(groups, key.group_id, StreamsGroup)
        if group is not None:
            group.drop_member(key.member_id)
        return
    group = streams_group(groups, key.group_id)
    member = group.streams_members.get(key.member_id) or StreamsMember(member_id=key.member_id)
    endpoint = value.user_endpoint
    group.put_member(
        msgspec.structs.replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags={each.key: each.value for each in value.client_tags},
        )
    )


def _target_epoch(
    groups: ShardState,
    key: StreamsGroupTargetAssignmentMetadataKey,
    value: StreamsGroupTargetAssignmentMetadataValue | None,
) -> None:
    group = made_unless_gone(value, groups, key.group_id, StreamsGroup)
    if group is not None:
        group.assignment_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        group.assigned_at_ms = None if value is None else value.assignment_timestamp or None
        group.refresh()


def _target(
    groups: ShardState,
    key: StreamsGroupTargetAssignmentMemberKey,
    value: StreamsGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is not None:
        streams_group(groups, key.group_id).targets[key.member_id] = Tasks(
            task_set(value.active_tasks), task_set(value.standby_tasks), task_set(value.warmup_tasks)
        )
        return
    group = known(groups, key.group_id, StreamsGroup)
    if group is not None:
        group.targets.pop(key.member_id, None)


def _current(
    groups: ShardState,
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: StreamsGroupCurrentMemberAssignmentValue | None,
) -> None:
    group = made_unless_gone(value, groups, key.group_id, StreamsGroup)
    if group is None:
        return
    member = group.streams_members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put_member(
                msgspec.structs.replace(
                    member, epoch=0, previous_epoch=0, assigned=NOTHING_HELD, revoking=NOTHING_HELD
                )
            )
        return
    known = {each.value for each in MemberState}
    group.put_member(
        msgspec.structs.replace(
            StreamsMember(member_id=key.member_id) if member is None else member,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if value.state in known else MemberState.UNKNOWN,
            assigned=HeldTasks(
                _since(value.active_tasks, value.member_epoch),
                task_set(value.standby_tasks),
                task_set(value.warmup_tasks),
            ),
            revoking=HeldTasks(
                _since(value.active_tasks_pending_revocation, value.member_epoch),
                task_set(value.standby_tasks_pending_revocation),
                task_set(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _since(ids: Iterable[StreamsGroupCurrentTaskIds], member_epoch: int) -> Since:
    """Return the tasks with their epochs; what was written without them is the member's since its own."""
    found: dict[str, dict[int, int]] = {}
    for each in ids:
        epochs = each.assignment_epochs
        if not epochs or len(epochs) != len(each.partitions):
            epochs = (member_epoch,) * len(each.partitions)
        if each.partitions:
            found.setdefault(each.subtopology_id, {}).update(zip(each.partitions, epochs, strict=True))
    return found


def _topology(
    groups: ShardState, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None
) -> None:
    if value is None:
        group = known(groups, key.group_id, StreamsGroup)
        if group is not None:
            group.put_topology(None, 0)
        return
    topology = Topology(value.epoch, tuple(map(_subtopology, value.subtopologies)))
    streams_group(groups, key.group_id).put_topology(topology, len(value.encode(0)))


def _subtopology(told: StreamsGroupSubtopology) -> Subtopology:
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


def _internal(told: StreamsGroupTopicInfo) -> InternalTopic:
    configs = tuple((each.key, each.value) for each in told.topic_configs)
    return InternalTopic(told.name, told.partitions, told.replication_factor, configs)


_REPLAYS: dict[type[Message], Callable[[ShardState, Any, Any], None]] = {
    StreamsGroupMetadataKey: _epoch,
    StreamsGroupMemberMetadataKey: _member,
    StreamsGroupTargetAssignmentMetadataKey: _target_epoch,
    StreamsGroupTargetAssignmentMemberKey: _target,
    StreamsGroupCurrentMemberAssignmentKey: _current,
    StreamsGroupTopologyKey: _topology,
}
