"""The join phase: prepare, wait for all members, remove absent ones, start the next generation."""

from collections.abc import Mapping
from itertools import chain, islice

from kohort.broker.group.classic.group import ClassicGroup, InitialDelay, Member
from kohort.broker.group.classic.parking import answer_join, answer_sync, dismiss, sync_error
from kohort.broker.group.classic.records import empty_group_record
from kohort.broker.group.classic.timers import end_session, extend_session
from kohort.broker.group.decision import JoinTimer, SyncTimer
from kohort.broker.group.events import (
    Cause,
    CauseKind,
    GroupEmptied,
    LeaderElected,
    MemberExpired,
    RebalanceExtended,
)
from kohort.broker.group.notes import fields_of
from kohort.broker.group.rebalance_facts import (
    CauseAdded,
    ClassicRebalanceEnded,
    GenerationBegan,
    JoinPhaseBegan,
    Outcome,
    Rejoin,
)
from kohort.broker.group.state import GroupState
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

ABSENT_KEPT = 1_000


def rebalance_or_complete(turn: Turn, group: ClassicGroup, cause: Cause) -> None:
    """Start a rebalance, or, if one is in progress, end its join phase if no member is missing."""
    if group.state is GroupState.PREPARING_REBALANCE:
        add_cause(turn, group, cause)
        complete_join_if_all_joined(turn, group)
    else:
        prepare_rebalance(turn, group, cause)


def add_cause(turn: Turn, group: ClassicGroup, cause: Cause) -> None:
    """Note an event that would have started a rebalance, if none were in progress."""
    turn.note(CauseAdded(group_id=group.group_id, at_ms=turn.now_ms, cause=cause))


def complete_join_if_all_joined(turn: Turn, group: ClassicGroup) -> None:
    """End the join phase early, except that of a new group: it waits out its delay."""
    is_joining = group.state is GroupState.PREPARING_REBALANCE
    if is_joining and group.initial_delay is None and group.has_all_members_joined:
        complete_join(turn, group)


def prepare_rebalance(turn: Turn, group: ClassicGroup, cause: Cause | Rejoin) -> None:
    """Begin the join phase (Kafka: prepareRebalance)."""
    if group.leader is None:
        _let_one_lead(turn, group)
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            if answer_sync(turn, member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)):
                extend_session(turn, group, member)
        group.are_assignments_void = True
        end_rebalance(turn, group, Outcome.RESTARTED)
    stop_waiting_for_syncs(turn, group)
    is_initial = group.state is GroupState.EMPTY
    _note_begin(turn, group, cause, is_initial=is_initial)
    group.become(GroupState.PREPARING_REBALANCE, turn.now_ms)
    if is_initial:
        delay_ms = max(turn.config.group_initial_rebalance_delay_ms, 0)
        group.initial_delay = InitialDelay(delay_ms, group.rebalance_timeout_ms())
        _wait_for_joins(turn, group, delay_ms)
    elif group.has_all_members_joined:
        complete_join(turn, group)
    else:
        _wait_for_joins(turn, group, group.rebalance_timeout_ms())


def begin_downgraded(turn: Turn, group: ClassicGroup) -> None:
    """Rebalance a group that was a consumer group: it has no leader yet, and all members have to rejoin."""
    prepare_rebalance(turn, group, Cause(CauseKind.DOWNGRADED, turn.now_ms))


def _let_one_lead(turn: Turn, group: ClassicGroup) -> None:
    """Make the first member of a former consumer group its leader, and start the sessions of all."""
    group.leader = next(iter(group.members), None)
    for member in group.members.values():
        if member.timer_ms is None:
            extend_session(turn, group, member)


def join_timer_fired(turn: Turn, group: ClassicGroup, key: JoinTimer) -> None:
    """End the join phase, or let a new group with new members wait once more."""
    if group.join_deadline_ms is None:
        if group.leader is None and group.members:
            begin_downgraded(turn, group)
        return
    if turn.now_ms < group.join_deadline_ms:
        turn.set_timer(key, group.join_deadline_ms)
        return
    delay = group.initial_delay
    if delay is None or not (delay.has_new_member and delay.remaining_ms > 0):
        complete_join(turn, group)
        return
    delay.has_new_member = False
    waited_ms = delay.delay_ms
    delay.delay_ms = min(turn.config.group_initial_rebalance_delay_ms, delay.remaining_ms)
    delay.remaining_ms = max(delay.remaining_ms - waited_ms, 0)
    deadline_ms = _wait_for_joins(turn, group, delay.delay_ms)
    turn.note(
        RebalanceExtended(
            group_id=group.group_id, at_ms=turn.now_ms, deadline_ms=deadline_ms, members=len(group.members)
        )
    )


def complete_join(turn: Turn, group: ClassicGroup) -> None:
    """End the join phase: begin the next generation, or empty a group without members."""
    assert group.state is GroupState.PREPARING_REBALANCE, group
    _stop_waiting_for_joins(turn, group)
    _remove_absent(turn, group)
    if not group.members:
        _become_empty(turn, group)
    elif _elect_leader(turn, group):
        _begin_generation(turn, group)
    else:  # Only static members are left, and none has joined: wait again, as Kafka does.
        _wait_for_joins(turn, group, group.rebalance_timeout_ms())


