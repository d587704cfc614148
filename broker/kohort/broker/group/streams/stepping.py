"""One heartbeat of a member: perhaps a new group epoch and target assignment, then reconciliation.

The member's request, its topology, the current topics, and settings may each make a new group epoch; a
new epoch makes a new target; the target brings this member one step on. Source:
GroupMetadataManager.streamsGroupHeartbeat.
"""

from collections.abc import Mapping
from functools import partial

from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.classic.records import group_tombstone
from kohort.broker.group.decision import JoinTimer
from kohort.broker.group.epochs.members import unknown_state
from kohort.broker.group.epochs.rebalancing import epoch_grows, member_stepped
from kohort.broker.group.epochs.sessions import expect_revocation, stop_expecting
from kohort.broker.group.epochs.target import TargetBuilder
from kohort.broker.group.events import CauseKind
from kohort.broker.group.metadata import Metadata, metadata_hash
from kohort.broker.group.notes import member_cause
from kohort.broker.group.streams.assignor import Candidate, Work, assign
from kohort.broker.group.streams.group import NOT_VALIDATED, StreamsGroup
from kohort.broker.group.streams.joining import Joined, take_place
from kohort.broker.group.streams.member import MemberState, StreamsMember
from kohort.broker.group.streams.reconciling import reconciled
from kohort.broker.group.streams.records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
    topology_record,
)
from kohort.broker.group.streams.sessions import delay_assignment, is_delayed
from kohort.broker.group.streams.tasks import NO_TASKS, Tasks, TaskSet
from kohort.broker.group.streams.topology import Configured, Status, Topology, configured
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode

STANDBYS = "num.standby.replicas"


class Step:
    """The effects of a heartbeat. `prepare` may refuse it and logs nothing; `take` logs."""

    def __init__(self, turn: Turn, metadata: Metadata, group: StreamsGroup, start: Joined) -> None:
        self.turn = turn
        self.metadata = metadata
        self.group = group
        self.start = start
        self.before = before = start.member
        self.is_new = before.member_id not in group.members and start.replaced is None
        self.statuses: list[tuple[Status, str]] = []
        self.wait_ms: int | None = None
        self.topology: Topology | None = group.topology
        self.configured: Configured | None = group.configured
        self.metadata_hash = group.metadata_hash

    def prepare(self, told: Topology | None, owned: Tasks | None) -> None:
        """Find out what follows from the topology and the topics. Raises: ApiError."""
        group = self.group
        group.overrides = self.metadata.group_config(group.group_id)
        if self.before.state is MemberState.UNKNOWN and (owned is None or owned):
            raise unknown_state("streams", "tasks")
        self.topology = self._topology(told)
        if group.configured is None or group.metadata_version != self.metadata.version:
            self.metadata_hash = metadata_hash(self.topology.required_topics, self.metadata)
            if group.configured is None or self.metadata_hash != group.metadata_hash:
                self.configured = configured(self.topology, self.metadata)
        assert self.configured is not None
        if owned is not None and self.configured.is_ready:
            for role in (owned.active, owned.standby, owned.warmup):
                self._check_tasks(role)

    def _topology(self, told: Topology | None) -> Topology:
        """Return the group's topology after this heartbeat. Raises: ApiError."""
        known = self.group.topology
        if told is None:
            if known is None:  # Only a damaged log has no topology: a member that joins sends it again.
                raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, "The group has lost its topology: join again.")
            return known
        if known is None:
            return told
        if known.epoch <= told.epoch and not known.is_same(told):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def _check_tasks(self, tasks: TaskSet) -> None:
        assert self.configured is not None
        subtopologies = self.configured.subtopologies or {}
        for subtopology_id, partitions in tasks.items():
            subtopology = subtopologies.get(subtopology_id)
            if subtopology is None:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, f"Subtopology {subtopology_id} does not exist in the topology."
                )
            for partition in sorted(partitions):
                if not 0 <= partition < subtopology.tasks:
                    raise ApiError(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {partition} for subtopology {subtopology_id} is invalid. "
                        f"Number of tasks for this subtopology: {subtopology.tasks}",
                    )

    def take(self, wish: StreamsMember, owned: Tasks | None) -> StreamsMember:
        """Return the member after its step; changes are logged."""
        turn, group = self.turn, self.group
        assert self.topology is not None
        assert self.configured is not None
        former = turn.groups.find(group.group_id, ClassicGroup)
        if former is not None and former.metadata is not None:
            turn.log(group_tombstone(group.group_id))
        if self.start.replaced is not None:
            take_place(turn, group, self.start)
        if self.is_new or wish != self.before:
            turn.log(member_record(group.group_id, wish))
        if group.topology is None:
            turn.log(topology_record(group.group_id, self.topology))
        elif wish.topology_epoch < group.topology.epoch:
            self.statuses.append(
                (
                    Status.STALE_TOPOLOGY,
                    f"The member's topology epoch {wish.topology_epoch} is behind the group's topology epoch "
                    f"{group.topology.epoch}.",
                )
            )
        group.configured = self.configured
        group.metadata_version = self.metadata.version
        epoch = self._epoch(wish)
        if not group.members:
            delay_assignment(turn, group)
        target, target_epoch = self._target(wish, epoch)
        member = reconciled(wish, target, target_epoch, group, owned)
        if member != wish:
            turn.log(current_record(group.group_id, member))
            if member.is_revoking:
                expect_revocation(turn, group, member)
            elif wish.is_revoking:
                stop_expecting(turn, group, member.member_id)
        member_stepped(turn, group, member, epoch)
        return member

    def _epoch(self, wish: StreamsMember) -> int:
        """Return the group epoch after what this heartbeat changes."""
        turn, group = self.turn, self.group
        assert self.topology is not None
        assert self.configured is not None
        validated = self.topology.epoch if self.configured.is_ready else NOT_VALIDATED
        configs = {STANDBYS: str(standby_replicas(turn, group))}
        has_new_wish = self.is_new or _assignment_inputs(wish) != _assignment_inputs(self.before)
        has_new_topics = (
            self.metadata_hash != group.metadata_hash or validated != group.validated_topology_epoch
        )
        if not (has_new_wish or has_new_topics or configs != group.last_configs):
            return group.epoch
        epoch = group.epoch + 1
        turn.log(epoch_record(group, epoch, self.metadata_hash, validated, configs))
        if self.is_new:
            kind = CauseKind.MEMBER_JOINED
        else:
            kind = CauseKind.SUBSCRIPTION_CHANGED if has_new_wish else CauseKind.METADATA_CHANGED
        epoch_grows(turn, group, member_cause(turn, kind, wish))
        return epoch

    def _target(self, wish: StreamsMember, epoch: int) -> tuple[Tasks, int]:
        """Return the member's target assignment, and its epoch."""
        turn, group, replaced = self.turn, self.group, self.start.replaced
        target = group.target(wish.member_id if replaced is None else replaced.member_id)
        if epoch <= group.assignment_epoch:
            return target, group.assignment_epoch
        if is_delayed(turn, group):
            assert group.delayed_until_ms is not None
            self.wait_ms = group.delayed_until_ms - turn.now_ms
            words = "Assignment delayed due to the configured initial rebalance delay."
            self.statuses.append((Status.ASSIGNMENT_DELAYED, words))
            return NO_TASKS, group.assignment_epoch
        builder = _builder(turn, group)
        interval_ms = turn.config.group_streams_assignment_interval_ms
        wait_ms = builder.wait_ms("streams.assignment.interval.ms", interval_ms)
        if wait_ms > 0:
            self.wait_ms = wait_ms
            words = "Assignment delayed due to the configured assignment interval."
            self.statuses.append((Status.ASSIGNMENT_DELAYED, words))
            return target, group.assignment_epoch
        builder.put(wish, replaced)
        assert self.configured is not None
        targets = builder.build(epoch, partial(_targets, self.configured, standby_replicas(turn, group)))
        return targets[wish.member_id], epoch


