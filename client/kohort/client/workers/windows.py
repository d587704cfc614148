"""Records of partitions between their poll and their commit, which may be finished in any order. Pure.

Each partition has a window, from the first unfinished record to the last one polled. Only offsets
before the window may be committed; a partition with a full window is paused.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Generic, TypeVar

from kohort.client.consumer_records import Assignments, PolledOffsets
from kohort.client.values import AnyRecord, OffsetAndMetadata, TopicPartition


class Order(Enum):
    """Which records are handled one after the other."""

    KEY = "key"  # Those of one partition with the same key, in its deserialized form; without one, none.
    PARTITION = "partition"
    NONE = "none"

    def lane_key(self, record: AnyRecord) -> Hashable:
        """Return the key of the record's lane in its partition: one record of a lane is handled at a time."""
        if self is Order.PARTITION:
            return None
        if self is Order.KEY and record.key is not None:
            key: Hashable = record.key
            return key
        return object()  # A separate lane.


@dataclass(slots=True, eq=False)
class Window:
    """One assigned partition; after a revocation or a recreation it is another object."""

    partition: TopicPartition
    assignment_number: int = 0
    window: deque[int] = field(default_factory=deque)
    done: set[int] = field(default_factory=set)  # Those of the window that are done.
    position: int | None = None  # The offset that may be committed.
    committed: int | None = None
    running: int = 0
    paused: bool = False

    def finish(self, offset: int) -> None:
        """Mark a record as done, and move the start of the window after all that are done."""
        self.done.add(offset)
        while self.window and self.window[0] in self.done:
            first = self.window.popleft()
            self.done.discard(first)
            self.position = self.window[0] if self.window else first + 1


W = TypeVar("W", bound=Window)


class Windows(Generic[W]):
    """The windows of all partitions that are ours."""

    def __init__(self, window_max: int) -> None:
        self._window_max = window_max
        self._assignment_number = 0
        self._read_on: list[TopicPartition] = []  # They were paused for a deleted topic.
        self._tracks: dict[TopicPartition, W] = {}

    def polled(self, assignments: Assignments) -> None:
        """Forget partitions whose topic was recreated: a poll has noticed it. Before its records are added.

        The offsets of the topic before must not be committed for the new one.
        """
        if assignments.number == self._assignment_number:
            return
        self._assignment_number = assignments.number
        old = [
            each
            for each in self._tracks.values()
            if assignments.has_come_since(each.partition, each.assignment_number)
        ]
        self._read_on += (each.partition for each in old if each.paused)
        self.forget([each.partition for each in old])

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget these partitions of another member: work still running there does not count any more."""
        for each in partitions:
            self._tracks.pop(each, None)

    def progress(self, partitions: Iterable[TopicPartition] | None = None) -> PolledOffsets:
        """Return the offsets that may be committed and were not yet, of these partitions or all."""
        offsets = {
            track.partition: OffsetAndMetadata(track.position)
            for track in self._of(partitions)
            if track.position is not None and track.position != track.committed
        }
        return PolledOffsets(offsets, self._assignment_number)

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets are kept."""
        for partition, each in offsets.items():
            track = self._tracks.get(partition)
            if track is not None:
                track.committed = each.offset

    def to_pause(self) -> list[TopicPartition]:
        """Return the partitions whose windows have become too long, which count as paused from now on."""
        return self._turn(paused=True, least=self._window_max)

    def to_resume(self) -> list[TopicPartition]:
        """Return the paused partitions that have room again, which count as read on from now on."""
        read_on, self._read_on = self._read_on, []
        return read_on + self._turn(paused=False, most=self._window_max // 2)

    def _turn(self, *, paused: bool, least: int = 0, most: float = inf) -> list[TopicPartition]:
        turning = [
            each
            for each in self._tracks.values()
            if each.paused is not paused and least <= len(each.window) <= most
        ]
        for each in turning:
            each.paused = paused
        return [each.partition for each in turning]

    @property
    def is_holding_back(self) -> bool:
        """Whether any partition is paused. From any thread, as are the counts."""
        return any(track.paused for track in list(self._tracks.values()))

    @property
    def uncommitted(self) -> int:
        """How many records were polled and can't be committed yet."""
        return sum(len(track.window) for track in list(self._tracks.values()))

    def _of(self, partitions: Iterable[TopicPartition] | None) -> list[W]:
        if partitions is None:
            return list(self._tracks.values())
        return [self._tracks[each] for each in partitions if each in self._tracks]