def stop_waiting_for_syncs(turn: Turn, group: ClassicGroup) -> None:
    """Expect no more SyncGroups."""
    group.pending_syncs.clear()
    if group.sync_deadline_ms is not None:
        group.sync_deadline_ms = None
        turn.cancel_timer(SyncTimer(group.group_id))


def joined_members(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    """Return the members and their subscriptions, as a leader gets them."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name) or b"",
        )
        for member in group.members.values()
    )


def join_success(
    group: ClassicGroup,
    member_id: str,
    members: tuple[JoinGroupResponseMember, ...] = (),
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Return the answer that gives a member its generation."""
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def end_rebalance(
    turn: Turn, group: ClassicGroup, outcome: Outcome, assignments: Mapping[str, bytes] | None = None
) -> None:
    """Note how the rebalance ended, before `replay` takes that over: the log has the former assignment."""
    turn.note(
        ClassicRebalanceEnded(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            outcome=outcome,
            generation_id=group.generation_id + (outcome is Outcome.EMPTY),
            members=len(group.members),
            leader=group.leader,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            former=() if group.metadata is None else group.metadata.members,
            assignments=assignments or {},
        )
    )


def _note_begin(turn: Turn, group: ClassicGroup, cause: Cause | Rejoin, *, is_initial: bool) -> None:
    members = group.members.values()
    turn.note(
        JoinPhaseBegan(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            cause=cause,
            from_generation_id=group.generation_id,
            members=len(members),
            waits_for_member_ids=_absent(group),
            expected={each.member_id: each.client_id for each in members if not each.is_new},
            joined_member_ids=tuple([each.member_id for each in members if each.awaiting_join is not None]),
            is_initial=is_initial,
        )
    )


def _absent(group: ClassicGroup) -> tuple[str, ...]:
    """Return the missing members and given ids; not all of very many."""
    members = (each.member_id for each in group.members.values() if each.awaiting_join is None)
    return tuple(islice(chain(members, group.pending_members), ABSENT_KEPT))


def _wait_for_joins(turn: Turn, group: ClassicGroup, delay_ms: int) -> int:
    deadline_ms = turn.now_ms + delay_ms
    group.join_deadline_ms = deadline_ms
    turn.set_timer(JoinTimer(group.group_id), deadline_ms)
    return deadline_ms


def _stop_waiting_for_joins(turn: Turn, group: ClassicGroup) -> None:
    if group.join_deadline_ms is not None:
        group.join_deadline_ms = None
        turn.cancel_timer(JoinTimer(group.group_id))


def _remove_absent(turn: Turn, group: ClassicGroup) -> None:
    """Remove the dynamic members that did not rejoin; static ones stay (KIP-345)."""
    absent = [
        each for each in group.members.values() if each.awaiting_join is None and each.instance_id is None
    ]
    for member in absent:
        remove_member(turn, group, member, "did not rejoin within the rebalance timeout")


def remove_member(turn: Turn, group: ClassicGroup, member: Member, reason: str) -> None:
    """Remove a member after a timeout; its parked request is answered UNKNOWN_MEMBER_ID."""
    dismiss(turn, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    group.remove(member.member_id)
    end_session(turn, group, member)
    turn.note(
        MemberExpired(
            **fields_of(turn, group, member),
            after_ms=turn.now_ms - member.last_seen_ms,
            reason=reason,
        )
    )


def _elect_leader(turn: Turn, group: ClassicGroup) -> bool:
    """Make a joined member the leader; return whether there is one (Kafka: maybeElectNewJoinedLeader)."""
    assert group.leader is not None
    if group.members[group.leader].awaiting_join is not None:
        return True
    joined = next((each for each in group.members.values() if each.awaiting_join is not None), None)
    if joined is None:
        return False
    former, group.leader = group.leader, joined.member_id
    turn.note(
        LeaderElected(group_id=group.group_id, at_ms=turn.now_ms, leader=group.leader, former_leader=former)
    )
    return True


def _become_empty(turn: Turn, group: ClassicGroup) -> None:
    """Log that no member is left; `replay` makes the group Empty."""
    turn.log(empty_group_record(group, turn.now_ms))
    end_rebalance(turn, group, Outcome.EMPTY)
    turn.note(GroupEmptied(group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.generation_id + 1))


def _begin_generation(turn: Turn, group: ClassicGroup) -> None:
    """Answer every JoinGroup, and expect the SyncGroup of every member within the rebalance timeout."""
    group.initial_delay = None
    group.generation_id += 1
    group.protocol_name = group.select_protocol()
    group.read_subscriptions()
    group.become(GroupState.COMPLETING_REBALANCE, turn.now_ms)
    members = joined_members(group)
    for member in group.members.values():
        is_leader = member.member_id == group.leader
        answer_join(turn, group, member, join_success(group, member.member_id, members if is_leader else ()))
        extend_session(turn, group, member)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    group.sync_deadline_ms = turn.now_ms + group.rebalance_timeout_ms()
    turn.set_timer(SyncTimer(group.group_id), group.sync_deadline_ms)
    assert group.leader is not None
    turn.note(
        GenerationBegan(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            generation_id=group.generation_id,
            leader=group.leader,
            protocol_name=group.protocol_name,
            members=len(group.members),
        )
    )
