"""The offsets that a group must have, computed from Spark's checkpoint. Pure.

The checkpoint is the truth and the group its mirror: never ahead of it, and moved backwards only on
request. Partitions that are not in the checkpoint belong to the group alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kohort.client import TopicPartition
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.ingest.checkpoint import Offsets


class GroupBusyError(PipelineError):
    """The group has live members: they commit for it, and nothing else may."""


class GroupAheadError(PipelineError):
    """The group is ahead of Spark: something else has committed, or the checkpoint is an older one."""


class Step(Enum):
    """The change of a group's offset that is needed."""

    STAY = "stay"
    FORWARD = "forward"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class Row:
    """One partition in the checkpoint and in the group; `group` is None where it has committed nothing."""

    partition: TopicPartition
    checkpoint: int
    group: int | None

    @property
    def step(self) -> Step:
        """Return the change that brings the group to the offset of the checkpoint."""
        if self.group == self.checkpoint:
            return Step.STAY
        return Step.FORWARD if self.group is None or self.group < self.checkpoint else Step.BACK


@dataclass(frozen=True, slots=True)
class Comparison:
    """All partitions of the checkpoint, in order."""

    rows: tuple[Row, ...]

    def commit(self, *, backwards: bool) -> dict[TopicPartition, int]:
        """Return what to commit; `backwards`: also where the group has to go back."""
        wanted = {Step.FORWARD, Step.BACK} if backwards else {Step.FORWARD}
        return {each.partition: each.checkpoint for each in self.rows if each.step in wanted}

    @property
    def ahead(self) -> tuple[Row, ...]:
        """Where the group has committed more than the checkpoint has."""
        return tuple(each for each in self.rows if each.step is Step.BACK)

    def require_not_ahead(self, group_id: str) -> None:
        """Return if the group is nowhere ahead. Raises: GroupAheadError."""
        if not self.ahead:
            return
        first = self.ahead[0]
        raise GroupAheadError(
            f"group {group_id!r} is ahead of Spark's checkpoint in {len(self.ahead)} of {len(self.rows)}"
            f" partitions: {first.partition} at {first.group}, the checkpoint at {first.checkpoint}. Either"
            " somebody else commits for this group, or the checkpoint is older than the group. See what"
            " differs with `kohort spark reconcile`; with --backwards (backwards=True) the group goes back"
        )


def compare(checkpoint: Offsets, group: Offsets) -> Comparison:
    """Return the difference between the group and the checkpoint."""
    return Comparison(tuple(Row(each, checkpoint[each], group.get(each)) for each in sorted(checkpoint)))


def require_no_members(group_id: str, members: int) -> None:
    """Return if the group has no live members. Raises: GroupBusyError."""
    if members:
        raise GroupBusyError(
            f"group {group_id!r} has {members} live member{'s' if members > 1 else ''}, which commit for it."
            " Give Spark a group of its own, or stop them first"
        )
