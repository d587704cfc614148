"""What the metrics page says of every partition and every group: gathered in slices, so that the loop serves.

The loop's thread gathers plain values; another thread makes metrics and text of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import trio

from kohort.broker.http.view import View
from kohort.broker.lag import PartitionLag
from kohort.broker.metadata import TopicState

SLICE = 50


class LogFacts(NamedTuple):
    """The log of a partition that serves."""

    topic: str
    partition: str
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size_bytes: int


class Facts(NamedTuple):
    """The tables behind the page."""

    partitions: int
    offline: int
    logs: list[LogFacts]
    topics: list[TopicState]
    brokers: int
    lag: list[PartitionLag]
    members: list[tuple[str, int]]


async def gather(view: View) -> Facts:
    """Return the facts as of now, or nearly: what changes meanwhile may be seen before or after."""
    count = offline = 0
    logs: list[LogFacts] = []
    for partition in list(view.partitions()):
        count += 1
        if partition.offline is not None:
            offline += 1
        elif partition.opened:
            log = partition.log
            logs.append(
                LogFacts(
                    partition.topic,
                    str(partition.index),
                    log.log_start_offset,
                    log.log_end_offset,
                    partition.high_watermark,
                    log.size_bytes,
                )
            )
        if not count % SLICE:
            await trio.lowlevel.checkpoint()
    groups = list(view.groups())
    members = [(group.group_id, len(group.members)) for group in groups]
    lag = await view.lag(groups)
    return Facts(count, offline, logs, list(view.topics()), view.brokers(), lag, members)


def states(facts: Facts) -> Iterator[tuple[tuple[str, str], int, int, int]]:
    """Yield (topic and partition, leader, replicas, replicas in sync) for every partition there is."""
    for topic in facts.topics:
        for each in topic.partitions:
            yield (topic.name, str(each.index)), each.leader, len(each.replicas), len(each.isr)
