"""One partition of markers as a tracker sees it: pure, rebuilt from the log alone.

Where it differs from the original, it delivers less often, and never loses:

- The newest start marker of a record counts, so that a client can have more time, or none (a release).
- A record is due only if the group has committed behind it. If not, nobody was given it, and the group will
  read it anyway.
- Before it is delivered again, all markers have been read that were there when the commit was looked at: an
  end marker that waits in the log is always seen first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from kohort.queues.kmq.markers import MarkerKey, Start

CLOCKS_APART_MS = 60_000
"""Two machines' clocks may differ by so much before a record comes twice because its tracker died."""


@dataclass(frozen=True, slots=True)
class Open:
    """A record that was taken and not ended: its newest start marker, and when it is due."""

    offset: int
    marker_offset: int
    due_ms: int
    marked_ms: int


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
        self._end: int | None = None
        self._use_now_after_ms = use_now_after_ms
        self._open: dict[int, Open] = {}
        self._by_due: list[tuple[int, int, int]] = []  # Due, marker and record; stale ones are skipped.
        self._by_marker: list[tuple[int, int]] = []
        self._redelivering: set[int] = set()
        self._suspect_until: tuple[int, int] | None = None
        self._failed: set[int] = set()
        self._newest_ms = 0
        self._seen_at_ms: int | None = None
        self._permission: Permission | None = None

    # What the log says

    def begin_at(self, end: int) -> None:
        """Note where the log ended after it was taken over."""
        self._end = end

    def take(
        self, marker_offset: int, key: MarkerKey, value: Start | None, timestamp_ms: int, now_ms: int
    ) -> None:
        """Take in the next marker of the log, read at `now_ms`."""
        self.position = marker_offset + 1
        if key.partition != self.partition:
            self.ignored += 1
            return
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        self._seen_at_ms = now_ms
        if value is None:
            self._open.pop(key.offset, None)
            self._redelivering.discard(key.offset)
            self._failed.discard(key.offset)
            return
        found = Open(key.offset, marker_offset, timestamp_ms + value.redeliver_after_ms, timestamp_ms)
        self._open[key.offset] = found
        heappush(self._by_due, (found.due_ms, marker_offset, key.offset))
        heappush(self._by_marker, (marker_offset, key.offset))
        self._keep_heaps_short()

    def ignore(self, marker_offset: int) -> None:
        """Pass over what is no marker."""
        self.position = marker_offset + 1
        self.ignored += 1

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
        return 0 if clock is None else sum(each.due_ms <= clock for each in self._open.values())

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
        while len(found) < most and (entry := self._next_due(clock)) is not None:
            heappop(self._by_due)
            if entry[2] < permission.committed:
                found.append(entry[2])
            else:
                held.append(entry)
        for each in held:
            heappush(self._by_due, each)
        self._redelivering.update(found)
        return sorted(found)

    def give_back(self, offsets: Iterable[int], *, not_before_ms: int = 0) -> None:
        """These could not be delivered, as far as is known: they are due still, or are tried again then."""
        for offset in offsets:
            found = self._open.get(offset)
            self._redelivering.discard(offset)
            if found is not None:
                self._failed.add(offset)
                heappush(self._by_due, (max(found.due_ms, not_before_ms), found.marker_offset, offset))

    def suspects(self, offsets: Iterable[int]) -> list[int]:
        """Return those that may have been delivered again already: by whoever tracked this before, or by a
        try whose outcome is not known. The message topic has to be looked at for their copies.
        """
        until = self._suspect_until
        return [
            each
            for each in offsets
            if each in self._failed
            or (
                until is not None
                and (found := self._open.get(each)) is not None
                and found.marker_offset < until[0]
                and found.due_ms <= until[1]
            )
        ]

    @property
    def needed_offset(self) -> int:
        """The offset of the oldest marker that is still needed: what there is to commit."""
        while self._by_marker:
            marker_offset, offset = self._by_marker[0]
            found = self._open.get(offset)
            if found is not None and found.marker_offset == marker_offset:
                return marker_offset
            heappop(self._by_marker)
        return self.position

    @property
    def oldest_marked_ms(self) -> int | None:
        """When the open record was taken, or extended, that waits longest; None where none is open."""
        needed = self.needed_offset  # The heap begins with that marker now.
        return self._open[self._by_marker[0][1]].marked_ms if needed < self.position else None

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

    def find(self, offset: int) -> Open | None:
        """Return a record's newest start marker, None if it is not open."""
        return self._open.get(offset)

    def held_back(self, now_ms: int, committed: int) -> int:
        """Return how many records are due that the group has not committed."""
        clock = self.clock(now_ms)
        return sum(
            clock is not None and each.due_ms <= clock and each.offset >= committed
            for each in self._open.values()
        )

    def _next_due(self, clock: int) -> tuple[int, int, int] | None:
        while self._by_due:
            due_ms, marker_offset, offset = entry = self._by_due[0]
            found = self._open.get(offset)
            if found is None or found.marker_offset != marker_offset or offset in self._redelivering:
                heappop(self._by_due)
            else:
                return entry if due_ms <= clock else None
        return None

    def _keep_heaps_short(self) -> None:
        """Drop what is stale once it is most: many records end long before they are due."""
        if len(self._by_due) > 2 * len(self._open) + 1_000:
            self._by_due = [
                (each.due_ms, each.marker_offset, each.offset)
                for each in self._open.values()
                if each.offset not in self._redelivering
            ]
            self._by_marker = [(each.marker_offset, each.offset) for each in self._open.values()]
            heapify(self._by_due)
            heapify(self._by_marker)
