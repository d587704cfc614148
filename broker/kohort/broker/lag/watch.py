"""Looks at every group's commits now and then, and says on demand how far each is behind.

The commit path does nothing for this: a commit stands in the group anyway, and who looks every few seconds
sees enough. Every pass works in slices, between which the loop serves; the disk is read in a worker thread,
and other brokers are asked for the ends of what they lead.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from kohort.broker.config.current import CurrentConfig
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.offsets.commits import offsets_of
from kohort.broker.lag.ends import Ends, EndsElsewhere, LocalEnds, NoneElsewhere, Position
from kohort.broker.lag.first_record import FirstRecord
from kohort.broker.lag.window import Verdict, Window
from kohort.broker.metadata import MetadataStore
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.workers import Workers

SLICE = 50
SLICE_OF_SEVERAL = 200
"""In a cluster, where what others lead is asked for together."""
PAUSE_SECONDS = 0.01
"""After each slice of which others were asked something: looking is in no hurry."""
FRESH_MS = 1_000
"""So long what a leader has told is not asked for again."""
STALE_SECONDS = 5.0
LOOK_MS_MAX = 600_000  # One that takes longer hangs: it opens logs, of which there may be many.
PARTITIONS_WATCHED_MAX = 100_000
"""Of all groups together, about 500 bytes each; those beyond it have a lag and no verdict."""


class PartitionLag(msgspec.Struct, frozen=True, gc=False):
    """How far behind a group is in a partition.

    `lag` counts the offsets from the first record that a consumer is still to be given to the end, 0 where
    there is none. `lag_seconds` is that record's age. None stands for what cannot be told: a log is offline,
    its leader does not answer, the records have no time, nobody has looked. `end_age_seconds` is how long ago
    the leader told the end, 0.0 where this broker leads.
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
    end_age_seconds: float | None = 0.0

    @property
    def is_stale(self) -> bool:
        """Whether the lag is not that of now: nobody leads, or the leader has not answered."""
        return self.end_age_seconds is None or self.end_age_seconds > STALE_SECONDS


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
        groups: Callable[[], Iterator[AnyGroup]],
        local: LocalEnds,
        remote: EndsElsewhere,
        current: CurrentConfig,
        metadata: MetadataStore,
        *,
        clock: Clock,
        workers: Workers,
    ) -> None:
        """`groups` yields every group that is loaded."""
        self._metadata = metadata
        self._groups = groups
        self._local = local
        self._remote = remote
        self._current = current
        self._clock = clock
        self._workers = workers
        self._windows: dict[str, Windows] = {}
        self._watched = 0
        self._slice = SLICE if isinstance(remote, NoneElsewhere) else SLICE_OF_SEVERAL

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
        elsewhere: dict[tuple[str, int], None] = {}
        self._watched = 0
        for slice_ in _slices(self._places(groups), self._slice):
            await self._local.open((each.topic, each.partition) for each in slice_)
            watched = [each for each in slice_ if self._watch(each, found)]
            has_asked = await self._refresh(watched, found, is_timed=False)
            for place in watched:
                self._look_at(place, found[place.group_id][place.topic, place.partition])
                if self._remote.leader(place.topic, place.partition) is not None:
                    elsewhere[place.topic, place.partition] = None
            await (self._workers.sleep(PAUSE_SECONDS) if has_asked else self._workers.give_way())
        self._windows = found
        self._remote.keep_only(elsewhere)

    async def of(self, groups: Iterable[AnyGroup]) -> list[PartitionLag]:
        """Return the lag of these groups, as of now, in order of topic and partition within each."""
        rows: list[PartitionLag] = []
        for slice_ in _slices(self._places(list(groups)), self._slice):
            await self._local.open((each.topic, each.partition) for each in slice_)
            fresh = [each for each in slice_ if self._window(each) is None]
            watched = [each for each in slice_ if self._watch(each, self._windows)]
            await self._refresh(watched, self._windows, is_timed=True)
            for place in fresh:
                window = self._window(place)
                if window is not None:
                    self._look_at(place, window)
            rows += map(self._row, slice_)
            await self._workers.give_way()
        return rows

    async def ends_of(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Ends]:
        """Return where these partitions begin and end now; those that nobody can tell of are left out."""
        found: dict[tuple[str, int], Ends] = {}
        elsewhere: dict[int, list[Position]] = {}
        wanted = list(dict.fromkeys(places))
        await self._local.open(wanted)
        for topic, index in wanted:
            ends, leader = self._local.ends(topic, index), self._remote.leader(topic, index)
            if ends is not None:
                found[topic, index] = ends
            elif leader is not None:
                elsewhere.setdefault(leader, []).append(Position(topic, index, 0))
        for leader, positions in elsewhere.items():
            for first in range(0, len(positions), SLICE_OF_SEVERAL):
                some = positions[first : first + SLICE_OF_SEVERAL]
                told = await self._remote.ask_all({leader: some})
                for position, each in zip(some, told.get(leader, ()), strict=False):
                    ends = self._remote.ends(position.topic, position.partition)
                    if each is not None and ends is not None:
                        found[position.topic, position.partition] = ends
        return found

    def behind(self, group: AnyGroup) -> Iterator[int | None]:
        """Yield the lag in each partition by what is known already: nobody is asked, no disk is read."""
        for place in self._places([group]):
            yield _lag(place, self._ends(place), self._window(place))

    def _places(self, groups: list[AnyGroup]) -> Iterator[_Place]:
        """Yield what these groups have committed; they may change while others work in between."""
        for group in groups:
            for topic in sorted(group.offsets):
                offsets = offsets_of(group, topic, self._metadata.snapshot())
                for partition, value in sorted(offsets.items()):
                    yield _Place(group.group_id, topic, partition, value.offset, value.commit_timestamp)

    def _ends(self, place: _Place) -> Ends | None:
        ends = self._local.ends(place.topic, place.partition)
        if ends is not None or self._remote.leader(place.topic, place.partition) is None:
            return ends
        return self._remote.ends(place.topic, place.partition)

    def _window(self, place: _Place) -> Window | None:
        return self._windows.get(place.group_id, {}).get((place.topic, place.partition))

    def _watch(self, place: _Place, windows: dict[str, Windows]) -> bool:
        """Have a window for this partition among these; return whether there is room for one."""
        known = windows.setdefault(place.group_id, {})
        key = place.topic, place.partition
        if key in known:
            return True
        if self._watched >= PARTITIONS_WATCHED_MAX:
            return False
        self._watched += 1
        known[key] = self._window(place) or Window(self._clock.now_ms())
        return True

    async def _refresh(self, places: list[_Place], windows: dict[str, Windows], *, is_timed: bool) -> bool:
        """Learn where these partitions end, and what is the first record there that has not been read.

        Of partitions that this broker leads the disk is read only where it may change what is told: for the
        record's time, or where a group commits nothing new, or the log may end with what nobody is given.
        Returns whether others were asked.
        """
        here: list[_Question] = []
        elsewhere: dict[int, list[_Question]] = {}
        for place in places:
            window = windows[place.group_id][place.topic, place.partition]
            leader = self._remote.leader(place.topic, place.partition)
            if leader is not None:
                if self._asks(leader, place, window):
                    elsewhere.setdefault(leader, []).append(_Question(window, place))
            elif self._reads(place, window, is_timed=is_timed):
                here.append(_Question(window, place))
        if here:
            _take(here, await self._local.first_records([each.asked for each in here]))
        asked = {leader: [each.asked for each in some] for leader, some in elsewhere.items()}
        for leader, found in (await self._remote.ask_all(asked)).items():
            _take(elsewhere[leader], found)
        return bool(asked)

    def _asks(self, leader: int, place: _Place, window: Window) -> bool:
        """Return whether the leader of a partition has to be asked anew."""
        if self._remote.is_silent(leader):
            return False
        age_ms = self._remote.age_ms(place.topic, place.partition)
        return age_ms is None or age_ms > FRESH_MS or window.position != place.position

    def _reads(self, place: _Place, window: Window, *, is_timed: bool) -> bool:
        """Return whether the log of a partition that this broker leads has to be read."""
        topic, index, position = place.topic, place.partition, place.position
        ends = self._local.ends(topic, index)
        if ends is None or window.first(position, ends.log_start_offset) >= ends.before(position):
            return False
        if window.knows(position, ends.log_start_offset):
            return False
        return is_timed or window.is_idle(place.timestamp_ms) or self._local.holds_markers(topic, index)

    def _look_at(self, place: _Place, window: Window) -> None:
        lag = _lag(place, self._ends(place), window)
        if lag is not None:
            window.look(place.timestamp_ms, place.position, lag, self._clock.now_ms())

    def _row(self, place: _Place) -> PartitionLag:
        ends, window = self._ends(place), self._window(place)
        lag = _lag(place, ends, window)
        now_ms = self._clock.now_ms()
        verdict = None
        if window is not None and lag is not None:
            verdict = window.verdict(lag, now_ms, self._current.config.kohort_lag_interval_ms)
        return PartitionLag(
            place.group_id,
            place.topic,
            place.partition,
            place.offset,
            None if ends is None else ends.high_watermark,
            lag,
            _seconds(window, place, ends, lag, self._clock.wall_ms()),
            verdict,
            0.0 if window is None else window.complete,
            None if ends is None else self._end_age_seconds(place),
        )

    def _end_age_seconds(self, place: _Place) -> float | None:
        if self._remote.leader(place.topic, place.partition) is None:
            return 0.0
        age_ms = self._remote.age_ms(place.topic, place.partition)
        return None if age_ms is None else age_ms / 1000


