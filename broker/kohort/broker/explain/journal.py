"""The rebalances of the groups of one coordinator, from its events.

The journal takes the coordinator's events and facts in order. It returns events as they are, and makes events
and reports of the facts about rebalances.
"""

from collections.abc import Callable
from typing import Any

from kohort.broker.explain.events import JoinCompleted, Move, RebalanceCompleted, RebalanceReport
from kohort.broker.explain.history import NO_REBALANCES, GroupRebalances, HistoryRoom
from kohort.broker.explain.moves import moves_of, owners
from kohort.broker.explain.rebalance import Rebalance
from kohort.broker.explain.rejoining import rejoin_cause
from kohort.broker.group.events import (
    Cause,
    Event,
    GroupDeleted,
    MemberEvent,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    RebalanceStarted,
    StaticMemberReturned,
)
from kohort.broker.group.rebalance_facts import (
    CauseAdded,
    ClassicRebalanceEnded,
    EpochGrew,
    EpochRebalanceBegan,
    EpochRebalanceEnded,
    GenerationBegan,
    JoinPhaseBegan,
    MemberReconciled,
    MembersRemoved,
    Outcome,
    RebalanceFact,
    TargetAssigned,
)

ABSENT_KEPT = 1_000


class RebalanceJournal:
    """The state of each group's rebalances."""

    __slots__ = ("_groups", "_room")

    def __init__(self, room: HistoryRoom) -> None:
        """`room` is that of all coordinators of a broker."""
        self._groups: dict[str, GroupRebalances] = {}
        self._room = room

    def of(self, group_id: str) -> GroupRebalances:
        """Return the rebalances of a group, to be read only."""
        return self._groups.get(group_id, NO_REBALANCES)

    def clear(self) -> None:
        """Forget all groups: the coordinator is dropped."""
        for each in self._groups.values():
            each.clear()
        self._groups.clear()

    def note(self, noted: Event | RebalanceFact) -> Event | None:
        """Apply the next event, and return the resulting one."""
        take = _TAKES.get(type(noted))
        event = None if take is None else take(self, noted)
        return noted if isinstance(noted, Event) else event

    def ongoing(self, group_id: str) -> Rebalance | None:
        """Return the rebalance in progress, if there is one."""
        found = self._groups.get(group_id)
        return None if found is None else found.ongoing

    # -- events about members -----------------------------------------------------------------------------

    def _member_came(self, event: MemberEvent) -> None:
        rebalance = self._join_phase(event.group_id)
        if rebalance is not None:
            rebalance.joined_ms.setdefault(event.member_id, event.at_ms)

    def _static_member_returned(self, event: StaticMemberReturned) -> None:
        rebalance = self.ongoing(event.group_id)
        if rebalance is not None:
            rebalance.replace_member(event.former_member_id, event.member_id, event.client_id)
        self._member_came(event)

    def _member_went(self, event: MemberEvent) -> None:
        rebalance = self._join_phase(event.group_id)
        if rebalance is not None:
            is_expired = isinstance(event, MemberExpired)
            rebalance.remove_member(event.member_id, event.at_ms, is_expired=is_expired)

    def _join_phase(self, group_id: str) -> Rebalance | None:
        """Return the rebalance of a classic group. Groups with epochs have other facts."""
        found = self._groups.get(group_id)
        rebalance = None if found is None else found.ongoing
        return None if rebalance is None or rebalance.is_by_broker else rebalance

    def _group_deleted(self, event: GroupDeleted) -> None:
        found = self._groups.pop(event.group_id, None)
        if found is not None:
            found.clear()

    # -- classic groups -----------------------------------------------------------------------------------

    def _join_phase_began(self, fact: JoinPhaseBegan) -> Event:
        cause = fact.cause if isinstance(fact.cause, Cause) else rejoin_cause(fact.cause)
        rebalance = Rebalance(cause, fact.at_ms, fact.expected, is_initial=fact.is_initial)
        rebalance.joined_ms = dict.fromkeys(fact.joined_member_ids, fact.at_ms)
        self._kept(fact.group_id).ongoing = rebalance
        return RebalanceStarted(
            group_id=fact.group_id,
            at_ms=fact.at_ms,
            cause=cause,
            from_generation_id=fact.from_generation_id,
            members=fact.members,
            waits_for_member_ids=fact.waits_for_member_ids,
        )

    def _cause_added(self, fact: CauseAdded) -> None:
        rebalance = self.ongoing(fact.group_id)
        if rebalance is not None:
            rebalance.add_cause(fact.cause)

    def _generation_began(self, fact: GenerationBegan) -> Event | None:
        rebalance = self.ongoing(fact.group_id)
        if rebalance is None:
            return None
        rebalance.complete_join(fact.at_ms)
        return JoinCompleted(
            group_id=fact.group_id,
            at_ms=fact.at_ms,
            generation_id=fact.generation_id,
            leader=fact.leader,
            protocol_name=fact.protocol_name,
            members=fact.members,
            waited_ms=fact.at_ms - rebalance.started_ms,
            waited_for=rebalance.waited_for,
        )

    def _classic_rebalance_ended(self, fact: ClassicRebalanceEnded) -> Event | None:
        rebalance = self.ongoing(fact.group_id)
        if rebalance is None:
            return None
        moves: tuple[Move, ...] = ()
        if fact.outcome is not Outcome.RESTARTED:
            before = owners(fact.protocol_type, ((each.member_id, each.assignment) for each in fact.former))
            after = owners(fact.protocol_type, fact.assignments.items())
            moves = moves_of(rebalance, before, after, fact.at_ms)
        return self._end(fact, rebalance, moves, leader=fact.leader)

    # -- groups with epochs -------------------------------------------------------------------------------

    def _epoch_rebalance_began(self, fact: EpochRebalanceBegan) -> Event:
        rebalance = Rebalance(
            fact.cause, fact.at_ms, fact.expected, is_initial=not fact.members, owners=fact.owners
        )
        self._kept(fact.group_id).ongoing = rebalance
        return RebalanceStarted(
            group_id=fact.group_id,
            at_ms=fact.at_ms,
            cause=fact.cause,
            from_generation_id=fact.from_generation_id,
            members=fact.members,
            waits_for_member_ids=tuple(fact.expected)[:ABSENT_KEPT],
        )

    def _epoch_grew(self, fact: EpochGrew) -> None:
        rebalance = self.ongoing(fact.group_id)
        if rebalance is not None:
            rebalance.add_cause(fact.cause)
            rebalance.joined_ms.clear()
            rebalance.join_completed_ms = None

    def _members_removed(self, fact: MembersRemoved) -> None:
        rebalance = self.ongoing(fact.group_id)
        if rebalance is not None:
            for member_id in fact.member_ids:
                rebalance.remove_member(member_id, fact.at_ms, is_expired=fact.is_expired)

    def _target_assigned(self, fact: TargetAssigned) -> None:
        rebalance = self.ongoing(fact.group_id)
        if rebalance is not None:
            rebalance.join_completed_ms = fact.at_ms

    def _member_reconciled(self, fact: MemberReconciled) -> None:
        rebalance = self.ongoing(fact.group_id)
        if rebalance is not None:
            rebalance.joined_ms.setdefault(fact.member_id, fact.at_ms)

    def _epoch_rebalance_ended(self, fact: EpochRebalanceEnded) -> Event | None:
        rebalance = self.ongoing(fact.group_id)
        if rebalance is None:
            return None
        moves: tuple[Move, ...] = ()
        if fact.outcome is not Outcome.RESTARTED:
            moves = moves_of(rebalance, rebalance.owners, fact.owners, fact.at_ms, rebalance.joined_ms)
        return self._end(fact, rebalance, moves)

    # -- reports ------------------------------------------------------------------------------------------

    def _kept(self, group_id: str) -> GroupRebalances:
        found = self._groups.get(group_id)
        if found is None:
            found = self._groups[group_id] = GroupRebalances(self._room)
        return found

    def _end(
        self,
        fact: ClassicRebalanceEnded | EpochRebalanceEnded,
        rebalance: Rebalance,
        moves: tuple[Move, ...],
        leader: str | None = None,
    ) -> Event:
        """Add the rebalance to the group's history, and return the event with its report."""
        now_ms = fact.at_ms
        assigned_ms = now_ms if rebalance.join_completed_ms is None else rebalance.join_completed_ms
        report = RebalanceReport(
            outcome=fact.outcome,
            generation_id=fact.generation_id,
            cause=rebalance.cause,
            further_causes=tuple(rebalance.further_causes),
            started_ms=rebalance.started_ms,
            join_ms=assigned_ms - rebalance.started_ms,
            sync_ms=now_ms - assigned_ms,
            still_ms=now_ms - rebalance.started_ms,
            members=fact.members,
            leader=leader,
            protocol_name=fact.protocol_name,
            waited_for=rebalance.waited(now_ms),
            removed_member_ids=tuple(rebalance.removed),
            moves=moves,
            is_initial=rebalance.is_initial,
            is_by_broker=rebalance.is_by_broker,
        )
        rebalances = self._groups[fact.group_id]
        rebalances.ongoing = None
        rebalances.keep(report)
        return RebalanceCompleted(group_id=fact.group_id, at_ms=now_ms, report=report)


_TAKES: dict[type, Callable[[RebalanceJournal, Any], Event | None]] = {
    MemberJoined: RebalanceJournal._member_came,
    MemberRejoined: RebalanceJournal._member_came,
    StaticMemberReturned: RebalanceJournal._static_member_returned,
    MemberLeft: RebalanceJournal._member_went,
    MemberExpired: RebalanceJournal._member_went,
    GroupDeleted: RebalanceJournal._group_deleted,
    CauseAdded: RebalanceJournal._cause_added,
    JoinPhaseBegan: RebalanceJournal._join_phase_began,
    GenerationBegan: RebalanceJournal._generation_began,
    ClassicRebalanceEnded: RebalanceJournal._classic_rebalance_ended,
    EpochRebalanceBegan: RebalanceJournal._epoch_rebalance_began,
    EpochGrew: RebalanceJournal._epoch_grew,
    MembersRemoved: RebalanceJournal._members_removed,
    TargetAssigned: RebalanceJournal._target_assigned,
    MemberReconciled: RebalanceJournal._member_reconciled,
    EpochRebalanceEnded: RebalanceJournal._epoch_rebalance_ended,
}
"""What takes the next event or fact, by its class. Other events say nothing of rebalances."""
