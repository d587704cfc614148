"""What the brokers say about members that are gone: Apache Kafka in its log, kohort in `__group_events`.

A planting is judged by it, and the observer does not see it. On a busy machine members miss their sessions by
themselves: a finding that names such a member is right, though nobody has planted it.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kohort.broker.explain.findings import FindingKind
from kohort.broker.explain.timeline import read_event
from kohort.broker.explain.words import member_name
from kohort.broker.group.events import GROUP_EVENTS_TOPIC, Event, MemberExpired, MemberLeft
from kohort.client import Consumer, TopicPartition

K = FindingKind
LOG4J = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{UNIX_MILLIS} %p %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.groups.name = org.apache.kafka.coordinator.group
logger.groups.level = info
"""
"""Has Apache Kafka write to its log what becomes of members."""
_GROUP = r"\[Group(?:Id)? (?P<group>[^\]]+)\]"
_LOGGED = (
    (K.MEMBER_LEFT, rf"{_GROUP} (?:Dynamic )?[mM]ember (?P<member>\S+) has left group (?P<reason>.*)"),
    (K.MEMBER_LEFT, rf"{_GROUP} Static member (?P<member>\S+) .* has left group (?P<reason>.*)"),
    (K.MEMBER_LEFT, rf"{_GROUP} Member (?P<member>\S+) left the consumer group\.(?P<reason>)"),
    (K.MEMBER_EXPIRED, r"Member (?P<member>\S+) in group (?P<group>\S+) has failed(?P<reason>.*)"),
    (
        K.MEMBER_EXPIRED,
        rf"{_GROUP} Member (?P<member>\S+) fenced from the group (?P<reason>.*session expired.*)",
    ),
)
_LINES = tuple((kind, re.compile(rf"^(?P<at_ms>\d{{13}}) INFO .*?{line}$")) for kind, line in _LOGGED)
DEPARTURES = {K.MEMBER_LEFT.value, K.MEMBER_EXPIRED.value, K.POLL_INTERVAL_EXCEEDED.value}
"""Findings that a broker knows better. It takes a member that worked too long for one that left."""
_POLL = re.compile(r"poll (timeout|interval)|max\.poll", re.IGNORECASE)


class Departed(NamedTuple):
    """A member that left, or that the coordinator removed."""

    at_ms: int
    kind: FindingKind
    member_id: str

    @property
    def client(self) -> str:
        """The client id, or the instance, that begins the id of a member of a classic group."""
        name = member_name(self.member_id)
        return name.rpartition("-")[0] if name != self.member_id else ""

    def is_of(self, finding: dict[str, Any]) -> bool:
        """Whether a finding is about this member, by its name."""
        names = {member_name(self.member_id), self.client} - {""}
        return any(finding["text"].startswith(f"{each} ") for each in names)


class Witness(Protocol):
    """Knows which members of a group are gone, and why."""

    def departed(self, group: str) -> list[Departed]:
        """Return them, the oldest first."""
        ...


class KafkaWitness:
    """The logs of Apache Kafka's brokers."""

    def __init__(self, logs: Sequence[Path]) -> None:
        self._logs = logs

    def departed(self, group: str) -> list[Departed]:
        """Return the members of the group that are gone, the oldest first."""
        found: list[Departed] = []
        for each in self._logs:
            with each.open(errors="replace") as lines:
                found += departures_in(lines, group)
        return sorted(found, key=attrgetter("at_ms"))


def departures_in(lines: Iterable[str], group: str) -> Iterator[Departed]:
    """Yield the members of a group that are gone by a log of Apache Kafka."""
    for line in lines:
        if group not in line:
            continue
        for kind, pattern in _LINES:
            found = pattern.match(line.rstrip())
            if found is not None and found["group"] == group:
                yield Departed(int(found["at_ms"]), _with_reason(kind, found["reason"]), found["member"])
                break


class KohortWitness:
    """The events of a broker of kohort."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._places: list[TopicPartition] = []
        self._gone: dict[str, list[Departed]] = {}

    def departed(self, group: str) -> list[Departed]:
        """Return the members of the group that are gone, the oldest first."""
        with self._lock:
            self._read()
            return [*self._gone.get(group, ())]

    def close(self) -> None:
        """Close its connection."""
        if self._consumer is not None:
            self._consumer.close()

    def _read(self) -> None:
        """Read what is new, up to the end of the topic."""
        if self._consumer is None:
            self._consumer = Consumer(bootstrap_servers=self._bootstrap)
            count = len(self._consumer.partitions_for(GROUP_EVENTS_TOPIC))
            self._places = [TopicPartition(GROUP_EVENTS_TOPIC, each) for each in range(count)]
            self._consumer.assign(*self._places)
            for each in self._places:
                self._consumer.seek(each, 0)
        ends = self._consumer.end_offsets(*self._places)
        while any(self._consumer.position(each) < ends[each] for each in self._places):
            for record in self._consumer.poll(timeout_ms=500):
                self._take(read_event(record.value or b""))

    def _take(self, event: Event | None) -> None:
        if isinstance(event, MemberLeft):
            kind = _with_reason(K.MEMBER_LEFT, event.reason)
        elif isinstance(event, MemberExpired):
            kind = K.MEMBER_EXPIRED
        else:
            return
        self._gone.setdefault(event.group_id, []).append(Departed(event.at_ms, kind, event.member_id))


def _with_reason(kind: FindingKind, reason: str) -> FindingKind:
    return K.POLL_INTERVAL_EXCEEDED if kind is K.MEMBER_LEFT and _POLL.search(reason) else kind


def is_true(finding: dict[str, Any], departed: Sequence[Departed], planted: FindingKind) -> bool:
    """Whether the brokers say what the finding says about members that are gone.

    If it is planted that a member works too long, a member that leaves need not have told the broker why.
    """
    if finding["kind"] == K.STORM.value:
        return any(times > 1 for times in Counter(each.client for each in departed if each.client).values())
    kinds = {finding["kind"]}
    if finding["kind"] == planted.value == K.POLL_INTERVAL_EXCEEDED.value:
        kinds.add(K.MEMBER_LEFT.value)
    return any(each.is_of(finding) and each.kind.value in kinds for each in departed)
