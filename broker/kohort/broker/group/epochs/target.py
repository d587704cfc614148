"""The target assignment: what every member shall have, decided anew for a new group epoch.

Kafka: TargetAssignmentBuilder, which consumer, share and streams groups share as well.
"""

from collections.abc import Callable, Mapping
from typing import Generic

from kohort.broker.group.decision import Record
from kohort.broker.group.epochs import explaining
from kohort.broker.group.epochs.group import EpochGroup, T
from kohort.broker.group.epochs.members import M
from kohort.broker.group.turn import Turn


class TargetBuilder(Generic[M, T]):
    """Makes the targets of a group, as its members are after this turn, and logs what of them is new."""

    def __init__(
        self,
        turn: Turn,
        group: EpochGroup[M, T],
        *,
        nothing: T,
        target_record: Callable[[str, str, T], Record],
        epoch_record: Callable[[str, int, int], Record],
    ) -> None:
        """`nothing` is what a member shall have that no target was made for."""
        self._turn = turn
        self._group = group
        self._target_record = target_record
        self._epoch_record = epoch_record
        self._nothing = nothing
        self._member: M | None = None
        self._replaced: M | None = None

    def put(self, member: M, replaced: M | None = None) -> None:
        """Let the member be one as well; what the static member had that it replaces is its own."""
        self._member, self._replaced = member, replaced

    def wait_ms(self, name: str, default_ms: int) -> int:
        """Return how long it is until the group may be assigned again: many changes share one assignment."""
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
        """Return what `assign` gives every member from `epoch` on, by the members and their targets."""
        turn, group = self._turn, self._group
        targets = assign(*self._members())
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                turn.log(self._target_record(group.group_id, member_id, target))
        turn.log(self._epoch_record(group.group_id, epoch, turn.now_ms))
        explaining.assigned(turn, group)
        return targets

    def _members(self) -> tuple[Mapping[str, M], Mapping[str, T]]:
        """Return the members after this turn, and what each should have until now."""
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
