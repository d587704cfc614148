"""Rebalances of groups with epochs: their causes, how long members waited, and which partitions moved.

A rebalance begins with a new group epoch and ends when every member has its target assignment. Group epochs
in between are its further causes. As in classic groups, it is volatile, and ends in a `RebalanceReport`.
"""

from collections.abc import Collection, Mapping

from kohort.broker.group.epochs.group import EpochGroup, T
from kohort.broker.group.epochs.members import M
from kohort.broker.group.events import Cause, Outcome, RebalanceStarted
from kohort.broker.group.history import close_rebalance
from kohort.broker.group.rebalance import Rebalance
from kohort.broker.group.reports import moves_of
from kohort.broker.group.turn import Turn

ABSENT_KEPT = 1_000


def epoch_grows(turn: Turn, group: EpochGroup[M, T], cause: Cause, without: Collection[str] = ()) -> None:
    """Begin a rebalance, or add a cause to the one in progress: then it waits for all members again.

    A new rebalance does not wait for the members `without`: it begins because they leave.
    """
    rebalance = group.rebalance
    if rebalance is not None:
        rebalance.add_cause(cause)
        rebalance.joined_ms.clear()
        rebalance.join_completed_ms = None
        return
    members = group.members
    expected = {key: each.client_id for key, each in members.items() if key not in without}
    group.rebalance = Rebalance(cause, turn.now_ms, group.epoch, expected, is_initial=not members)
    group.owners_before = group.owners_of(members)
    turn.note(
        RebalanceStarted(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            cause=cause,
            from_generation_id=group.epoch,
            members=len(members),
            waits_for_member_ids=tuple(expected)[:ABSENT_KEPT],
        )
    )


def gone(turn: Turn, group: EpochGroup[M, T], member_id: str, *, is_expired: bool) -> None:
    """Stop waiting for a member that has left or was removed."""
    rebalance = group.rebalance
    if rebalance is not None:
        rebalance.gone_ms[member_id] = turn.now_ms
        if is_expired:
            rebalance.removed.append(member_id)


def assigned(turn: Turn, group: EpochGroup[M, T]) -> None:
    """Note that the target assignment of the newest group epoch was made."""
    if group.rebalance is not None:
        group.rebalance.join_completed_ms = turn.now_ms


def stepped(turn: Turn, group: EpochGroup[M, T], member: M, epoch: int) -> None:
    """Note a member's reconciliation; the rebalance ends with that of the last member."""
    rebalance = group.rebalance
    if rebalance is None or rebalance.join_completed_ms is None or member.epoch != epoch:
        return
    rebalance.joined_ms.setdefault(member.member_id, turn.now_ms)  # It has given up what it had to.
    members = {**group.members, member.member_id: member}
    if all(each.is_reconciled(epoch) for each in members.values() if each.member_id not in rebalance.gone_ms):
        _close(turn, group, rebalance, epoch, members)


def emptied(turn: Turn, group: EpochGroup[M, T], epoch: int) -> None:
    """End the rebalance of a group that has no members any more."""
    if group.rebalance is not None:
        _close(turn, group, group.rebalance, epoch, {})


def _close(
    turn: Turn,
    group: EpochGroup[M, T],
    rebalance: Rebalance,
    epoch: int,
    members: Mapping[str, M],
) -> None:
    after = group.owners_of(members)
    close_rebalance(
        turn,
        group,
        Outcome.STABLE if members else Outcome.EMPTY,
        generation_id=epoch,
        members=len(members),
        protocol_name=f"{group.assignor_name(members, turn.config)} (by the broker)",
        waited_for=rebalance.waits(turn.now_ms),
        moves=moves_of(rebalance, group.owners_before, after, turn.now_ms, rebalance.joined_ms),
        is_by_broker=True,
    )
    group.rebalance = None
    group.owners_before = {}
