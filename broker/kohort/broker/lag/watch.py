"""Observes the commits of every group regularly, and computes their lag on demand.

Commits need no extra work: the group has its committed offsets anyway, and an observation every few seconds
is enough. Work is done in slices, so that the loop can serve between them. Worker threads read the disk, and
other brokers are asked for the ends of their partitions.
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
"""The size of a slice in a cluster, where other brokers are asked for many partitions at once."""
PAUSE_SECONDS = 0.01
"""The pause after a slice for which other brokers were asked."""
FRESH_MS = 1_000
"""How long a leader's answer is not requested again."""
STALE_SECONDS = 5.0
LOOK_MS_MAX = 600_000  # A longer observation counts as hanging. It may open many logs.
PARTITIONS_WATCHED_MAX = 100_000
"""The limit for all groups together, about 500 bytes each. Partitions beyond it have a lag but no verdict."""


class PartitionLag(msgspec.Struct, frozen=True, gc=False):
    """The lag of a group in a partition.

    `lag` is the number of offsets from the next record for a consumer to the end, 0 if there is none.
    `lag_seconds` is that record's age. None means unknown: the log is offline, the leader does not answer,
    the records have no timestamps, or there was no observation yet. `end_age_seconds` is the age of the
    leader's answer, 0.0 if this broker leads.
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
        """Whether the lag is out of date: there is no leader, or it has not answered."""
        return self.end_age_seconds is None or self.end_age_seconds > STALE_SECONDS


class _CommittedOffset(NamedTuple):
    """An offset that a group has committed."""

    group_id: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def position(self) -> int:
        """The offset from which the group reads. It is at least 0, whatever was committed."""
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
        """Observe the groups that `groups` yields."""
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
        """Observe regularly, until cancelled."""
        while True:
            await self._workers.sleep(self._current.config.kohort_lag_interval_ms / 1000)
            with part.working(LOOK_MS_MAX):
                await self.look()

    async def look(self) -> None:
        """Add the new commits of each group to its windows, and forget deleted groups."""
        groups = list(self._groups())
        found: dict[str, Windows] = {}
        elsewhere: dict[tuple[str, int], None] = {}
        self._watched = 0
        for slice_ in _slices(self._committed_offsets(groups), self._slice):
            await self._local.open((each.topic, each.partition) for each in slice_)
            watched = [each for each in slice_ if self._watch(each, found)]
            has_asked = await self._refresh(watched, found, is_timed=False)
            for committed in watched:
                self._look_at(committed, found[committed.group_id][committed.topic, committed.partition])
                if self._remote.leader(committed.topic, committed.partition) is not None:
                    elsewhere[committed.topic, committed.partition] = None
            await (self._workers.sleep(PAUSE_SECONDS) if has_asked else self._workers.give_way())
        self._windows = found
        self._remote.keep_only(elsewhere)

    async def of(self, groups: Iterable[AnyGroup]) -> list[PartitionLag]:
        """Return the current lag of these groups, by topic and partition."""
        rows: list[PartitionLag] = []
        for slice_ in _slices(self._committed_offsets(list(groups)), self._slice):
            await self._local.open((each.topic, each.partition) for each in slice_)
            fresh = [each for each in slice_ if self._window(each) is None]
            windows = self._windows
            watched = [each for each in slice_ if self._watch(each, windows)]
            await self._refresh(watched, windows, is_timed=True)
            self._keep(watched, windows)
            for committed in fresh:
                window = self._window(committed)
                if window is not None:
                    self._look_at(committed, window)
            rows += map(self._row, slice_)
            await self._workers.give_way()
        return rows

    async def ends_of(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Ends]:
        """Return the current ends of these partitions. Unknown ends are left out."""
        found: dict[tuple[str, int], Ends] = {}
        elsewhere: dict[int, list[Position]] = {}
        wanted = list(dict.fromkeys(partitions))
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
        """Yield the known lag in each partition, without asking other brokers or reading the disk."""
        for committed in self._committed_offsets([group]):
            yield _lag(committed, self._ends(committed), self._window(committed))

    def _committed_offsets(self, groups: list[AnyGroup]) -> Iterator[_CommittedOffset]:
        """Yield the committed offsets of these groups. They may change between two slices."""
        for group in groups:
            for topic in sorted(group.offsets):
                offsets = offsets_of(group, topic, self._metadata.snapshot())
                for partition, value in sorted(offsets.items()):
                    yield _CommittedOffset(
                        group.group_id, topic, partition, value.offset, value.commit_timestamp
                    )

    def _ends(self, committed: _CommittedOffset) -> Ends | None:
        ends = self._local.ends(committed.topic, committed.partition)
        if ends is not None or self._remote.leader(committed.topic, committed.partition) is None:
            return ends
        return self._remote.ends(committed.topic, committed.partition)

    def _window(self, committed: _CommittedOffset) -> Window | None:
        return self._windows.get(committed.group_id, {}).get((committed.topic, committed.partition))

    def _watch(self, committed: _CommittedOffset, windows: dict[str, Windows]) -> bool:
        """Create a window for this partition if there is none. Return whether there is room for it."""
        known = windows.setdefault(committed.group_id, {})
        key = committed.topic, committed.partition
        if key in known:
            return True
        if self._watched >= PARTITIONS_WATCHED_MAX:
            return False
        self._watched += 1
        known[key] = self._window(committed) or Window(self._clock.now_ms())
        return True

    def _keep(self, watched: list[_CommittedOffset], windows: dict[str, Windows]) -> None:
        """Keep these windows, even if `look` has replaced all windows since they were taken from `windows`.

        `look` knows nothing of a window that was created after it passed its group.
        """
        if windows is not self._windows:
            for each in watched:
                key = each.topic, each.partition
                self._windows.setdefault(each.group_id, {})[key] = windows[each.group_id][key]

    async def _refresh(
        self, offsets: list[_CommittedOffset], windows: dict[str, Windows], *, is_timed: bool
    ) -> bool:
        """Find the ends of these partitions, and the first unread records.

        The disk is read only if it can change the result: for a record's timestamp, if a group commits
        nothing new, or if the log may end with data that no consumer receives. Returns whether other brokers
        were asked.
        """
        here: list[_Question] = []
        elsewhere: dict[int, list[_Question]] = {}
        for committed in offsets:
            window = windows[committed.group_id][committed.topic, committed.partition]
            leader = self._remote.leader(committed.topic, committed.partition)
            if leader is not None:
                if self._asks(leader, committed, window):
                    elsewhere.setdefault(leader, []).append(_Question(window, committed))
            elif self._reads(committed, window, is_timed=is_timed):
                here.append(_Question(window, committed))
        if here:
            _take(here, await self._local.first_records([each.asked for each in here]))
        asked = {leader: [each.asked for each in some] for leader, some in elsewhere.items()}
        for leader, found in (await self._remote.ask_all(asked)).items():
            _take(elsewhere[leader], found)
        return bool(asked)

    def _asks(self, leader: int, committed: _CommittedOffset, window: Window) -> bool:
        """Return whether the leader of a partition must be asked again."""
        if self._remote.is_silent(leader):
            return False
        age_ms = self._remote.age_ms(committed.topic, committed.partition)
        return age_ms is None or age_ms > FRESH_MS or window.position != committed.position

    def _reads(self, committed: _CommittedOffset, window: Window, *, is_timed: bool) -> bool:
        """Return whether the log of a partition that this broker leads must be read."""
        topic, index, position = committed.topic, committed.partition, committed.position
        ends = self._local.ends(topic, index)
        if ends is None or window.first(position, ends.log_start_offset) >= ends.before(position):
            return False
        if window.knows(position, ends.log_start_offset):
            return False
        return is_timed or window.is_idle(committed.timestamp_ms) or self._local.holds_markers(topic, index)

    def _look_at(self, committed: _CommittedOffset, window: Window) -> None:
        lag = _lag(committed, self._ends(committed), window)
        if lag is not None:
            window.look(committed.timestamp_ms, committed.position, lag, self._clock.now_ms())

    def _row(self, committed: _CommittedOffset) -> PartitionLag:
        ends, window = self._ends(committed), self._window(committed)
        lag = _lag(committed, ends, window)
        now_ms = self._clock.now_ms()
        verdict = None
        if window is not None and lag is not None:
            verdict = window.verdict(lag, now_ms, self._current.config.kohort_lag_interval_ms)
        return PartitionLag(
            committed.group_id,
            committed.topic,
            committed.partition,
            committed.offset,
            None if ends is None else ends.high_watermark,
            lag,
            _seconds(window, committed, ends, lag, self._clock.wall_ms()),
            verdict,
            0.0 if window is None else window.complete,
            None if ends is None else self._end_age_seconds(committed),
        )

    def _end_age_seconds(self, committed: _CommittedOffset) -> float | None:
        if self._remote.leader(committed.topic, committed.partition) is None:
            return 0.0
        age_ms = self._remote.age_ms(committed.topic, committed.partition)
        return None if age_ms is None else age_ms / 1000


class _Question(NamedTuple):
    """A partition whose first unread record is needed, and its window."""

    window: Window
    committed: _CommittedOffset

    @property
    def asked(self) -> Position:
        """The position of the scan. Data that is known to have no records for consumers is skipped."""
        window, committed = self
        offset = window.first_offset if window.position == committed.position else committed.position
        return Position(committed.topic, committed.partition, offset)


def _take(questions: Sequence[_Question], found: Sequence[FirstRecord | None]) -> None:
    for (window, committed), first in zip(questions, found, strict=True):
        if first is not None:
            window.take(committed.position, first)


def _lag(committed: _CommittedOffset, ends: Ends | None, window: Window | None) -> int | None:
    if ends is None:
        return None
    position, start = committed.position, ends.log_start_offset
    first = max(position, start) if window is None else window.first(position, start)
    return max(0, ends.before(position) - first)


def _seconds(
    window: Window | None, committed: _CommittedOffset, ends: Ends | None, lag: int | None, now_ms: int
) -> float | None:
    if lag == 0:
        return 0.0
    if lag is None or window is None or ends is None:
        return None
    if not window.knows(committed.position, ends.log_start_offset):
        return None
    time_ms = window.record_timestamp_ms
    return None if time_ms is None else max(0, now_ms - time_ms) / 1000


def _slices(offsets: Iterator[_CommittedOffset], size: int) -> Iterator[list[_CommittedOffset]]:
    slice_: list[_CommittedOffset] = []
    for committed in offsets:
        slice_.append(committed)
        if len(slice_) == size:
            yield slice_
            slice_ = []
    if slice_:
        yield slice_
