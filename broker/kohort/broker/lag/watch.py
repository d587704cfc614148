"""Looks at every group's commits now and then, and says on demand how far each is behind.

The commit path does nothing for this: a commit stands in the group anyway, and who looks every few seconds
sees enough. Every pass works in slices, between which the loop serves; the disk is read in a worker thread.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from kohort.broker.config.current import CurrentConfig
from kohort.broker.group.group import Group
from kohort.broker.lag.record_time import record_timestamp_ms
from kohort.broker.lag.window import Verdict, Window
from kohort.broker.partitions import PartitionTable
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.workers import Workers
from kohort.storage import PartitionLog, StorageError

SLICE = 50
LOOK_MS_MAX = 600_000  # One that takes longer hangs: it opens logs, of which there may be many.
PARTITIONS_WATCHED_MAX = 100_000
"""Of all groups together, about 500 bytes each; those beyond it have a lag and no verdict."""


class PartitionLag(msgspec.Struct, frozen=True, gc=False):
    """How far behind a group is in a partition.

    `lag_seconds` is the age of the oldest record that the group has not committed, 0 where there is none.
    None stands for what cannot be told: the log is offline, the records have no time, nobody has looked.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    verdict: Verdict | None
    complete: float


class _Place(NamedTuple):
    """An offset that a group has committed."""

    group_id: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def position(self) -> int:
        """Where the group reads on: no record lies before 0, whatever was committed."""
        return max(0, self.offset)


Windows = dict[tuple[str, int], Window]


class LagWatch:
    """Keeps a window of commits for each partition of each group. The loop's thread only."""

    def __init__(
        self,
        groups: Callable[[], Iterator[Group]],
        partitions: PartitionTable,
        current: CurrentConfig,
        clock: Clock,
        workers: Workers,
    ) -> None:
        """`groups` yields every group that is loaded."""
        self._groups = groups
        self._partitions = partitions
        self._current = current
        self._clock = clock
        self._workers = workers
        self._windows: dict[str, Windows] = {}
        self._watched = 0

    async def run(self, part: Watched = UNWATCHED) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._workers.sleep(self._current.config.kohort_lag_interval_ms / 1000)
            with part.working(LOOK_MS_MAX):
                await self.look()

    async def look(self) -> None:
        """Take over what each group has committed since the last look, and forget groups that are gone."""
        groups = list(self._groups())
        found: dict[str, Windows] = {}
        self._watched = 0
        for slice_ in _slices(_places(groups)):
            await self._open(slice_)
            for place in slice_:
                self._look_at(place, found.setdefault(place.group_id, {}))
            await self._workers.give_way()
        self._windows = found

    async def of(self, groups: Iterable[Group]) -> list[PartitionLag]:
        """Return the lag of these groups, as of now, in order of topic and partition within each."""
        rows: list[PartitionLag] = []
        for slice_ in _slices(_places(list(groups))):
            await self._open(slice_)
            for place in slice_:
                if self._window(place) is None:
                    self._look_at(place, self._windows.setdefault(place.group_id, {}))
            await self._time_records(slice_)
            rows += map(self._row, slice_)
            await self._workers.give_way()
        return rows

    def _end_offset(self, topic: str, index: int) -> int | None:
        partition = self._partitions.peek(topic, index)
        if partition is None or partition.resigned or partition.serving_log is None:
            return None  # What another broker leads, it knows.
        return partition.high_watermark

    async def _open(self, places: list[_Place]) -> None:
        """Open the logs that nobody has used since the start: their ends are not known before."""
        partitions = self._partitions
        for place in places:
            partition = partitions.peek(place.topic, place.partition)
            if partition is not None and not partition.opened:
                try:
                    await partitions.opened(place.topic, place.partition)
                except StorageError:
                    continue  # It is offline, which is said elsewhere.

    def _look_at(self, place: _Place, windows: Windows) -> None:
        end_offset = self._end_offset(place.topic, place.partition)
        if end_offset is None or self._watched >= PARTITIONS_WATCHED_MAX:
            return
        self._watched += 1
        now_ms = self._clock.now_ms()
        window = self._window(place) or Window(now_ms)
        window.look(place.timestamp_ms, place.position, max(0, end_offset - place.position), now_ms)
        windows[place.topic, place.partition] = window

    def _window(self, place: _Place) -> Window | None:
        return self._windows.get(place.group_id, {}).get((place.topic, place.partition))

    async def _time_records(self, places: list[_Place]) -> None:
        """Find when the first unread records were written, where that is not known from before."""
        asked: list[tuple[Window, int]] = []
        work: list[tuple[PartitionLog, int, int]] = []
        for place in places:
            partition = self._partitions.peek(place.topic, place.partition)
            window = self._window(place)
            serving_log = None if partition is None else partition.serving_log
            if partition is None or serving_log is None or window is None:
                continue
            if window.record_offset != place.position and place.position < partition.high_watermark:
                asked.append((window, place.position))
                work.append((serving_log, place.position, partition.high_watermark))
        if work:
            times = await self._workers.in_thread(_times, work)
            for (window, offset), time_ms in zip(asked, times, strict=True):
                window.record_offset = offset
                window.record_timestamp_ms = time_ms

    def _row(self, place: _Place) -> PartitionLag:
        end_offset = self._end_offset(place.topic, place.partition)
        window = self._window(place)
        lag = None if end_offset is None else max(0, end_offset - place.position)
        now_ms = self._clock.now_ms()
        verdict = None
        if window is not None and lag is not None:
            verdict = window.verdict(lag, now_ms, self._current.config.kohort_lag_interval_ms)
        return PartitionLag(
            place.group_id,
            place.topic,
            place.partition,
            place.offset,
            end_offset,
            lag,
            _seconds(window, place, lag, self._clock.wall_ms()),
            verdict,
            0.0 if window is None else window.complete,
        )


def _seconds(window: Window | None, place: _Place, lag: int | None, now_ms: int) -> float | None:
    if lag == 0:
        return 0.0
    if lag is None or window is None or window.record_offset != place.position:
        return None
    time_ms = window.record_timestamp_ms
    return None if time_ms is None else max(0, now_ms - time_ms) / 1000


def _times(work: list[tuple[PartitionLog, int, int]]) -> list[int | None]:
    return [record_timestamp_ms(*each) for each in work]


def _places(groups: list[Group]) -> Iterator[_Place]:
    """Yield what these groups have committed; they may change while others work in between."""
    for group in groups:
        for topic, offsets in sorted(group.offsets.items()):
            for partition, value in sorted(offsets.items()):
                yield _Place(group.group_id, topic, partition, value.offset, value.commit_timestamp)


def _slices(places: Iterator[_Place]) -> Iterator[list[_Place]]:
    slice_: list[_Place] = []
    for place in places:
        slice_.append(place)
        if len(slice_) == SLICE:
            yield slice_
            slice_ = []
    if slice_:
        yield slice_
