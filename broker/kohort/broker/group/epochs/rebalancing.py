"""Facts about the rebalances of groups with epochs.

A rebalance begins with a new group epoch and ends when every member has its target assignment.
"""

from collections.abc import Mapping

from kohort.broker.group.epochs.group import EpochGroup, T
from kohort.broker.group.epochs.members import M
from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.group.rebalance_facts import (
    EpochGrew,
    EpochRebalanceBegan,
    EpochRebalanceEnded,
    MemberReconciled,
    MembersRemoved,
    Outcome,
)
from kohort.broker.group.turn import Turn


def epoch_grows(turn: Turn, group: EpochGroup[M, T], cause: Cause, *leaving: M) -> None:
    """Begin a rebalance, or add a cause to the one in progress; members may be `leaving` by this epoch."""
    group_id, now_ms = group.group_id, turn.now_ms
    leaving_ids = tuple(each.member_id for each in leaving)
    if group.is_rebalancing:
        turn.note(EpochGrew(group_id=group_id, at_ms=now_ms, cause=cause))
    else:
        group.is_rebalancing = True
        members = group.members
        turn.note(
            EpochRebalanceBegan(
                group_id=group_id,
                at_ms=now_ms,
                cause=cause,
                from_generation_id=group.epoch,
                members=len(members),
                expected={key: each.client_id for key, each in members.items() if key not in leaving_ids},
                owners=group.owners_of(members),
            )
        )
    if leaving:
        is_expired = cause.kind is not CauseKind.MEMBER_LEFT
        turn.note(
            MembersRemoved(group_id=group_id, at_ms=now_ms, member_ids=leaving_ids, is_expired=is_expired)
        )


def member_stepped(turn: Turn, group: EpochGroup[M, T], member: M, epoch: int) -> None:
    """Note that a member has come to the newest epoch; the last one to reconcile ends the rebalance."""
    if not group.is_rebalancing or member.epoch != epoch:
        return
    turn.note(MemberReconciled(group_id=group.group_id, at_ms=turn.now_ms, member_id=member.member_id))
    members = {**group.members, member.member_id: member}
    if all(each.is_reconciled(epoch) for each in members.values()):
        end_rebalance(turn, group, epoch, members)


def end_rebalance(
    turn: Turn,
    group: EpochGroup[M, T],
    epoch: int,
    members: Mapping[str, M],
    outcome: Outcome | None = None,
) -> None:
    """End the rebalance in progress. Without `outcome` the group is stable, or empty without members."""
    if not group.is_rebalancing:
        return
    group.is_rebalancing = False
    ended = Outcome.STABLE if members else Outcome.EMPTY
    turn.note(
        EpochRebalanceEnded(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            outcome=ended if outcome is None else outcome,
            generation_id=epoch,
            members=len(members),
            protocol_name=f"{group.assignor_name(members, turn.config)} (by the broker)",
            owners=group.owners_of(members),
        )
    )