def _builder(turn: Turn, group: StreamsGroup) -> TargetBuilder[StreamsMember, Tasks]:
    return TargetBuilder(
        turn, group, nothing=NO_TASKS, target_record=target_record, epoch_record=target_epoch_record
    )


def _targets(
    topics: Configured, replicas: int, members: Mapping[str, StreamsMember], current: Mapping[str, Tasks]
) -> dict[str, Tasks]:
    """Return every member's tasks; of a topology that does not fit its topics there are none."""
    if not topics.is_ready or topics.subtopologies is None:
        return dict.fromkeys(sorted(members), NO_TASKS)
    candidates = {key: Candidate(each.process_id, current[key]) for key, each in members.items()}
    work = {key: Work(each.tasks, each.is_stateful) for key, each in topics.subtopologies.items()}
    return assign(candidates, work, replicas)


def _assignment_inputs(member: StreamsMember) -> tuple[object, ...]:
    """Return the member's values on which the assignment depends (Kafka.

    HasEpochRelevantMemberConfigChanged).
    """
    return member.topology_epoch, member.rack_id, member.client_tags, member.process_id


def standby_replicas(turn: Turn, group: StreamsGroup) -> int:
    """Return how many copies of its tasks' state the group keeps."""
    config = turn.config
    wanted = config.of_group(
        group.overrides, "streams.num.standby.replicas", config.group_streams_num_standby_replicas
    )
    return min(wanted, config.group_streams_max_standby_replicas)


def delay_is_over(turn: Turn, group: StreamsGroup, _key: JoinTimer) -> None:
    """Make the first assignment of a group that has waited for more members."""
    if is_delayed(turn, group):
        return  # A timer of an earlier group with this id.
    group.delayed_until_ms = None
    if group.members and group.epoch > group.assignment_epoch and group.configured is not None:
        replicas = standby_replicas(turn, group)
        _builder(turn, group).build(group.epoch, partial(_targets, group.configured, replicas))
