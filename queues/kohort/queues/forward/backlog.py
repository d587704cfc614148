"""Records between their poll and their commit, pushed in any order and committed without a gap: pure.

Of each partition there is a window, from the first record that is not done to the last one polled. What is
committed is where the window begins. A record may have to wait for its time, and for others of its lane.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from kohort.client.values import AnyRecord, TopicPartition
from kohort.client.workers.windows import Order, Window, Windows
from kohort.queues.forward.verdict import Verdict

CRITICAL = 0.5  # A window that is so full ...
MOSTLY_DONE = 0.5  # ... and of which so much is done is held up by its first record.


@dataclass(slots=True, eq=False)
class Lane:
    """Records that wait for the one before them."""

    key: Hashable
    jobs: "deque[Job]" = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Job:
    """A record that is to be pushed; `attempt` counts from 1."""

    record: AnyRecord
    track: "Track"
    lane: Lane
    due_ms: int
    attempt: int
    route: str = ""
    is_running: bool = False
    is_moving: bool = False  # It was found to hold the others up.
    is_fixed: bool = False  # It is too large to be copied.
    verdict: Verdict | None = None  # What was said of this attempt, and is still to be seen to.

    @property
    def queue(self) -> str | None:
        """Where it waits for its start: by its route, or by None if it is not pushed."""
        return self.route if self.verdict is None else None


@dataclass(slots=True, eq=False)
class Track(Window):
    """One partition while it is ours: its window, and what of it is to be pushed."""

    jobs: dict[int, Job] = field(default_factory=dict)  # Those of the window that are not done.
    lanes: dict[Hashable, Lane] = field(default_factory=dict)
    is_closing: bool = False
    pushed_bytes: int = 0
    pushed_ms: float = 0.0


class Backlog(Windows[Track]):
    """All records that were polled and are not committed."""

    def __init__(self, order: Order, window_max: int) -> None:
        super().__init__(window_max)
        self._order = order
        # Of each route, by time, then by arrival; heads of lanes alone. Under None those that have a verdict.
        self._ready: dict[str | None, list[tuple[int, int, Job]]] = {}
        self._arrivals = count()

    def add(
        self,
        record: AnyRecord,
        due_ms: int,
        attempt: int,
        route: str = "",
        verdict: Verdict | None = None,
    ) -> None:
        """Take in a record in the order of the poll; it is not pushed before `due_ms`.

        With a verdict it is not pushed at all: that is what is done with it.
        """
        partition = TopicPartition(record.topic, record.partition)
        track = self._tracks.get(partition)
        if track is None:
            track = self._tracks[partition] = Track(partition, self._assignment_number)
        key = self._order.lane_key(record)
        lane = track.lanes.get(key)
        if lane is None:
            lane = track.lanes[key] = Lane(key)
        job = Job(record, track, lane, due_ms, attempt, route, verdict=verdict)
        track.window.append(record.offset)
        track.jobs[record.offset] = job
        lane.jobs.append(job)
        if lane.jobs[0] is job:
            self._offer(job)

    def start(self, now_ms: int, route: str | None = "") -> Job | None:
        """Return a record of a route that is to be pushed now, None if there is none.

        With None for the route it is one that has a verdict, and is not pushed.
        """
        ready = self._ready.get(route)
        while ready and ready[0][0] <= now_ms:
            _, _, job = heappop(ready)
            if self._is_waiting(job, route):
                job.is_running = True
                job.track.running += 1
                return job
        return None

    def has_ready(self, route: str | None) -> bool:
        """Return whether a record of a route may wait for its start; False if none does."""
        return bool(self._ready.get(route))

    def next_due_ms(self, route: str | None = "") -> int | None:
        """Return when the next one of a route, as of `start`, has its time; None if none waits for that."""
        ready = self._ready.get(route)
        while ready and not self._is_waiting(ready[0][2], route):
            heappop(ready)
        return ready[0][0] if ready else None

    def finish(self, job: Job) -> None:
        """The record is done, and committed as soon as all before it are; once for each."""
        track, lane, offset = job.track, job.lane, job.record.offset
        self._rest(job)
        if track.jobs.pop(offset, None) is None:
            return
        track.finish(offset)
        if lane.jobs and lane.jobs[0] is job:
            lane.jobs.popleft()
        if lane.jobs:
            self._offer(lane.jobs[0])
        elif track.lanes.get(lane.key) is lane:
            del track.lanes[lane.key]

    def again(self, job: Job, due_ms: int, attempt: int) -> None:
        """The record is to be pushed again from its place, and its lane waits for it."""
        job.verdict = None
        self._wait(job, due_ms, attempt)

    def see_to_later(self, job: Job, due_ms: int, verdict: Verdict) -> None:
        """What was said of the record could not be done: it starts again for that, and is not pushed."""
        job.verdict = verdict
        self._wait(job, due_ms, job.attempt)

    def blockers(self) -> list[Job]:
        """Return the first records of windows that are long and mostly done, each once.

        One that is only to be written elsewhere is none: moving it would be writing it, too.
        """
        found = []
        for track in self._tracks.values():
            size = len(track.window)
            if size >= CRITICAL * self._window_max and len(track.done) >= MOSTLY_DONE * size:
                job = track.jobs[track.window[0]]
                if not job.is_moving and not track.is_closing and job.verdict is None:
                    job.is_moving = True
                    found.append(job)
        return found

    def holding(self) -> list[Job]:
        """Return the records that are first in windows that are half full, and are to be pushed."""
        firsts = [
            track.jobs[track.window[0]]
            for track in self._tracks.values()
            if len(track.window) >= CRITICAL * self._window_max and not track.is_closing
        ]
        return [each for each in firsts if each.verdict is None]

    def waiting(self, route: str, now_ms: int, elsewhere: str) -> list[Job]:
        """Return the records of a route that are due and not begun, of all topics but one."""
        return [
            job
            for due_ms, _, job in self._ready.get(route, ())
            if due_ms <= now_ms
            and job.record.topic != elsewhere
            and not job.is_fixed
            and self._is_waiting(job, route)
        ]

    def decide(self, job: Job, verdict: Verdict) -> None:
        """A record that waits is not pushed: this is what is done with it."""
        job.verdict = verdict
        self._offer(job)

    def sums(self) -> dict[TopicPartition, tuple[int, float]]:
        """Return how many bytes of each partition were pushed, and how long these pushes took together."""
        return {each.partition: (each.pushed_bytes, each.pushed_ms) for each in self._tracks.values()}

    def unfinished_of(self, topic: str) -> int:
        """Return how many records of a topic were polled and are not done."""
        return sum(len(each.jobs) for each in self._tracks.values() if each.partition.topic == topic)

    def is_ours(self, job: Job) -> bool:
        """Whether the record's partition has been ours without a break since it was polled."""
        return self._tracks.get(job.track.partition) is job.track

    # Partitions

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Push no more of these partitions' records."""
        for track in self._of(partitions):
            track.is_closing = True

    def running(self, partitions: Iterable[TopicPartition]) -> int:
        """Return how many pushes of these partitions are under way."""
        return sum(track.running for track in self._of(partitions))

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are somebody else's: push no more of their records."""
        self.close(partitions)
        super().forget(partitions)

    @property
    def unfinished(self) -> int:
        """How many records were polled and are not done."""
        return sum(len(each.jobs) for each in list(self._tracks.values()))

    def waiting_by_route(self, now_ms: int) -> dict[str, tuple[int, int]]:
        """Return how many records of each route are not done, and how many of these wait for their time.

        From any thread.
        """
        found: dict[str, tuple[int, int]] = {}
        for track in list(self._tracks.values()):
            for job in list(track.jobs.values()):
                waiting, delayed = found.get(job.route, (0, 0))
                found[job.route] = waiting + 1, delayed + (job.due_ms > now_ms and not job.is_running)
        return found

    # Inside

    def _wait(self, job: Job, due_ms: int, attempt: int) -> None:
        self._rest(job)
        job.due_ms, job.attempt, job.is_moving = due_ms, attempt, False
        self._offer(job)

    def _offer(self, job: Job) -> None:
        heappush(self._ready.setdefault(job.queue, []), (job.due_ms, next(self._arrivals), job))

    def _is_waiting(self, job: Job, route: str | None) -> bool:
        return (
            job.queue == route
            and not job.is_running
            and not job.is_moving
            and not job.track.is_closing
            and job.track.jobs.get(job.record.offset) is job
            and job.lane.jobs[0] is job
        )

    def _rest(self, job: Job) -> None:
        if job.is_running:
            job.is_running = False
            job.track.running -= 1
