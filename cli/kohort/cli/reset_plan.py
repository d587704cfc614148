"""Where a group's offsets are to be set: the scope, the ways to say it, and what the logs allow.

Source: OffsetsUtils of Apache Kafka 4.3, whose rules these are.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import click

from kohort.client import EARLIEST, LATEST, Admin, BrokerError, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode

Offsets = dict[TopicPartition, int]
ByGroup = dict[str, Offsets]

_DATETIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)T(?P<time>\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?"
)
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class Spec:
    """One of Kafka's ways to say where to; exactly one is given."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    to_datetime: str | None = None
    by_duration: str | None = None

    @property
    def count(self) -> int:
        """How many are given."""
        flags = (self.to_earliest, self.to_latest, self.to_current)
        values = (self.to_offset, self.shift_by, self.to_datetime, self.by_duration)
        return sum(flags) + sum(each is not None for each in values)


class Planner:
    """Finds the new offsets of one group after the other; `warn` is told where the logs allow less."""

    def __init__(self, admin: Admin, now_ms: int, warn: Callable[[str], None]) -> None:
        self._admin = admin
        self._now_ms = now_ms
        self._warn = warn

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return the partitions of `topic` or `topic:0,1`. Raises: BrokerError for one that is not there."""
        wanted: set[TopicPartition] = set()
        for text in topics:
            name, colon, numbers = text.rpartition(":")
            if not colon:
                partitions = self._admin.describe_topics(text)[text].partitions
                wanted.update(TopicPartition(text, each.partition) for each in partitions)
                continue
            known = {each.partition for each in self._admin.describe_topics(name)[name].partitions}
            for number in numbers.split(","):
                if not number.isdecimal() or int(number) not in known:
                    raise BrokerError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} has no partition {number!r}"
                    )
                wanted.add(TopicPartition(name, int(number)))
        return sorted(wanted)

    def plan(
        self,
        spec: Spec,
        partitions: list[TopicPartition],
        committed: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> Offsets:
        """Return the new offset of each partition. Raises: BrokerError, click.ClickException."""
        if spec.to_earliest:
            return self._ends(partitions, EARLIEST)
        if spec.to_latest:
            return self._ends(partitions, LATEST)
        if spec.to_current:
            missing = [each for each in partitions if each not in committed]
            return {
                each: value.offset for each, value in committed.items() if each in partitions
            } | self._ends(missing, LATEST)
        if spec.to_offset is not None:
            return self.within_logs(dict.fromkeys(partitions, spec.to_offset))
        if spec.shift_by is not None:
            return self.within_logs(_shifted(spec.shift_by, partitions, committed))
        return self._at_time(partitions, self._time_ms(spec))

    def within_logs(self, offsets: Offsets) -> Offsets:
        """Return the offsets, moved to the nearer end of the log where they lie outside of it."""
        first, last = self._ends(offsets, EARLIEST), self._ends(offsets, LATEST)
        moved: Offsets = {}
        for each, offset in offsets.items():
            moved[each] = min(max(offset, first[each]), last[each])
            if offset < first[each]:
                self._warn_of("lower than earliest", each, offset, moved[each])
            elif offset > last[each]:
                self._warn_of("higher than latest", each, offset, moved[each])
        return moved

    def _warn_of(self, what: str, partition: TopicPartition, offset: int, instead: int) -> None:
        self._warn(
            f"New offset ({offset}) is {what} offset for topic partition {partition}."
            f" Value will be set to {instead}"
        )

    def _ends(self, partitions: Iterable[TopicPartition], end: int) -> Offsets:
        wanted = dict.fromkeys(partitions, end)
        found = self._admin.list_offsets(wanted) if wanted else {}
        return {each: value.offset for each, value in found.items()}

    def _at_time(self, partitions: list[TopicPartition], time_ms: int) -> Offsets:
        found = self._admin.list_offsets(dict.fromkeys(partitions, time_ms)) if partitions else {}
        offsets = {each: value.offset for each, value in found.items() if value.offset >= 0}
        later = [each for each in partitions if each not in offsets]
        for each in later:
            self._warn(
                f"Partition {each.partition} from topic {each.topic} has no record that is as new."
                " Falling back to latest known offset."
            )
        return offsets | self._ends(later, LATEST)

    def _time_ms(self, spec: Spec) -> int:
        if spec.to_datetime is not None:
            return parse_datetime(spec.to_datetime)
        assert spec.by_duration is not None
        return self._now_ms - parse_duration(spec.by_duration)


def _shifted(
    by: int, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, OffsetAndMetadata]
) -> Offsets:
    shifted: Offsets = {}
    for each in partitions:
        if each not in committed:
            raise click.ClickException(
                f"Cannot shift offset for partition {each} since there is no current committed offset"
            )
        shifted[each] = committed[each].offset + by
    return shifted


def parse_datetime(text: str) -> int:
    """Return the milliseconds of `YYYY-MM-DDThh:mm:ss.sss`, UTC unless a zone follows. Raises: UsageError."""
    found = _DATETIME.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text!r} is not a time: give YYYY-MM-DDThh:mm:ss.sss, and a zone if not UTC")
    zone = (found["zone"] or "Z").replace("Z", "+00:00")
    zone = f"{zone}:00" if len(zone) == 3 else zone
    try:
        moment = datetime.fromisoformat(f"{found['date']}T{found['time']}{zone}")
    except ValueError as error:
        raise click.UsageError(f"{text!r} is not a time: {error}") from None
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int:
    """Return the milliseconds of `PnDTnHnMnS`. Raises: UsageError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groupdict().values()):
        raise click.UsageError(f"{text!r} is not a duration: give PnDTnHnMnS, such as PT1H30M")
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000)


def to_csv(plans: ByGroup) -> str:
    """Return lines for `from_csv`: topic, partition, offset; the group first if there are several."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group_id, offsets in plans.items():
        for each, offset in sorted(offsets.items()):
            row = (each.topic, each.partition, offset)
            writer.writerow((group_id, *row) if len(plans) > 1 else row)
    return text.getvalue()


def from_csv(text: str, group_ids: tuple[str, ...]) -> ByGroup:
    """Return what a file says for each group; with one, lines need not name it. Raises: UsageError."""
    plans: ByGroup = {each: {} for each in group_ids}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        if len(row) == 3 and len(group_ids) == 1:
            row = [group_ids[0], *row]  # noqa: PLW2901 - The short form of the same line.
        if len(row) != 4 or not row[2].isdecimal() or not row[3].isdecimal():
            wanted = "TOPIC,PARTITION,OFFSET" if len(group_ids) == 1 else "GROUP,TOPIC,PARTITION,OFFSET"
            raise click.UsageError(f"line {number} is not {wanted}: {','.join(row)!r}")
        if row[0] in plans:
            plans[row[0]][TopicPartition(row[1], int(row[2]))] = int(row[3])
    return plans
