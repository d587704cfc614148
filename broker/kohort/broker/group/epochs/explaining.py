"""What the rebalances of groups with epochs were about: why one grew, whom the others waited for, what moved.

One begins with a new group epoch and is over when everybody has what the target gives it; epochs that come in
between are its further causes. Volatile as the classic groups' are, and told by the same reports.
"""

from collections.abc import Collection, Mapping

from kohort.broker.group.epochs.group import EpochGroup, T
from kohort.broker.group.epochs.members import EpochMember, M
from kohort.broker.group.events import (
    Cause,
    CauseKind,
    Outcome,
    RebalanceCompleted,
    RebalanceReport,
    RebalanceStarted,
)
from kohort.broker.group.history import remember
from kohort.broker.group.rebalance import Rebalance
from kohort.broker.group.reports import moves_of
from kohort.broker.group.turn import Turn

ABSENT_KEPT = 1_000


def cause_of(turn: Turn, kind: CauseKind, member: EpochMember, *, after_ms: int = 0) -> Cause:
    """Return the cause that lies with a member."""
    return Cause(
        kind=kind,
        at_ms=turn.now_ms,
        member_id=member.member_id,
        client_id=member.client_id,
        group_instance_id=member.instance_id,
        client_host=member.client_host,
        after_ms=after_ms,
    )


def epoch_grows(turn: Turn, group: EpochGroup[M, T], cause: Cause, without: Collection[str] = ()) -> None:
    """Begin a rebalance, or let the one in progress have one more cause: then all have to come again.

    For those it is `without` a new one waits not at all, since their going is what begins it.
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
    """Wait no longer for who has left, or was put out."""
    rebalance = group.rebalance
    if rebalance is not None:
        rebalance.gone_ms[member_id] = turn.now_ms
        if is_expired:
            rebalance.removed.append(member_id)


def assigned(turn: Turn, group: EpochGroup[M, T]) -> None:
    """The target for the newest epoch is there."""
    if group.rebalance is not None:
        group.rebalance.join_completed_ms = turn.now_ms


def stepped(turn: Turn, group: EpochGroup[M, T], member: M, epoch: int) -> None:
    """Take a member's step into account; with the last one the rebalance is over."""
    rebalance = group.rebalance
    if rebalance is None or rebalance.join_completed_ms is None or member.epoch != epoch:
        return
    rebalance.joined_ms.setdefault(member.member_id, turn.now_ms)  # It has given up what it had to.
    members = {**group.members, member.member_id: member}
    if all(each.is_reconciled(epoch) for each in members.values() if each.member_id not in rebalance.gone_ms):
        _close(turn, group, rebalance, epoch, members)


def emptied(turn: Turn, group: EpochGroup[M, T], epoch: int) -> None:
    """The last member has gone: nobody is waited for."""
    if group.rebalance is not None:
        _close(turn, group, group.rebalance, epoch, {})


def _close(
    turn: Turn,
    group: EpochGroup[M, T],
    rebalance: Rebalance,
    epoch: int,
    members: Mapping[str, M],
) -> None:
    now_ms = turn.now_ms
    assigned_ms = now_ms if rebalance.join_completed_ms is None else rebalance.join_completed_ms
    report = RebalanceReport(
        outcome=Outcome.STABLE if members else Outcome.EMPTY,
        generation_id=epoch,
        cause=rebalance.cause,
        further_causes=tuple(rebalance.further_causes),
        started_ms=rebalance.started_ms,
        join_ms=assigned_ms - rebalance.started_ms,
        sync_ms=now_ms - assigned_ms,
        still_ms=now_ms - rebalance.started_ms,
        members=len(members),
        leader=None,
        protocol_name=f"{group.assignor_name(members, turn.config)} (by the broker)",
        waited_for=rebalance.waits(now_ms),
        removed_member_ids=tuple(rebalance.removed),
        moves=moves_of(rebalance, group.owners_before, group.owners_of(members), now_ms),
        is_initial=rebalance.is_initial,
        is_by_broker=True,
    )
    group.rebalance = None
    group.owners_before = {}
    remember(turn, group, report)
    turn.note(RebalanceCompleted(group_id=group.group_id, at_ms=now_ms, report=report))
