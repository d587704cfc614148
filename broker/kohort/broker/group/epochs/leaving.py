"""Removal of members of groups with epochs after timeouts, and the timers of a loaded group."""

from collections.abc import Callable
from typing import Any

from kohort.broker.group.decision import RevocationTimer, SessionTimer
from kohort.broker.group.epochs.group import AnyEpochGroup
from kohort.broker.group.epochs.members import AWAY
from kohort.broker.group.epochs.sessions import expect_revocation, has_ended, silent_ms
from kohort.broker.group.events import Cause, CauseKind, GroupLoaded, MemberExpired
from kohort.broker.group.notes import fields_of, member_cause
from kohort.broker.group.turn import Turn

LEFT = "left the group"
AWAY_FOR_A_WHILE = "left, and will be back"
SILENT = "nothing was heard of it"

Remove = Callable[[Turn, Any, Cause, Any], None]
"""Removes a member from a group; its partitions are free for the others from the next epoch."""


def session_timer_fired(remove: Remove, turn: Turn, group: AnyEpochGroup, key: SessionTimer) -> None:
    """Remove the member if its session has ended; otherwise the timer was set again."""
    if has_ended(turn, group, key):
        expire(remove, turn, group, key.member_id, CauseKind.MEMBER_EXPIRED, SILENT)


def revocation_timer_fired(
    remove: Remove, owned: str, turn: Turn, group: AnyEpochGroup, key: RevocationTimer
) -> None:
    """Remove the member if it still has partitions pending revocation in the epoch of the timer."""
    asked_epoch = group.revocations.get(key.member_id)
    member = group.members.get(key.member_id)
    if member is not None and member.is_revoking and member.epoch == asked_epoch:
        reason = f"it did not give up its {owned} within its rebalance timeout"
        expire(remove, turn, group, key.member_id, CauseKind.MEMBER_DID_NOT_COME, reason)


def expire(  # noqa: PLR0917  # Two of them say why.
    remove: Remove, turn: Turn, group: AnyEpochGroup, member_id: str, kind: CauseKind, reason: str
) -> None:
    """Remove the member, and note the reason."""
    member = group.member(member_id)
    after_ms = silent_ms(turn, group, member_id)
    remove(turn, group, member_cause(turn, kind, member, after_ms=after_ms), member)
    turn.note(MemberExpired(**fields_of(turn, group, member), after_ms=after_ms, reason=reason))


def resume(extend_session: Callable[[Turn, Any, Any], None], turn: Turn, group: AnyEpochGroup) -> None:
    """Start the sessions and the revocation timers of a loaded group's members."""
    if not group.members:
        return
    for member in group.members.values():
        extend_session(turn, group, member)
        if member.is_revoking and member.epoch != AWAY:
            expect_revocation(turn, group, member)
    turn.note(
        GroupLoaded(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            generation_id=group.epoch,
            members=group.member_count,
        )
    )
