"""Decides which changes in groups need an alert: changed verdicts, and new rebalance storms. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from kohort.client import TopicPartition
from kohort.pipeline.analytics.storms import QUIET_MS, Rebalance, Storm, find_storms
from kohort.protocol.verdict import COMMITS_KEPT, Commit, Verdict, judge, worst

REBALANCES_KEPT = 100
PARTITIONS_TOLD = 10
Key = tuple[str, TopicPartition]


class BadPartition(msgspec.Struct, frozen=True):
    """A partition in which a group has a bad verdict."""

    topic: str
    partition: int
    lag: int
    committed_offset: int


class VerdictAlert(msgspec.Struct, frozen=True, tag_field="alert", tag="verdict"):
    """A group became worse or better since its last alert: its worst partition counts."""

    group_id: str
    verdict: str
    before: str
    lag: int
    """Of all its partitions."""
    partition_count: int
    """The number of partitions with that verdict: 0 where the group is healthy."""
    partitions: tuple[BadPartition, ...]
    """The partitions with the largest lag, PARTITIONS_TOLD at most."""
    at_ms: int


class StormAlert(msgspec.Struct, frozen=True, tag_field="alert", tag="storm"):
    """A group rebalances again and again; one alert for each storm."""

    group_id: str
    started_ms: int
    rebalances: int
    still_ms: int
    causes: dict[str, int]
    clients: dict[str, int]
    at_ms: int


Alert = VerdictAlert | StormAlert


@dataclass(slots=True)
class _Window:
    """A group's last commits in a partition, with the lag when each was seen."""

    caught_up_ms: int
    commits: deque[Commit] = field(default_factory=lambda: deque(maxlen=COMMITS_KEPT))


class _Judged(NamedTuple):
    """The verdict on a group in a partition."""

    verdict: Verdict
    place: BadPartition


class AlertBoard:
    """The state of all groups, and the alerts that were sent about them."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._offsets: dict[Key, tuple[int, int]] = {}
        self._windows: dict[Key, _Window] = {}
        self._told: dict[str, Verdict] = {}
        self._rebalances: dict[str, deque[Rebalance]] = defaultdict(lambda: deque(maxlen=REBALANCES_KEPT))
        self._storms_told: dict[str, int] = {}

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions in which any group has committed something."""
        return {partition for _, partition in self._offsets}

    @property
    def groups(self) -> set[str]:
        """The groups that have committed something."""
        return {group_id for group_id, _ in self._offsets}

    def commit(self, group_id: str, partition: TopicPartition, offset: int | None, committed_ms: int) -> None:
        """Take over a commit; None removes the offset and its history."""
        key = (group_id, partition)
        if offset is None:
            self._offsets.pop(key, None)
            self._windows.pop(key, None)
        else:
            self._offsets[key] = (offset, committed_ms)

    @property
    def patience_ms(self) -> int:
        """How long a group with little history may be silent and behind before it counts as stopped."""
        return COMMITS_KEPT * self._interval_ms

    def was_behind(self, ends: Mapping[TopicPartition, int], at_ms: int) -> None:
        """Take over the end offsets at a past time: a group with a lower offset was behind then."""
        for key, (offset, _) in self._offsets.items():
            if offset < ends.get(key[1], 0):
                self._windows.setdefault(key, _Window(at_ms))

    def rebalance(self, group_id: str, rebalance: Rebalance) -> None:
        """Take over a completed rebalance."""
        self._rebalances[group_id].append(rebalance)

    def look(self, ends: Mapping[TopicPartition, int], now_ms: int) -> list[Alert]:
        """Return the new alerts: called once per interval with the current end offsets of the partitions."""
        return [*self._verdicts(ends, now_ms), *self._storms(now_ms)]

    def _verdicts(self, ends: Mapping[TopicPartition, int], now_ms: int) -> Iterator[Alert]:
        for gone in self._told.keys() - self.groups:
            del self._told[gone]
        for group_id, found in self._judged(ends, now_ms).items():
            verdict = worst(*(each.verdict for each in found))
            before = self._told.get(group_id, Verdict.OK)
            if verdict is before:
                continue
            self._told[group_id] = verdict
            bad = [each.place for each in found if each.verdict is verdict is not Verdict.OK]
            furthest = sorted(bad, key=lambda each: (-each.lag, each.topic, each.partition))[:PARTITIONS_TOLD]
            lag = sum(each.place.lag for each in found)
            yield VerdictAlert(group_id, verdict.value, before.value, lag, len(bad), tuple(furthest), now_ms)

    def _judged(self, ends: Mapping[TopicPartition, int], now_ms: int) -> dict[str, list[_Judged]]:
        """Return each group's verdict in the partitions whose end offsets are known."""
        judged: dict[str, list[_Judged]] = defaultdict(list)
        for (group_id, partition), (offset, committed_ms) in self._offsets.items():
            if partition not in ends:
                continue
            lag = max(ends[partition] - offset, 0)
            window = self._windows.setdefault((group_id, partition), _Window(now_ms))
            if not lag:
                window.caught_up_ms = now_ms
            if not window.commits or window.commits[-1].timestamp_ms != committed_ms:
                window.commits.append(Commit(committed_ms, offset, lag))
            verdict = judge(
                tuple(window.commits),
                lag,
                caught_up_ms=window.caught_up_ms,
                now_ms=now_ms,
                interval_ms=self._interval_ms,
            )
            judged[group_id].append(_Judged(verdict, BadPartition(*partition, lag, offset)))
        return judged

    def _storms(self, now_ms: int) -> Iterator[Alert]:
        for group_id, rebalances in self._rebalances.items():
            for each in _going_on(rebalances, now_ms):
                if self._storms_told.get(group_id, -1) < each.started_ms:
                    self._storms_told[group_id] = each.ended_ms
                    yield StormAlert(
                        group_id,
                        each.started_ms,
                        each.rebalances,
                        each.still_ms,
                        each.causes,
                        each.clients,
                        now_ms,
                    )
                else:
                    self._storms_told[group_id] = each.ended_ms


def _going_on(rebalances: Iterable[Rebalance], now_ms: int) -> list[Storm]:
    return [each for each in find_storms(rebalances) if now_ms - each.ended_ms < QUIET_MS]
