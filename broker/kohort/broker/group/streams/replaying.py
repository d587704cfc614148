"""The only place where the logged state of a streams group changes: live, and while loading."""

from collections.abc import Iterable

import msgspec

from kohort.broker.group.epochs.members import FIRST_EPOCH
from kohort.broker.group.epochs.replaying import (
    drop_member,
    drop_target,
    forget_group,
    keep_target_epoch,
    made_unless_gone,
)
from kohort.broker.group.kind import Replay
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import Endpoint, MemberState, StreamsMember
from kohort.broker.group.streams.requests import subtopology_of
from kohort.broker.group.streams.tasks import NOTHING_HELD, HeldTasks, Since, Tasks, task_set
from kohort.broker.group.streams.topology import Topology
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
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)


def _epoch(groups: ShardState, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
    if value is None:
        forget_group(groups, key.group_id, StreamsGroup)
        return
    group = groups.group_of_kind(key.group_id, StreamsGroup)
    group.generation_id = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.last_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    group.description_epochs = (
        value.stored_description_topology_epoch,
        value.failed_description_topology_epoch,
    )
    group.refresh()


def _member(
    groups: ShardState, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
) -> None:
    if value is None:
        drop_member(groups, key.group_id, key.member_id, StreamsGroup)
        return
    group = groups.group_of_kind(key.group_id, StreamsGroup)
    member = group.members.get(key.member_id) or StreamsMember(member_id=key.member_id)
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
    keep_target_epoch(groups, key.group_id, value, StreamsGroup, FIRST_EPOCH)


def _target(
    groups: ShardState,
    key: StreamsGroupTargetAssignmentMemberKey,
    value: StreamsGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        drop_target(groups, key.group_id, key.member_id, StreamsGroup)
        return
    groups.group_of_kind(key.group_id, StreamsGroup).targets[key.member_id] = Tasks(
        task_set(value.active_tasks), task_set(value.standby_tasks), task_set(value.warmup_tasks)
    )


def _current(
    groups: ShardState,
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: StreamsGroupCurrentMemberAssignmentValue | None,
) -> None:
    group = made_unless_gone(value, groups, key.group_id, StreamsGroup)
    if group is None:
        return
    member = group.members.get(key.member_id)
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
        group = groups.find(key.group_id, StreamsGroup)
        if group is not None:
            group.put_topology(None, 0)
        return
    topology = Topology(value.epoch, tuple(map(subtopology_of, value.subtopologies)))
    groups.group_of_kind(key.group_id, StreamsGroup).put_topology(topology, len(value.encode(0)))


REPLAYS: dict[type[Message], Replay] = {
    StreamsGroupMetadataKey: _epoch,
    StreamsGroupMemberMetadataKey: _member,
    StreamsGroupTargetAssignmentMetadataKey: _target_epoch,
    StreamsGroupTargetAssignmentMemberKey: _target,
    StreamsGroupCurrentMemberAssignmentKey: _current,
    StreamsGroupTopologyKey: _topology,
}
