"""The samples of groups and topics for the charts on the page.

The first request for a group or topic starts its samples: one every ten seconds, kept for an hour. After ten
minutes without a request all samples are dropped, so a broker whose page is not open keeps none.
"""

import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import trio

from kohort.broker.http.slices import Slices
from kohort.broker.http.view import View
from kohort.broker.runtime.supervisor import UNWATCHED, Watched

INTERVAL_MS = 10_000
SAMPLES_MAX = 360
KEPT_MAX = 300
"""How many groups and how many topics are sampled: the ones that were requested last."""
UNLOOKED_SECONDS = 600.0
ROUND_MS_MAX = 60_000
PARTITIONS_PER_SLICE = 1_000
FIELDS = 4
SUM_MAX = 2**63 - 1
"""Offsets can be committed at will: the sum of two may be more than a series can hold."""
GROUP, TOPIC = "group", "topic"

Json = Mapping[str, object]


class Sample(NamedTuple):
    """The sums over `partitions` at a time. Samples with different numbers of partitions cannot be compared.

    For a group, `position` is the sum of its committed offsets and `amount` its lag. For a topic, `position`
    is the sum of the ends of its partitions and `amount` its size in bytes.
    """

    at_ms: int
    partitions: int
    position: int
    amount: int


class _Series:
    """The samples of one group or topic."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = array("q")

    def add(self, sample: Sample) -> None:
        values = self._values
        if values and values[-FIELDS] >= sample.at_ms:
            return
        if len(values) == SAMPLES_MAX * FIELDS:
            del values[:FIELDS]
        values.extend(sample)

    def __iter__(self) -> Iterator[Sample]:
        values = iter(self._values)
        return (Sample(*each) for each in zip(values, values, values, values, strict=True))


class History:
    """The samples of one broker: of the groups that it coordinates, and of the partitions that it leads."""

    def __init__(self, view: View, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._view = view
        self._now_ms = now_ms
        self._series: dict[str, OrderedDict[str, _Series]] = {GROUP: OrderedDict(), TOPIC: OrderedDict()}
        self._looked_at = float("-inf")
        self._wanted = trio.Event()

    def want(self, kind: str, names: Iterable[str]) -> None:
        """Note a request for these: they are sampled from now on."""
        series = self._series[kind]
        for name in names:
            series.setdefault(name, _Series())
            series.move_to_end(name)
        while len(series) > KEPT_MAX:
            series.popitem(last=False)
        self._looked_at = trio.current_time()
        self._wanted.set()

    def samples(self, kind: str, name: str) -> Sequence[Sample]:
        """Return the samples of one group or topic."""
        return list(self._series[kind].get(name, ()))

    async def run(self, part: Watched = UNWATCHED) -> None:
        """Take samples while there are requests, until cancelled."""
        while True:
            await self._wanted.wait()
            while trio.current_time() - self._looked_at < UNLOOKED_SECONDS:
                # All brokers take samples at the same times, so that samples of one topic can be added.
                await trio.sleep((INTERVAL_MS - self._now_ms() % INTERVAL_MS) / 1_000)
                with part.working(ROUND_MS_MAX):
                    await self.look()
            self._series = {GROUP: OrderedDict(), TOPIC: OrderedDict()}
            self._wanted = trio.Event()

    async def look(self) -> None:
        """Take a sample of each group and topic. Gives way in between."""
        at_ms = self._now_ms() // INTERVAL_MS * INTERVAL_MS
        slices = Slices(PARTITIONS_PER_SLICE)
        for kind, sample in ((GROUP, self._of_group), (TOPIC, self._of_topic)):
            for name, series in list(self._series[kind].items()):
                found = await sample(name, at_ms, slices)
                if found is not None:
                    series.add(found)

    async def _of_group(self, name: str, at_ms: int, slices: Slices) -> Sample | None:
        group = self._view.group(name)
        if group is None or not group.has_offsets:
            return None
        partitions = lag = 0
        for each in self._view.behind(group):
            partitions += each is not None
            lag += each or 0
            await slices.did()
        read = sum(max(0, each.offset) for offsets in group.offsets.values() for each in offsets.values())
        return Sample(at_ms, partitions, min(read, SUM_MAX), min(max(lag, 0), SUM_MAX))

    async def _of_topic(self, name: str, at_ms: int, slices: Slices) -> Sample | None:
        topic = self._view.topic(name)
        partitions = end = size = 0
        for state in () if topic is None else topic.partitions:
            held = self._view.partition(name, state.index) if state.leader == self._view.node_id else None
            if held is not None and held.opened and held.offline is None:
                partitions += 1
                end += held.high_watermark
                size += held.log.size_bytes
            await slices.did()
        return Sample(at_ms, partitions, end, size) if partitions else None


def history_view(history: History, parameters: Mapping[str, str]) -> Json:
    """Return the samples of the group or topic that `kind` and `name` say."""
    kind = TOPIC if parameters.get("kind") == TOPIC else GROUP
    name = parameters.get("name", "")
    history.want(kind, [name])
    return {"kind": kind, "name": name, "interval_ms": INTERVAL_MS, "samples": history.samples(kind, name)}


def added(parts: Iterable[Iterable[Sequence[int]]]) -> list[Sample]:
    """Return the samples of a whole topic, from the samples of its leaders."""
    found: dict[int, Sample] = {}
    for each in parts:
        for at_ms, *values in each:
            before = found.get(at_ms, Sample(at_ms, 0, 0, 0))
            found[at_ms] = Sample(
                at_ms, *(one + other for one, other in zip(before[1:], values, strict=True))
            )
    return [found[each] for each in sorted(found)]
