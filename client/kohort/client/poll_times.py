"""The user's activity between two polls: kept to explain to a removed member what happened.

Pure: times are arguments. A phase is waiting (inside a poll), a listener, or work (between polls).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from kohort.client.membership import Departure
from kohort.client.values import AnyRecord, TopicPartition

if TYPE_CHECKING:
    from kohort.client.batches import FetchedBatch
    from kohort.client.columns import RecordColumns

RANGES_SHOWN = 8
HEADROOM = 1.5  # Proposed values have half as much in reserve.


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """The records that a poll gave out: how many, and the first and last offset of each partition."""

    size: int
    ranges: tuple[tuple[TopicPartition, int, int], ...]

    @classmethod
    def of(cls, records: Iterable[AnyRecord]) -> "HeldBatch":
        """Return the summary of these records."""
        return cls._of_runs(
            (TopicPartition(each.topic, each.partition), 1, each.offset, each.offset) for each in records
        )

    @classmethod
    def of_columns(cls, chunks: "Iterable[tuple[TopicPartition, RecordColumns]]") -> "HeldBatch":
        """Return the summary of the records of a table."""
        return cls._of_runs(
            (where, len(columns), int(columns.offsets[0]), int(columns.offsets[-1]))
            for where, columns in chunks
        )

    @classmethod
    def of_batches(cls, batches: "Iterable[FetchedBatch]") -> "HeldBatch":
        """Return the summary of the records of batches."""
        runs = []
        for where, each in groupby(batches, itemgetter(0)):  # A poll may have many batches of each.
            run = list(each)
            _, first, _, from_offset = run[0]
            count = sum([header.record_count for _, header, _, _ in run])
            runs.append((where, count, max(first.base_offset, from_offset), run[-1].header.last_offset))
        return cls._of_runs(runs)

    @classmethod
    def _of_runs(cls, runs: "Iterable[tuple[TopicPartition, int, int, int]]") -> "HeldBatch":
        """Return the summary of runs of records: how many each has, its first offset and its last one."""
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        size = 0
        for where, count, begin, last in runs:
            size += count
            first, _ = ranges.get(where, (begin, last))
            ranges[where] = (first, last)
        return cls(size, tuple((where, *span) for where, span in sorted(ranges.items())))

    def __str__(self) -> str:
        shown = [f"{where} from {first} to {last}" for where, first, last in self.ranges[:RANGES_SHOWN]]
        if len(self.ranges) > RANGES_SHOWN:
            shown.append(f"and {len(self.ranges) - RANGES_SHOWN} more partitions")
        records = "1 record" if self.size == 1 else f"{self.size} records"
        return f"{records} ({', '.join(shown)})" if shown else "no records"


class PollTimes:
    """The duration of the phases of the last poll, and the number of its records."""

    def __init__(self) -> None:
        self._held: list[AnyRecord] | AnyRecord | HeldBatch = []
        self._is_polling = False
        self._began_ms = 0
        self._ended_ms = 0
        self._waited_ms = 0
        self._listeners_ms = 0

    def poll_began(self, now_ms: int) -> None:
        """The user asks for records again; a poll that continues after a listener is the same poll."""
        if not self._is_polling:
            self._is_polling = True
            self._began_ms = now_ms
            self._listeners_ms = 0

    def listener_ran(self, took_ms: int) -> None:
        """The user's listener ran this long within the poll."""
        self._listeners_ms += took_ms

    def poll_ended(self, now_ms: int, held: list[AnyRecord] | AnyRecord | HeldBatch) -> None:
        """The user got these records."""
        if self._is_polling:
            self._is_polling = False
            self._waited_ms = now_ms - self._began_ms
        self._held = held
        self._ended_ms = now_ms

    def first_held(self) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition that the user has in hand."""
        return {where: first for where, first, _ in self._batch().ranges}

    def _batch(self) -> HeldBatch:
        held = self._held
        if isinstance(held, HeldBatch):
            return held
        return HeldBatch.of(held if isinstance(held, list) else [held])

    def explain(
        self, departure: Departure, now_ms: int, *, group_id: str, limit_ms: int, session_ms: int, most: int
    ) -> str:
        """Return why the member is out, what its user was doing, and what would have kept it in."""
        ago = _seconds(now_ms - departure.at_ms)
        if departure.by_poll_interval:
            did = "stopped its heartbeats to" if departure.silently else "left"
            return (
                f"this consumer {did} group {group_id!r} {ago} ago: {departure.reason}"
                f" {self._phases(now_ms)} {self._advice(now_ms, limit_ms, most)}"
            )
        text = (
            f"this consumer was thrown out of group {group_id!r} {ago} ago: {departure.reason};"
            f" the coordinator's last word was {_seconds(departure.silent_ms)} older. {self._phases(now_ms)}"
        )
        if departure.silent_ms >= session_ms:
            text += (
                f" No heartbeat got through for longer than session_timeout_ms ({session_ms}): the process"
                " stood still, native code kept other threads from running, or the network was cut"
            )
        return text

    def _phases(self, now_ms: int) -> str:
        batch = self._batch()
        held_ms = (self._began_ms if self._is_polling else now_ms) - self._ended_ms
        text = f"Its code held {batch} for {_seconds(held_ms)}"
        if batch.size > 1:
            text += f", {_seconds(held_ms / batch.size)} a record"
        polled = f"the poll before took {_seconds(self._waited_ms)}"
        if self._is_polling:
            polled = f"it has been in a poll for {_seconds(now_ms - self._began_ms)}"
        return f"{text}; {polled}, {_seconds(self._listeners_ms)} of it in listeners."

    def _advice(self, now_ms: int, limit_ms: int, most: int) -> str:
        busy_ms = now_ms - self._ended_ms
        if self._is_polling:  # The time of listeners counts; the waiting time of a poll does not.
            busy_ms = self._began_ms - self._ended_ms + self._listeners_ms
        enough_ms = int(-(-max(1, busy_ms) * HEADROOM // 1_000)) * 1_000
        text = f"Set max_poll_interval_ms ({limit_ms}) to {enough_ms} or more"
        size = min(self._batch().size, most)
        fewer = int(size * limit_ms / (max(1, busy_ms) * HEADROOM))
        if size > 1 and 1 <= fewer < size and not self._is_polling:
            text += f", or max_poll_records ({most}) to {fewer} or fewer"
        return text


def _seconds(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1_000 else f"{ms / 1_000:.1f} s"
