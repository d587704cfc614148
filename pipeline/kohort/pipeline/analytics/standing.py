"""The state of each group in each partition now, computed from its last commits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kohort.client import TopicPartition
from kohort.pipeline.analytics.arithmetic import Pace, Sample, drain_seconds, pace, verdict
from kohort.protocol.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Standing:
    """A group in a partition: None where a value is unknown."""

    group_id: str
    partition: TopicPartition
    committed_offset: int
    end_offset: int
    lag: int
    verdict: Verdict
    pace: Pace | None
    drain_seconds: float | None
    """None: at this pace never."""


def standing(
    group_id: str, partition: TopicPartition, samples: Sequence[Sample], end_offset: int, now_ms: int
) -> Standing:
    """Return how a group does; `samples` are its last commits with the ends at their times, oldest first."""
    committed = samples[-1].committed_offset
    now = Sample(now_ms, committed, end_offset)
    speed = pace([*samples, now])
    return Standing(
        group_id=group_id,
        partition=partition,
        committed_offset=committed,
        end_offset=end_offset,
        lag=now.lag,
        verdict=verdict(samples, now.lag, now_ms),
        pace=speed,
        drain_seconds=drain_seconds(now.lag, speed),
    )
