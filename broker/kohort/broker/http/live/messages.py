"""Searches the records of one partition of a topic, or of all partitions, in a thread and within limits."""

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import trio

from kohort.broker.http.live.decoding import Datum
from kohort.broker.http.live.matching import ANY, Match, condition_of
from kohort.broker.http.live.reading_records import Pace, PartitionReading, Share
from kohort.broker.http.view import View
from kohort.broker.metadata import NO_LEADER
from kohort.protocol.records import Record

RECORDS_MAX = 50
PARTITIONS_MAX = 500
"""How many partitions one search reads; of a topic with more, the first ones."""
SEARCHED_RECORDS = 10_000
"""How far back from the end a search begins that names no offset."""
SEARCHED_BYTES_MAX = 32 * 1_048_576
SEARCH_SECONDS_MAX = 1.0
"""The limits of one search. The next one continues where it has stopped."""
SEARCHES_MAX = 2
WAITING_MAX = 2
"""How many searches run at once, and how many wait for them. Others are refused."""
SHOWN_BYTES = 4_096
CHARACTERS_MAX = 3_000
"""The limit for the text of a search: the broker's loop reads the condition."""
HEADERS_SHOWN = 50
ALL, END = "all", "end"

Json = Mapping[str, Any]
T = TypeVar("T")


class Question(NamedTuple):
    """The records to show: the first `records_max` from an offset or a time.

    A negative offset counts back from the end, None is the end. `positions` has the offset of each partition
    at which an earlier search stopped.
    """

    topic: str
    partition: int | None
    """None for all."""
    offset: int | None
    records_max: int
    time_ms: int | None = None
    match: Match = ANY
    positions: Mapping[int, int] | None = None

    @property
    def is_newest(self) -> bool:
        """Whether it asks for the last records, and not for the first matches."""
        is_last = self.offset is not None and -self.records_max <= self.offset < 0
        return is_last and self.match.is_any and self.time_ms is None and self.positions is None

    def stopped_at(self, index: int) -> int | None:
        """Return where an earlier search stopped in a partition; None if its leader did not answer then."""
        return None if self.positions is None else self.positions.get(index)

    def offset_in(self, index: int, end: int) -> int:
        """Return where to begin in a partition."""
        stopped_at = self.stopped_at(index)
        if stopped_at is not None:
            return stopped_at
        if self.offset is None:
            return end
        return end + self.offset if self.offset < 0 else self.offset


class Found(NamedTuple):
    """The answer, and the keys and values in it, which may be decoded."""

    told: Json
    data: Sequence[Datum]


class TooMany(Exception):
    """Too many searches run and wait already."""


def question_of(topic: str, parameters: Mapping[str, str]) -> Question:
    """Return the question of a request. Raises: ValueError."""
    if sum(len(parameters.get(each, "")) for each in ("where", "q", "key")) > CHARACTERS_MAX:
        raise ValueError(f"where, q and key have {CHARACTERS_MAX} characters at most")
    where, time_ms = parameters.get("where", ""), parameters.get("time")
    key = parameters.get("key", "")
    match = Match(
        parameters.get("q", "").encode(),
        key.encode() if key else None,
        condition_of(where) if where else None,
    )
    count = min(max(_integer("count", parameters.get("count", str(RECORDS_MAX))), 1), RECORDS_MAX)
    back = count if match.is_any else SEARCHED_RECORDS
    partition, offset = parameters.get("partition", "0"), parameters.get("offset", str(-back))
    return Question(
        topic,
        None if partition == ALL else _integer("partition", partition),
        None if offset == END else _integer("offset", offset),
        count,
        None if time_ms is None else _integer("time", time_ms),
        match,
        _positions(parameters["positions"]) if "positions" in parameters else None,
    )


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("partition, offset, count and time (ms) are numbers") from None


def _positions(text: str) -> Mapping[int, int]:
    """Return the offsets by partition from a text such as `0:12,3:40`. Raises: ValueError."""
    found = {}
    for each in filter(None, text.split(",")):
        index, _, offset = each.partition(":")
        found[_integer("partition", index)] = _integer("offset", offset)
    if len(found) > PARTITIONS_MAX:
        raise ValueError(f"positions may name {PARTITIONS_MAX} partitions")
    return found


class Searches:
    """The searches of one broker: a few at once."""

    def __init__(self) -> None:
        self._limit = trio.CapacityLimiter(SEARCHES_MAX)

    async def look(self, view: View, asked: Question) -> Found | None:
        """Return records and the searched offsets; None if the partition is not here. Raises: TooMany.

        `problem` says why no more of a partition can be shown, for example because of a damaged batch.
        """
        if self._limit.statistics().tasks_waiting >= WAITING_MAX:
            raise TooMany("others search already: try again")
        async with self._limit:
            readings = []
            indexes, not_searched = _indexes(view, asked)
            for index in indexes:
                reading = await _opened(view, asked, index)
                if reading is not None:
                    readings.append(reading)
                else:
                    not_searched.append(index)
            if not readings and asked.partition is not None:
                return None
            return await trio.to_thread.run_sync(_answer, readings, not_searched, asked)


