"""The target assignment of a group, computed for each new group epoch.

Kafka: TargetAssignmentBuilder, which consumer, share and streams groups share as well.
"""

from collections.abc import Callable, Mapping
from typing import Generic

from kohort.broker.group.decision import Record
from kohort.broker.group.epochs.group import EpochGroup, T
from kohort.broker.group.epochs.members import M
from kohort.broker.group.rebalance_facts import TargetAssigned
from kohort.broker.group.turn import Turn


class TargetBuilder(Generic[M, T]):
    """Computes the target assignment with the members as they are after this turn, and logs the changes."""

    def __init__(
        self,
        turn: Turn,
        group: EpochGroup[M, T],
        *,
        nothing: T,
        target_record: Callable[[str, str, T], Record],
        epoch_record: Callable[[str, int, int], Record],
    ) -> None:
        """`nothing` is the target of a member that has none yet."""
        self._turn = turn
        self._group = group
        self._target_record = target_record
        self._epoch_record = epoch_record
        self._nothing = nothing
        self._member: M | None = None
        self._replaced: M | None = None

    def put(self, member: M, replaced: M | None = None) -> None:
        """Add the member of this turn; it gets the target of the static member that it replaces."""
        self._member, self._replaced = member, replaced

    def wait_ms(self, name: str, default_ms: int) -> int:
        """Return the time until the next assignment is allowed: several changes share one assignment."""
        if self._group.assigned_at_ms is None:
            return 0
        interval_ms = self._turn.config.of_group(self._group.overrides, name, default_ms)
        since_ms = self._turn.now_ms - self._group.assigned_at_ms
        if since_ms < 0:  # The clock was set back: that delays nothing.
            return 0
        return max(interval_ms - since_ms, 0)

    def build(
        self, epoch: int, assign: Callable[[Mapping[str, M], Mapping[str, T]], Mapping[str, T]]
    ) -> Mapping[str, T]:
        """Return the new target of each member, from `epoch` on."""
        turn, group = self._turn, self._group
        targets = assign(*self._members())
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                turn.log(self._target_record(group.group_id, member_id, target))
        turn.log(self._epoch_record(group.group_id, epoch, turn.now_ms))
        if group.is_rebalancing:
            turn.note(TargetAssigned(group_id=group.group_id, at_ms=turn.now_ms))
        return targets

    def _members(self) -> tuple[Mapping[str, M], Mapping[str, T]]:
        """Return the members after this turn, and the former target of each."""
        targets, member, replaced = self._group.targets, self._member, self._replaced
        members = dict(self._group.members)
        if replaced is not None:
            members.pop(replaced.member_id, None)
        if member is not None:
            members[member.member_id] = member
        current = {member_id: targets.get(member_id, self._nothing) for member_id in members}
        if member is not None and replaced is not None:
            current[member.member_id] = targets.get(replaced.member_id, self._nothing)
        return members, current
