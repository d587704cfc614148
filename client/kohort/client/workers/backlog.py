"""Records between their poll and their commit: pure, for threads (under a lock) and tasks.

Each partition has a window, from the lowest unfinished record to the last one polled. Only offsets
before the window may be committed. Records that have to keep their order share a lane, and in each
lane one record is handled at a time.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from kohort.client.values import AnyRecord, TopicPartition
from kohort.client.workers.windows import Order, Window, Windows


@dataclass(slots=True, eq=False)
class Lane:
    """Records that wait for the one before them."""

    key: Hashable
    waiting: deque[AnyRecord] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Track(Window):
    """One partition while it is ours: its window, and what of it is to be handled."""

    lanes: dict[Hashable, Lane] = field(default_factory=dict)
    last_started: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A record that is being handled."""

    record: AnyRecord
    track: Track
    lane: Lane


class Backlog(Windows[Track]):
    """All records that were polled and are not committed."""

    def __init__(self, order: Order, window_max: int) -> None:
        super().__init__(window_max)
        self._order = order
        self._ready: deque[tuple[Track, Lane]] = deque()

    def add(self, records: Iterable[AnyRecord]) -> None:
        """Add the polled records, in order."""
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            track = self._tracks.get(partition)
            if track is None:
                track = self._tracks[partition] = Track(partition, self._assignment_number)
            track.window.append(record.offset)
            key = self._order.lane_key(record)
            lane = track.lanes.get(key)
            if lane is None:
                lane = track.lanes[key] = Lane(key)
                self._ready.append((track, lane))
            lane.waiting.append(record)

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
        """Mark the record as done; it may be committed when all before it are done."""
        track, lane = work.track, work.lane
        track.running -= 1
        track.finish(work.record.offset)
        if lane.waiting:
            self._ready.append((track, lane))
        elif track.lanes.get(lane.key) is lane:
            del track.lanes[lane.key]

    def give_up(self, work: Work) -> None:
        """Mark the record as given up: nothing after it will be committed."""
        work.track.running -= 1

    def drop_waiting(self, partitions: Iterable[TopicPartition], *, all_of_them: bool = False) -> None:
        """Start no more records of these partitions after the last started one.

        Records before it are still handled: otherwise finished records after them could not be committed, and
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
        """Forget these partitions of another member: start none of their records."""
        self.drop_waiting(partitions, all_of_them=True)
        super().forget(partitions)
