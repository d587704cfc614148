"""One partition of markers as a tracker sees it: pure, rebuilt from the log alone.

Where it differs from the original, it delivers less often, and never loses:

- The newest start marker of a record counts, so that a client can have more time, or none (a release).
- A record is due only if the group has committed behind it. If not, nobody was given it, and the group will
  read it anyway.
- Before it is delivered again, all markers have been read that were there when the commit was looked at: an
  end marker that waits in the log is always seen first.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from kohort.client.values import AnyRecord
from kohort.queues.kmq.markers import END, KEY_SIZE, MarkerError, Start, decode_key, decode_value, unpack_key

CLOCKS_APART_MS = 60_000
"""Two machines' clocks may differ by so much before a record comes twice because its tracker died."""


Started = tuple[int, int, int]
"""A record's newest start marker: its offset, when the record is due, and when it was written."""


class Run:
    """Start markers that are due at one time, in columns; those before `first` were seen to."""

    __slots__ = ("due_ms", "first", "markers", "offsets")

    def __init__(self, due_ms: int) -> None:
        self.due_ms = due_ms
        self.first = 0
        self.markers = array("q")
        self.offsets = array("q")

    def __lt__(self, other: "Run") -> bool:
        return (self.due_ms, self.markers[0]) < (other.due_ms, other.markers[0])

    def __len__(self) -> int:
        return len(self.markers) - self.first


@dataclass(frozen=True, slots=True)
class Permission:
    """What may be delivered again: records that the group has committed, once these markers were read."""

    committed: int
    marker_end: int


