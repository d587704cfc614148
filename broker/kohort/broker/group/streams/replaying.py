"""The only place where the logged state of a streams group changes: live, and while loading."""

from collections.abc import Iterable

import msgspec

from kohort.broker.group.epochs.members import FIRST_EPOCH
from kohort.broker.group.epochs.replaying import replays
from kohort.broker.group.kind import Replay
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import Endpoint, MemberState, StreamsMember
from kohort.broker.group.streams.records import RECORDS
from kohort.broker.group.streams.requests import subtopology_of
from kohort.broker.group.streams.tasks import NOTHING_HELD, HeldTasks, Since, Tasks, task_set
from kohort.broker.group.streams.topology import Topology
from kohort.broker.group.turn import ShardState
from kohort.protocol.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentTaskIds,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)


def _replay_group(group: StreamsGroup, value: StreamsGroupMetadataValue) -> None:
    group.validated_topology_epoch = value.validated_topology_epoch
    group.last_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    group.description_epochs = (
        value.stored_description_topology_epoch,
        value.failed_description_topology_epoch,
    )


def _described(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return msgspec.structs.replace(
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


def _target(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(task_set(value.active_tasks), task_set(value.standby_tasks), task_set(value.warmup_tasks))


def _assigned(member: StreamsMember, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    known = {each.value for each in MemberState}
    return msgspec.structs.replace(
        member,
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


def _since(ids: Iterable[StreamsGroupCurrentTaskIds], member_epoch: int) -> Since:
    """Return the tasks with their epochs; tasks written without one have the member's epoch."""
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


REPLAYS: dict[type, Replay] = {
    **replays(
        StreamsGroup,
        RECORDS,
        first_assignment_epoch=FIRST_EPOCH,
        new_member=lambda member_id: StreamsMember(member_id=member_id),
        described=_described,
        target=_target,
        assigned=_assigned,
        unassigned={"state": MemberState.STABLE, "assigned": NOTHING_HELD, "revoking": NOTHING_HELD},
        replay_group=_replay_group,
    ),
    StreamsGroupTopologyKey: _topology,
}
