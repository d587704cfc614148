"""Reads the records of a partition for a search: forward, within limits, and never the whole log at once.

It runs in a thread beside the loop. Both need the interpreter's lock: if the thread computed without a pause,
the loop would wait five milliseconds after each system call. So it works for a quarter of a millisecond at a
time, and rests four times as long.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

from kohort.broker.http.live.matching import Match
from kohort.broker.http.view_facts import LogFacts
from kohort.protocol.errors import WireError
from kohort.protocol.records import Record, iterate_batches, iterate_records, read_header
from kohort.storage import StorageError

READ_BYTES = 1_048_576
DECOMPRESSED_BYTES_MAX = 8 * 1_048_576
SCANNED_MAX = 200_000
"""How many records of one batch are read, including those before the offset."""
RECORD_OVERHEAD_BYTES = 64
BATCH_OVERHEAD_BYTES = 64
"""The cost of a batch besides its records: the end of a transaction has none to show."""
WORK_SECONDS = 0.00025
REST_SECONDS = 0.001


class Pace:
    """How long a thread has worked without a rest."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def rest(self) -> None:
        """Give the loop the interpreter when it is time. Blocks."""
        if time.perf_counter() - self._since > WORK_SECONDS:
            time.sleep(REST_SECONDS)
            self._since = time.perf_counter()


class Share(NamedTuple):
    """The limits of one partition: unpacked bytes, and a time of `time.perf_counter`."""

    bytes_max: int
    until: float


class PartitionReading:
    """The state of a search in one partition."""

    def __init__(self, index: int, log: LogFacts, *, offset: int, end: int) -> None:
        self.index = index
        self.log_start_offset = log.log_start_offset
        self.end = end
        self.begin = self.next_offset = min(max(offset, self.log_start_offset), end)
        self.records: list[Record] = []
        self.searched = self.unpacked_bytes = 0
        self.problem = ""
        self._log = log

    def begin_at(self, time_ms: int) -> None:
        """Begin at the first record with this timestamp or a later one. Blocks."""
        try:
            found = self._log.offset_for_timestamp(time_ms)
        except (StorageError, OSError) as error:
            self.problem = str(error)
            return
        self.begin = self.next_offset = self.end if found is None else min(found[0], self.end)

    def run(self, match: Match, records_max: int, share: Share, pace: Pace) -> None:
        """Read at least one batch, and fill `records` until a limit is reached. Blocks."""
        try:
            for batch in self._batches():
                self._take(batch, match, records_max, pace)
                if len(self.records) >= records_max or self.unpacked_bytes >= share.bytes_max:
                    return
                if time.perf_counter() >= share.until:
                    return
        except (StorageError, OSError) as error:
            self.problem = str(error)
        except WireError as error:
            self.problem = f"what stands at offset {self.next_offset} cannot be shown: {error}"

    def _batches(self) -> Iterator[memoryview]:
        while self.next_offset < self.end:
            before = self.next_offset
            yield from iterate_batches(self._log.read(before, READ_BYTES, self.end).read())
            if self.next_offset == before:
                return

    def _take(self, batch: memoryview, match: Match, records_max: int, pace: Pace) -> None:
        header = read_header(batch)
        self.unpacked_bytes += BATCH_OVERHEAD_BYTES
        pace.rest()
        if not header.is_control:
            found = iterate_records(batch, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX)
            for scanned, record in enumerate(found):
                if scanned >= SCANNED_MAX:
                    raise WireError(f"a batch of more than {SCANNED_MAX:,} records")
                pace.rest()
                self.unpacked_bytes += (
                    RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
                )
                if not self.next_offset <= record.offset < self.end:
                    continue
                self.searched += 1
                if match.finds(record):
                    self.records.append(record)
                    if len(self.records) >= records_max:
                        self.next_offset = record.offset + 1
                        return
        self.next_offset = max(self.next_offset, header.next_offset)
