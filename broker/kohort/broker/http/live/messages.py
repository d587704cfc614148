"""A look at the records of a partition: decoded in a thread, within limits, and never the whole log."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import trio

from kohort.broker.http.view import View
from kohort.broker.http.view_facts import LogFacts
from kohort.protocol.errors import WireError
from kohort.protocol.records import Record, iterate_batches, iterate_records, read_header
from kohort.storage import StorageError

RECORDS_MAX = 50
READ_BYTES = 1_048_576
DECOMPRESSED_BYTES_MAX = 8 * 1_048_576
SCANNED_MAX = 200_000
"""Records of a batch that are passed over on the way to an offset in it."""
SEARCHED_RECORDS = 10_000
"""How far back from the end a search begins that names no offset."""
SEARCHED_BYTES_MAX = 32 * 1_048_576
"""How much one search unpacks; the next one goes on from there."""
RECORD_OVERHEAD_BYTES = 64
BATCH_OVERHEAD_BYTES = 64
"""What a batch costs beside its records: the end of a transaction has none to show."""
SHOWN_BYTES = 4_096
HEADERS_SHOWN = 50

Json = Mapping[str, object]


class Question(NamedTuple):
    """Which records to show: the first `records_max` from an offset, or from a time, on.

    A negative offset counts back from the end. With `text` only those are shown that have it in key, value
    or headers.
    """

    topic: str
    partition: int
    offset: int
    records_max: int
    time_ms: int | None = None
    text: bytes = b""


def question_of(topic: str, parameters: Mapping[str, str]) -> Question:
    """Return what a request asks for. Raises: ValueError for what is no number."""
    text, time_ms = parameters.get("q", "").encode(), parameters.get("time")
    back = SEARCHED_RECORDS if text else RECORDS_MAX
    return Question(
        topic,
        int(parameters.get("partition", "0")),
        int(parameters.get("offset", str(-back))),
        min(max(int(parameters.get("count", str(RECORDS_MAX))), 1), RECORDS_MAX),
        None if time_ms is None else int(time_ms),
        text,
    )


async def messages_view(view: View, asked: Question) -> Json | None:
    """Return records, and between which offsets there are any; None where the partition is not here.

    What keeps it from showing more, a damaged batch for instance, is told as `problem`.
    """
    partition = await view.open_partition(asked.topic, asked.partition)
    if partition is None:
        return None
    start, end = partition.log.log_start_offset, partition.high_watermark
    offset = end + asked.offset if asked.offset < 0 else asked.offset
    look = _Look(partition.log, min(max(offset, start), end), end, asked)
    await trio.to_thread.run_sync(look.run)
    return {
        "log_start_offset": start,
        "high_watermark": end,
        "offset": look.begin,
        "next_offset": look.offset,
        "searched": look.searched,
        "records": look.records,
        "problem": look.problem,
    }


class _Look:
    """Reads forward from an offset until there is enough to show."""

    def __init__(self, log: LogFacts, offset: int, end: int, asked: Question) -> None:
        self.begin = self.offset = offset
        self.records: list[Json] = []
        self.searched = 0
        self._searched_bytes = 0
        self.problem = ""
        self._log = log
        self._end = end
        self._asked = asked
        self._count = asked.records_max

    def run(self) -> None:
        """Fill `records`. Blocks."""
        try:
            if self._asked.time_ms is not None:
                self._begin_at(self._asked.time_ms)
            for batch in self._batches():
                self._take(batch)
                if len(self.records) >= self._count or self._searched_bytes >= SEARCHED_BYTES_MAX:
                    return
        except (StorageError, OSError) as error:
            self.problem = str(error)
        except WireError as error:
            self.problem = f"what stands at offset {self.offset} cannot be shown: {error}"

    def _begin_at(self, time_ms: int) -> None:
        found = self._log.offset_for_timestamp(time_ms)
        self.begin = self.offset = self._end if found is None else min(found[0], self._end)

    def _batches(self) -> Iterator[memoryview]:
        while self.offset < self._end:
            before = self.offset
            yield from iterate_batches(self._log.read(before, READ_BYTES, self._end).read())
            if self.offset == before:
                return

    def _take(self, batch: memoryview) -> None:
        header = read_header(batch)
        self._searched_bytes += BATCH_OVERHEAD_BYTES
        if not header.is_control:
            found = iterate_records(batch, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX)
            for scanned, record in enumerate(found):
                if scanned >= SCANNED_MAX:
                    raise WireError(f"a batch of more than {SCANNED_MAX:,} records")
                self._searched_bytes += (
                    RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
                )
                if self.offset <= record.offset < self._end:
                    self.searched += 1
                    if not _has(record, self._asked.text):
                        continue
                    self.records.append(_as_json(record))
                    if len(self.records) >= self._count:
                        self.offset = record.offset + 1
                        return
        self.offset = max(self.offset, header.next_offset)


def _has(record: Record, text: bytes) -> bool:
    """Return whether key, value, or a header's name or value contains the text."""
    if not text or text in (record.key or b"") or text in (record.value or b""):
        return True
    return any(text in name.encode() or text in (value or b"") for name, value in record.headers)


def _as_json(record: Record) -> Json:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _data(record.key),
        "value": _data(record.value),
        "headers": [[name[:SHOWN_BYTES], _data(value)] for name, value in record.headers[:HEADERS_SHOWN]],
        "headers_left_out": max(0, len(record.headers) - HEADERS_SHOWN),
    }


def _data(data: bytes | None) -> Json | None:
    """Return the first bytes as text where they are some, and in any case as hexadecimal digits."""
    if data is None:
        return None
    shown = data[:SHOWN_BYTES]
    return {"size": len(data), "text": _text(shown, len(data) > len(shown)), "hex": shown.hex()}


def _text(data: bytes, is_cut: bool) -> str | None:
    """Return UTF-8 text, None for anything else; a letter that was cut in two is left out."""
    for end in range(len(data), max(len(data) - 4 if is_cut else len(data) - 1, -1), -1):
        try:
            return data[:end].decode()
        except UnicodeDecodeError:
            continue
    return None
