"""Counts changes of in-sync replicas and leaders in the metadata. The loop's thread."""

from collections.abc import Iterator

from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState
from kohort.broker.metadata.snapshot import Snapshot


class LeadershipCounters:
    """Counts since the start: of partitions that this broker leads, and of its elections as the
    controller."""

    __slots__ = ("elections", "isr_expands", "isr_shrinks", "unclean_elections")

    def __init__(self) -> None:
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.elections = 0
        self.unclean_elections = 0
        """Of leaders that may have lacked acknowledged records."""

    def note(self, node_id: int, before: Snapshot, after: Snapshot) -> None:
        """Count the differences of the later snapshot."""
        if before.topics is after.topics:
            return
        is_controller = after.controller_id == node_id
        for old, new in _changed(before, after):
            if new.leader == old.leader == node_id:
                self.isr_shrinks += len(new.isr) < len(old.isr)
                self.isr_expands += len(new.isr) > len(old.isr)
            if is_controller and new.leader not in (old.leader, NO_LEADER):
                self.elections += 1
                self.unclean_elections += new.leader not in old.isr and new.leader not in old.elr


def _changed(before: Snapshot, after: Snapshot) -> Iterator[tuple[PartitionState, PartitionState]]:
    for topic_id, topic in after.topics_by_id.items():
        known = before.topics_by_id.get(topic_id)
        if known is None or known is topic:
            continue
        for old, new in zip(known.partitions, topic.partitions, strict=False):
            if new is not old:
                yield old, new