def _indexes(view: View, asked: Question) -> tuple[list[int], list[int]]:
    """Return the partitions to search here, and the partitions without a leader, which no broker searches.

    Without a partition in the question, the broker searches all partitions that it leads.
    """
    if asked.partition is not None:
        return [asked.partition], []
    topic = view.topic(asked.topic)
    states = () if topic is None else topic.partitions[:PARTITIONS_MAX]
    led = [each.index for each in states if each.leader == view.node_id]
    leaderless = [each.index for each in states if each.leader == NO_LEADER]
    here = set(led)  # In the order of the positions: partitions that were not reached before come first.
    reached = [each for each in asked.positions or () if each in here]
    return [*reached, *(each for each in led if asked.stopped_at(each) is None)], leaderless


async def _opened(view: View, asked: Question, index: int) -> PartitionReading | None:
    partition = await view.open_partition(asked.topic, index)
    if partition is None:
        return None
    end = partition.high_watermark
    return PartitionReading(index, partition.log, offset=asked.offset_in(index, end), end=end)


def _answer(readings: Sequence[PartitionReading], not_searched: Sequence[int], asked: Question) -> Found:
    """Search the partitions. Each gets a share of the limits of a search. Blocks."""
    pace = Pace()
    until, room = time.perf_counter() + SEARCH_SECONDS_MAX, SEARCHED_BYTES_MAX
    missed = []
    for place, each in enumerate(readings):
        if asked.time_ms is not None and asked.stopped_at(each.index) is None:
            each.begin_at(asked.time_ms)
            pace.rest()
        now, left = time.perf_counter(), len(readings) - place
        if place and (room <= 0 or now >= until):
            missed.append(each)
        elif not each.problem:
            each.run(asked.match, asked.records_max, Share(room // left, now + (until - now) / left), pace)
            room -= each.unpacked_bytes
    found = [[(each.index, record) for record in each.records] for each in readings]
    kept, left_out = chosen(
        found, asked.records_max, is_last=asked.is_newest, time_of=lambda each: each[1].timestamp
    )
    by_index = {each.index: each for each in readings}
    for index, record in left_out:
        by_index[index].next_offset = min(by_index[index].next_offset, record.offset)
    records = [_as_json(index, record, pace) for index, record in kept]
    told = told_of(
        [_reading_json(each) for each in sorted(readings, key=lambda each: (each not in missed, each.index))],
        records,
        not_searched,
    )
    return Found(
        told,
        [
            Datum(asked.topic, name == "key", data, shown[name])
            for shown, (_, record) in zip(records, kept, strict=True)
            for name, data in (("key", record.key), ("value", record.value))
            if data is not None
        ],
    )


def chosen(
    found: Sequence[Sequence[T]], most: int, *, is_last: bool, time_of: Callable[[T], Any]
) -> tuple[list[T], list[T]]:
    """Return the first or last entries of several lists by time, and the rest, which a later search finds.

    The entries of one list keep their order, whatever their times are.
    """
    ordered = list(heapq.merge(*found, key=time_of))
    return (ordered[-most:], []) if is_last else (ordered[:most], ordered[most:])


def told_of(partitions: Sequence[Json], records: Sequence[Json], not_searched: Sequence[int]) -> Json:
    """Return the answer. The next question continues at its `positions`."""
    return {
        "partitions": partitions,
        "records": records,
        "not_searched": not_searched,
        "searched": sum(each["searched"] for each in partitions),
        "positions": ",".join(f"{each['partition']}:{each['next_offset']}" for each in partitions),
        "is_at_end": all(each["next_offset"] >= each["high_watermark"] for each in partitions),
    }


def _reading_json(reading: PartitionReading) -> Json:
    return {
        "partition": reading.index,
        "log_start_offset": reading.log_start_offset,
        "high_watermark": reading.end,
        "offset": reading.begin,
        "next_offset": reading.next_offset,
        "searched": reading.searched,
        "problem": reading.problem,
    }


def _as_json(index: int, record: Record, pace: Pace) -> Json:
    pace.rest()
    return {
        "partition": index,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _data(record.key),
        "value": _data(record.value),
        "headers": [[name[:SHOWN_BYTES], _data(value)] for name, value in record.headers[:HEADERS_SHOWN]],
        "headers_left_out": max(0, len(record.headers) - HEADERS_SHOWN),
    }


def _data(data: bytes | None) -> dict[str, Any] | None:
    """Return the first bytes as hexadecimal digits, and also as text if they are UTF-8."""
    if data is None:
        return None
    shown = data[:SHOWN_BYTES]
    return {"size": len(data), "text": _text(shown, len(data) > len(shown)), "hex": shown.hex()}


def _text(data: bytes, is_cut: bool) -> str | None:
    """Return UTF-8 text without a character that was cut in two, None for other data."""
    for end in range(len(data), max(len(data) - 4 if is_cut else len(data) - 1, -1), -1):
        try:
            return data[:end].decode()
        except UnicodeDecodeError:
            continue
    return None
