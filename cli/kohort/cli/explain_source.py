"""Where `kohort groups explain` learns what happened: the topic `__group_events`, or the broker over HTTP."""

import time
from collections.abc import Iterable, Mapping
from operator import attrgetter

import click
import msgspec

from kohort.broker.explain.explanation import timeline_of
from kohort.broker.explain.timeline import Timeline, read_event
from kohort.broker.explain.views import GroupView
from kohort.broker.group import Event
from kohort.broker.group.events import GROUP_EVENTS_TOPIC
from kohort.client import BrokerError, Consumer, ConsumerRecord, RequestTimeoutError, TopicPartition
from kohort.protocol.errors import ErrorCode

LOOK_BACK = (2_000, 20_000, 200_000)
"""How many records to look at, behind which everything is: most groups have rebalanced of late."""
BEFORE_MS = 600_000
"""Advice looks back so far."""
SINCE_KEPT = 5_000
POLL_MS = 500
SILENCE_SECONDS_MAX = 15.0
EARLIER_KEPT = 16
"""Rebalances before those that are asked for: advice looks back."""


class EventReader:
    """Reads one group's events by way of a consumer without a group."""

    def __init__(self, consumer: Consumer, group_id: str) -> None:
        """Find the partitions. Raises: click.ClickException where this broker keeps no events."""
        self._consumer = consumer
        self._key = group_id.encode()
        try:
            count = len(consumer.partitions_for(GROUP_EVENTS_TOPIC))
        except BrokerError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise click.ClickException(
                f"there is no topic {GROUP_EVENTS_TOPIC}: no group has done anything yet, the broker has "
                "kohort.group.events.enable=false (then try --http), or it is not kohort"
            ) from None
        # Of several brokers each writes to partitions that it leads.
        self._partitions = [TopicPartition(GROUP_EVENTS_TOPIC, index) for index in range(count)]
        consumer.assign(*self._partitions)

    def read_back(self, wanted: int) -> Timeline:
        """Return the newest rebalances, `wanted` at least if there are as many."""
        starts = self._consumer.beginning_offsets(*self._partitions)
        ends = self._consumer.end_offsets(*self._partitions)
        kept = wanted + EARLIER_KEPT
        timeline = Timeline(kept)
        for count in (*LOOK_BACK, max(ends[each] - starts[each] for each in self._partitions)):
            begins = {each: max(starts[each], ends[each] - count) for each in self._partitions}
            timeline = Timeline(kept)
            for event in self._between(begins, ends):
                timeline.add(event)
            if begins == starts or len(timeline.reports) == kept:
                break
        return timeline

    def read_since(self, since_ms: int) -> Timeline:
        """Return what has been since then, and what that may follow from."""
        ends = self._consumer.end_offsets(*self._partitions)
        begins_ms = dict.fromkeys(self._partitions, max(since_ms - BEFORE_MS, 0))
        found = self._consumer.offsets_for_times(begins_ms)
        begins = {
            each: ends[each] if (place := found[each]) is None else place.offset for each in self._partitions
        }
        timeline = Timeline(SINCE_KEPT)
        for event in self._between(begins, ends):
            timeline.add(event)
        return timeline

    def more(self) -> list[Event]:
        """Return the group's events that have come since; none after a moment without any."""
        return self._events_in(self._consumer.poll(timeout_ms=POLL_MS))

    def _between(
        self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> list[Event]:
        """Return the group's events in the order of their times."""
        found: list[Event] = []
        for partition, begin in begins.items():
            self._consumer.seek(partition, begin)
        left = {each for each, begin in begins.items() if begin < ends[each]}
        deadline = time.monotonic() + SILENCE_SECONDS_MAX
        while left:
            records = self._consumer.poll(timeout_ms=POLL_MS)
            if records:
                deadline = time.monotonic() + SILENCE_SECONDS_MAX
            elif time.monotonic() > deadline:
                where = min(left)
                raise RequestTimeoutError(f"{where} cannot be read up to its end at offset {ends[where]}")
            for each in records:
                where = TopicPartition(each.topic, each.partition)
                if each.offset + 1 >= ends[where]:
                    left.discard(where)
            found += self._events_in(records)
        return sorted(found, key=attrgetter("at_ms"))

    def _events_in(self, records: Iterable[ConsumerRecord]) -> list[Event]:
        found = (read_event(each.value or b"") for each in records if each.key == self._key)
        return [each for each in found if each is not None]


def is_observed(body: bytes) -> bool:
    """Return whether `kohort observe` has answered about a group, and not its broker."""
    return "observed" in msgspec.json.decode(body, type=dict[str, msgspec.Raw])


def timeline_of_body(body: bytes) -> Timeline:
    """Return what a broker has in memory of a group, from its answer over HTTP."""
    return timeline_of(msgspec.json.decode(body, type=GroupView))
