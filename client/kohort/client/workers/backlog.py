"""Records between their poll and their commit: pure, for threads (under a lock) and tasks alike.

Each partition has a window, from the lowest record that is not done to the last one polled. Only what
lies before the window may be committed. Records that have to keep their order share a lane, and of each
lane one record is handled at a time.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from kohort.client.values import AnyRecord, OffsetAndMetadata, TopicPartition


class Order(Enum):
    """Which records are handled one after the other."""

    KEY = "key"  # Those of one partition with the same key, in its deserialized form; without one, none.
    PARTITION = "partition"
    NONE = "none"


@dataclass(slots=True, eq=False)
class Lane:
    """Records that wait for the one before them."""

    key: Hashable
    waiting: deque[AnyRecord] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Track:
    """One partition while it is ours: given up and taken again, it is another."""

    partition: TopicPartition
    window: deque[int] = field(default_factory=deque)
    done: set[int] = field(default_factory=set)  # Those of the window that are done.
    lanes: dict[Hashable, Lane] = field(default_factory=dict)
    position: int | None = None  # What may be committed.
    committed: int | None = None
    running: int = 0
    last_started: int = -1
    paused: bool = False

    def finish(self, offset: int) -> None:
        """Count a record as done, and let the window begin behind all that are."""
        self.done.add(offset)
        while self.window and self.window[0] in self.done:
            first = self.window.popleft()
            self.done.discard(first)
            self.position = self.window[0] if self.window else first + 1


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A record that is being handled."""

    record: AnyRecord
    track: Track
    lane: Lane


class Backlog:
    """All records that were polled and are not committed."""

    def __init__(self, order: Order, window_max: int) -> None:
        self._order = order
        self._window_max = window_max
        self._tracks: dict[TopicPartition, Track] = {}
        self._ready: deque[tuple[Track, Lane]] = deque()

    def add(self, records: Iterable[AnyRecord]) -> None:
        """Take in what was polled, in that order."""
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            track = self._tracks.get(partition)
            if track is None:
                track = self._tracks[partition] = Track(partition)
            track.window.append(record.offset)
            key = self._lane_key(record)
            lane = track.lanes.get(key)
            if lane is None:
                lane = track.lanes[key] = Lane(key)
                self._ready.append((track, lane))
            lane.waiting.append(record)

    def _lane_key(self, record: AnyRecord) -> Hashable:
        if self._order is Order.PARTITION:
            return None
        if self._order is Order.KEY and record.key is not None:
            key: Hashable = record.key
            return key
        return object()  # A lane of its own.

    def start(self) -> Work | None:
        """Return a record to be handled now, or None if all that wait have another before them."""
        while self._ready:
            track, lane = self._ready.popleft()
            if lane.waiting:
                track.running += 1
                record = lane.waiting.popleft()
                track.last_started = max(track.last_started, record.offset)
                return Work(record, track, lane)
        return None

    def finish(self, work: Work) -> None:
        """The record is done, and may be committed as soon as all before it are."""
        track, lane = work.track, work.lane
        track.running -= 1
        track.finish(work.record.offset)
        if lane.waiting:
            self._ready.append((track, lane))
        elif track.lanes.get(lane.key) is lane:
            del track.lanes[lane.key]

    def give_up(self, work: Work) -> None:
        """The record was not done, and nothing behind it will be committed."""
        work.track.running -= 1

    def progress(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what may be committed and was not yet, of these partitions or all."""
        return {
            track.partition: OffsetAndMetadata(track.position)
            for track in self._of(partitions)
            if track.position is not None and track.position != track.committed
        }

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets are kept."""
        for partition, each in offsets.items():
            track = self._tracks.get(partition)
            if track is not None:
                track.committed = each.offset

    def drop_waiting(self, partitions: Iterable[TopicPartition], *, all_of_them: bool = False) -> None:
        """Start none of these partitions' records any more behind the last that was started.

        Those before it are still handled: what is done behind them could not be committed otherwise, and
        would be handled again. With `all_of_them` no record is started at all.
        """
        for track in self._of(partitions):
            for lane in track.lanes.values():
                while lane.waiting and (all_of_them or lane.waiting[-1].offset > track.last_started):
                    lane.waiting.pop()

    def unfinished(self, partitions: Iterable[TopicPartition]) -> int:
        """Return how many records of these partitions are being handled, or wait for it."""
        return sum(
            track.running + sum(len(lane.waiting) for lane in track.lanes.values())
            for track in self._of(partitions)
        )

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are somebody else's: whatever still runs there does not count any more."""
        self.drop_waiting(partitions, all_of_them=True)
        for each in partitions:
            self._tracks.pop(each, None)

    def to_pause(self) -> list[TopicPartition]:
        """Return the partitions whose windows have become too long, which count as paused from now on."""
        return self._turn(paused=True, least=self._window_max)

    def to_resume(self) -> list[TopicPartition]:
        """Return the paused partitions that have room again, which count as read on from now on."""
        return self._turn(paused=False, most=self._window_max // 2)

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
        """Whether any partition is paused."""
        return any(track.paused for track in self._tracks.values())

    @property
    def waiting(self) -> int:
        """How many records were polled and can't be committed yet."""
        return sum(len(track.window) for track in self._tracks.values())

    def _of(self, partitions: Iterable[TopicPartition] | None) -> list[Track]:
        if partitions is None:
            return list(self._tracks.values())
        return [self._tracks[each] for each in partitions if each in self._tracks]