class _Question(NamedTuple):
    """What is to be learned of the partition that a window is of."""

    window: Window
    place: _Place

    @property
    def asked(self) -> Position:
        """From where on: what is known to have nothing for consumers need not be read again."""
        window, place = self
        offset = window.first_offset if window.position == place.position else place.position
        return Position(place.topic, place.partition, offset)


def _take(questions: Sequence[_Question], found: Sequence[FirstRecord | None]) -> None:
    for (window, place), first in zip(questions, found, strict=True):
        if first is not None:
            window.take(place.position, first)


def _lag(place: _Place, ends: Ends | None, window: Window | None) -> int | None:
    if ends is None:
        return None
    position, start = place.position, ends.log_start_offset
    first = max(position, start) if window is None else window.first(position, start)
    return max(0, ends.before(position) - first)


def _seconds(
    window: Window | None, place: _Place, ends: Ends | None, lag: int | None, now_ms: int
) -> float | None:
    if lag == 0:
        return 0.0
    if lag is None or window is None or ends is None:
        return None
    if not window.knows(place.position, ends.log_start_offset):
        return None
    time_ms = window.record_timestamp_ms
    return None if time_ms is None else max(0, now_ms - time_ms) / 1000


def _slices(places: Iterator[_Place], size: int) -> Iterator[list[_Place]]:
    slice_: list[_Place] = []
    for place in places:
        slice_.append(place)
        if len(slice_) == size:
            yield slice_
            slice_ = []
    if slice_:
        yield slice_
