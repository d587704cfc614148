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
        self.members: dict[str, M] = dict(group.members)
        self.current: dict[str, T] = {key: group.targets.get(key, nothing) for key in group.members}
        self._nothing = nothing

    def put(self, member: M, replaced: M | None = None) -> None:
        """Let the member be one as well; what a static member had that it replaces is its own."""
        heir_of = member if replaced is None else replaced
        target = self._group.targets.get(heir_of.member_id, self._nothing)
        if replaced is not None and replaced.member_id != member.member_id:
            self.members.pop(replaced.member_id, None)
            self.current.pop(replaced.member_id, None)
        self.members[member.member_id] = member
        self.current[member.member_id] = target

    def wait_ms(self, name: str, default_ms: int) -> int:
        """Return how long it is until the group may be assigned again: many changes share one assignment."""
        if self._group.assigned_at_ms is None:
            return 0
        interval_ms = self._turn.config.of_group(self._group.overrides, name, default_ms)
        since_ms = self._turn.now_ms - self._group.assigned_at_ms
        return (
            max(interval_ms - since_ms, 0) if since_ms >= 0 else 0
        )  # A clock that went back delays nothing.

    def build(
        self, epoch: int, assign: Callable[[Mapping[str, M], Mapping[str, T]], Mapping[str, T]]
    ) -> Mapping[str, T]:
        """Return what `assign` gives every member from `epoch` on, by the members and their targets."""
        turn, group = self._turn, self._group
        targets = assign(self.members, self.current)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                turn.log(self._target_record(group.group_id, member_id, target))
        turn.log(self._epoch_record(group.group_id, epoch, turn.now_ms))
        explaining.assigned(turn, group)
        return targets
