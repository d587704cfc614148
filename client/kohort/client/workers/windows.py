"""Records of partitions between their poll and their commit, which may be done in any order: pure.

Of each partition there is a window, from the first record that is not done to the last one polled. Only what
lies before the window may be committed; a partition whose window is full is paused.
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
        """Return what tells the record's lane from others of its partition: of each one goes at a time."""
        if self is Order.PARTITION:
            return None
        if self is Order.KEY and record.key is not None:
            key: Hashable = record.key
            return key
        return object()  # A lane of its own.


@dataclass(slots=True, eq=False)
class Window:
    """One partition while it is ours: given up and taken again, or made anew, it is another."""

    partition: TopicPartition
    assignment_number: int = 0
    window: deque[int] = field(default_factory=deque)
    done: set[int] = field(default_factory=set)  # Those of the window that are done.
    position: int | None = None  # What may be committed.
    committed: int | None = None
    running: int = 0
    paused: bool = False

    def finish(self, offset: int) -> None:
        """Count a record as done, and let the window begin behind all that are."""
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
        self._read_on: list[TopicPartition] = []  # They were paused for a topic that is gone.
        self._tracks: dict[TopicPartition, W] = {}

    def polled(self, assignments: Assignments) -> None:
        """Forget partitions whose topic was made anew since: a poll has noticed it. Before its records come.

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
        """These partitions are somebody else's: whatever still runs there does not count any more."""
        for each in partitions:
            self._tracks.pop(each, None)

    def progress(self, partitions: Iterable[TopicPartition] | None = None) -> PolledOffsets:
        """Return what may be committed and was not yet, of these partitions or all."""
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
