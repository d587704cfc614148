"""Samples of groups for the charts on the page: one every ten seconds, for an hour. Pure."""

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kohort.observe.group import ObservedGroup

INTERVAL_MS = 10_000
SAMPLES_MAX = 360
GROUPS_MAX = 1_000
"""The number of groups with samples, which take 12 MB at most. The groups last looked at come first."""
SUM_MAX = 2**63 - 1


class Sample(NamedTuple):
    """The sums over `partitions` at a time: of the committed offsets, and of the lag.

    Samples with different numbers of partitions cannot be compared.
    """

    at_ms: int
    partitions: int
    position: int
    lag: int


class Samples:
    """The samples of one cluster's groups."""

    def __init__(self) -> None:
        self._series: OrderedDict[str, array[int]] = OrderedDict()
        self._newest_ms = 0

    def want(self, group_id: str) -> None:
        """Note that somebody looks at a group: it is sampled as long as others are not looked at later."""
        self._series.setdefault(group_id, array("q"))
        self._series.move_to_end(group_id)
        while len(self._series) > GROUPS_MAX:
            self._series.popitem(last=False)

    def take(
        self, groups: Mapping[str, ObservedGroup], ends: Mapping[str, Mapping[int, int]], at_ms: int
    ) -> None:
        """Take a sample of each group, unless the last ones are younger than the interval."""
        if at_ms - self._newest_ms < INTERVAL_MS:
            return
        self._newest_ms = at_ms
        for group_id in [each for each in self._series if each not in groups]:
            del self._series[group_id]
        self._fill(groups)
        for group_id, series in self._series.items():
            sample = _sample(groups[group_id], ends, at_ms)
            if sample.partitions:
                if len(series) == SAMPLES_MAX * len(sample):
                    del series[: len(sample)]
                series.extend(sample)

    def of(self, group_id: str) -> Iterator[Sample]:
        """Yield the samples of a group, the oldest first."""
        values = iter(self._series.get(group_id, ()))
        return (Sample(*each) for each in zip(values, values, values, values, strict=True))

    def _fill(self, group_ids: Iterable[str]) -> None:
        """Sample groups at which nobody has looked, while there is room."""
        for group_id in group_ids:
            if len(self._series) >= GROUPS_MAX:
                return
            if group_id not in self._series:
                self._series[group_id] = array("q")
                self._series.move_to_end(group_id, last=False)


def _sample(group: ObservedGroup, ends: Mapping[str, Mapping[int, int]], at_ms: int) -> Sample:
    partitions = position = lag = 0
    for (topic, partition), place in group.places.items():
        end = ends.get(topic, {}).get(partition, -1)
        if end >= 0:
            partitions += 1
            position += max(place.offset, 0)
            lag += max(end - place.offset, 0)
    return Sample(at_ms, partitions, min(position, SUM_MAX), min(lag, SUM_MAX))