class TrackedPartition:
    """The open markers of one partition, from its committed offset on.

    Nothing is due until everything was read that was there when it was taken over (`begin_at`): end markers
    may be still to come.
    """

    def __init__(self, partition: int, use_now_after_ms: int) -> None:
        self.partition = partition
        self.position = 0
        self.ignored = 0
        self.longest_ms = 0  # The longest time that a start marker gave a record.
        self._end: int | None = None
        self._use_now_after_ms = use_now_after_ms
        self._open: dict[int, Started] = {}  # By the record's offset, the oldest marker first.
        self._runs: list[Run] = []  # A heap; what is in it and stale is skipped.
        self._newest_run: Run | None = None
        self._listed = 0  # So many markers are in runs.
        self._value: bytes | None = END
        self._start_marker: Start | None = None  # What `_value` says.
        self._redelivering: set[int] = set()
        self._suspect_until: tuple[int, int] | None = None
        self._failed: set[int] = set()
        self._next_record = 0  # All records before it have had a start marker.
        self._reopened: set[int] = set()
        self._newest_ms = 0
        self._seen_at_ms: int | None = None
        self._permission: Permission | None = None

    # What the log says

    def begin_at(self, end: int, committed: int = 0) -> None:
        """Note where the log ended after it was taken over, and what the group had committed before that."""
        self._end = end
        self._next_record = max(self._next_record, committed)

    def take(self, records: Sequence[AnyRecord], now_ms: int) -> list[str]:
        """Take in the next markers of the log, read at `now_ms`; return the faults of those that are none."""
        faults: list[str] = []
        for record in records:
            try:
                self._take_one(record, now_ms)
            except MarkerError as error:
                self.ignored += 1
                faults.append(f"at {record.offset}: {error}")
        if records:
            self.position = records[-1].offset + 1
            self._keep_runs_short()
        return faults

    def _take_one(self, record: AnyRecord, now_ms: int) -> None:
        key, value, marked_ms = record.key, record.value, record.timestamp_ms
        if key is None or len(key) != KEY_SIZE:
            key = decode_key(key).encode()
        partition, offset = unpack_key(key)
        if value != self._value:  # Markers of a kind have one value.
            self._start_marker, self._value = decode_value(value), value
            if self._start_marker is not None:
                self.longest_ms = max(self.longest_ms, self._start_marker.redeliver_after_ms)
        start = self._start_marker
        if partition != self.partition:
            self.ignored += 1
            return
        self._newest_ms = max(self._newest_ms, marked_ms)
        self._seen_at_ms = now_ms
        was_open = self._open.pop(offset, None)  # Before a start, so that the newest marker comes last.
        if start is None:
            self._redelivering.discard(offset)
            self._failed.discard(offset)
            self._reopened.discard(offset)
        else:
            if offset >= self._next_record:
                self._next_record = offset + 1
            elif was_open is None:  # A client that did not know that the record was delivered again.
                self._reopened.add(offset)
            self._open_record(offset, record.offset, marked_ms, marked_ms + start.redeliver_after_ms)

    def _open_record(self, offset: int, marker_offset: int, marked_ms: int, due_ms: int) -> None:
        self._open[offset] = (marker_offset, due_ms, marked_ms)
        run = self._newest_run
        if run is None or run.due_ms != due_ms:
            self._newest_run = self._list([(due_ms, marker_offset, offset)])
        else:
            run.markers.append(marker_offset)
            run.offsets.append(offset)
            self._listed += 1

    def _list(self, entries: Iterable[tuple[int, int, int]]) -> Run | None:
        """Note when markers are due: due time, marker and record of each; return the last run of them."""
        runs: list[Run] = []
        for due_ms, marker_offset, offset in entries:
            if not runs or runs[-1].due_ms != due_ms:
                runs.append(Run(due_ms))
            runs[-1].markers.append(marker_offset)
            runs[-1].offsets.append(offset)
            self._listed += 1
        for run in runs:
            heappush(self._runs, run)
        return runs[-1] if runs else None

    def reach(self, position: int) -> None:
        """Note that everything before `position` was read, also where there is no record."""
        self.position = max(self.position, position)

    # What is to be done

    def clock(self, now_ms: int) -> int | None:
        """Return the time by which records are due; None as long as no marker was seen."""
        if self._seen_at_ms is None:
            return None
        return self._newest_ms if now_ms - self._seen_at_ms < self._use_now_after_ms else now_ms

    def overdue(self, now_ms: int) -> int:
        """Return how many records are due again, whether or not that may be seen to yet."""
        clock = self.clock(now_ms)
        return 0 if clock is None else sum(due_ms <= clock for _, due_ms, _ in self._started())

    def wants_permission(self, now_ms: int) -> bool:
        """Return whether something is due, so that commit and markers' end are of interest."""
        clock = self.clock(now_ms)
        return clock is not None and self.is_caught_up and self._next_due(clock) is not None

    def permit(self, permission: Permission) -> None:
        """Take what the group has committed, and the markers' end as it was after that."""
        self._permission = permission

    def take_due(self, now_ms: int, most: int) -> list[int]:
        """Return offsets of records to be delivered again now, the lowest first; each once.

        They stay open until their end markers are read, or until `give_back`.
        """
        clock, permission = self.clock(now_ms), self._permission
        if clock is None or permission is None or not self.is_caught_up:
            return []
        if self.position < permission.marker_end:
            return []
        self._permission = None
        assert self._end is not None
        if self._suspect_until is None:
            self._suspect_until = (self._end, max(clock, now_ms) + CLOCKS_APART_MS)
        found: list[int] = []
        held: list[tuple[int, int, int]] = []
        while len(found) < most and (run := self._next_due(clock)) is not None:
            marker_offset, offset = run.markers[run.first], run.offsets[run.first]
            self._pass_over(run)
            if offset < permission.committed:
                found.append(offset)
            else:
                held.append((run.due_ms, marker_offset, offset))
        self._list(held)
        self._redelivering.update(found)
        return sorted(found)

    def give_back(self, offsets: Iterable[int], *, not_before_ms: int = 0) -> None:
        """These could not be delivered, as far as is known: they are due still, or are tried again then."""
        back = []
        for offset in offsets:
            found = self._open.get(offset)
            self._redelivering.discard(offset)
            if found is not None:
                self._failed.add(offset)
                back.append((max(found[1], not_before_ms), found[0], offset))
        self._list(back)

    def suspects(self, offsets: Iterable[int]) -> list[int]:
        """Return those that may have been delivered again already: the topic has to be searched for copies.

        Whoever tracked this before may have done it, or a try whose outcome is not known. Or a client has
        released or extended them when it was done.
        """
        until = self._suspect_until
        return [
            each
            for each in offsets
            if each in self._failed
            or each in self._reopened
            or (
                until is not None
                and (found := self._open.get(each)) is not None
                and found[0] < until[0]
                and found[1] <= until[1]
            )
        ]

    @property
    def needed_offset(self) -> int:
        """The offset of the oldest marker that is still needed: what there is to commit."""
        oldest = self._oldest()
        return self.position if oldest is None else oldest[0]

    @property
    def oldest_marked_ms(self) -> int | None:
        """When the open record was taken, or extended, that waits longest; None where none is open."""
        oldest = self._oldest()
        return None if oldest is None else oldest[2]

    def _oldest(self) -> Started | None:
        while True:
            try:
                return next(iter(self._open.values()), None)
            except RuntimeError:  # Another thread looks, and a marker came in between.
                continue

    def _started(self) -> list[Started]:
        """Return all that is open; another thread may ask."""
        return list(self._open.values())

    @property
    def open(self) -> int:
        """How many records were taken and not ended."""
        return len(self._open)

    @property
    def is_caught_up(self) -> bool:
        """Whether everything was read that was there at the beginning."""
        return self._end is not None and self.position >= self._end

    @property
    def has_begun(self) -> bool:
        """Whether `begin_at` was called."""
        return self._end is not None

    def held_back(self, now_ms: int, committed: int) -> int:
        """Return how many records are due that the group has not committed."""
        clock = self.clock(now_ms)
        return sum(
            clock is not None and due_ms <= clock and offset >= committed
            for offset, (_, due_ms, _) in self._open.items()
        )

    def _next_due(self, clock: int) -> Run | None:
        """Return the run whose first marker is due next, if it is due by this time."""
        while self._runs:
            run = self._runs[0]
            offset = run.offsets[run.first]
            found = self._open.get(offset)
            if found is None or found[0] != run.markers[run.first] or offset in self._redelivering:
                self._pass_over(run)
            else:
                return run if run.due_ms <= clock else None
        return None

    def _pass_over(self, run: Run) -> None:
        """Be done with the first marker of the run that is due next."""
        run.first += 1
        self._listed -= 1
        if not run:
            heappop(self._runs)
            if run is self._newest_run:
                self._newest_run = None

    def _keep_runs_short(self) -> None:
        """Drop what is stale once it is most: many records end long before they are due."""
        if self._listed > 2 * len(self._open) + 1_000:
            self._runs, self._listed = [], 0
            self._newest_run = self._list(
                (due_ms, marker_offset, offset)
                for offset, (marker_offset, due_ms, _) in self._open.items()
                if offset not in self._redelivering
            )
