"""Findings that raise an alert: a storm, a partition that does not move, a member that flaps. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kohort.broker.explain.findings import Explanation, FindingKind, Likelihood
from kohort.broker.explain.observed.events import AnyObserved, GroupChanged
from kohort.broker.explain.observed.patterns import times_gone
from kohort.broker.explain.words import duration, process_name
from kohort.observe.lags import PlaceLag
from kohort.protocol.verdict import Verdict

STORM, STUCK, FLAPPING = "GroupStorm", "GroupPartitionStuck", "GroupMemberFlapping"
QUIET_MS = 600_000
"""A storm, or flapping, is over when it has not been seen for this time."""
FLAPS_MIN, FLAPS_MS = 3, 1_800_000
STUCK_MS_MIN = 300_000
PARTITIONS_TOLD = 8
_STANDING = {Verdict.STALL, Verdict.STOP}


class Finding(NamedTuple):
    """A present problem of a group: `summary` in words, `evidence` line by line."""

    name: str
    group_id: str
    summary: str
    evidence: tuple[str, ...] = ()


class Alert(NamedTuple):
    """A finding that stands since `started_ms`; `ended_ms` is None while it does."""

    cluster: str
    finding: Finding
    started_ms: int
    ended_ms: int | None = None


def storm_findings(group_id: str, told: Sequence[Explanation], now_ms: int) -> Iterator[Finding]:
    """Yield the storm that a group is in, with what lies behind it."""
    for each in reversed(told):
        if now_ms - each.ended_ms > QUIET_MS:
            return
        storm = next((one for one in each.findings if one.kind is FindingKind.STORM), None)
        if storm is not None:
            behind = [one for one in each.findings if one.likelihood is not Likelihood.POSSIBLE][:2]
            evidence = tuple(f"{one.likelihood.value}: {one.text}" for one in behind if one is not storm)
            yield Finding(STORM, group_id, storm.text, (*storm.evidence, *evidence))
            return


def flapping_findings(group_id: str, events: Iterable[AnyObserved], now_ms: int) -> Iterator[Finding]:
    """Yield the process that is gone again and again, and comes back each time."""
    recent = [each for each in events if isinstance(each, GroupChanged) and now_ms - each.at_ms <= FLAPS_MS]
    for process, times in times_gone(recent).most_common(1):
        newest_ms = max(each.at_ms for each in recent for one in each.gone if one.member.process == process)
        if times >= FLAPS_MIN and now_ms - newest_ms <= QUIET_MS:
            summary = f"{process_name(*process)} was gone {times} times within {duration(FLAPS_MS)}"
            evidence = ("it came back each time in between",)
            yield Finding(FLAPPING, group_id, summary, evidence)


class Standing:
    """Since when partitions of groups do not move."""

    def __init__(self) -> None:
        self._since_ms: dict[str, dict[tuple[str, int], int]] = {}
        """By group and partition."""

    def findings(self, group_id: str, lags: Iterable[PlaceLag], now_ms: int) -> Iterator[Finding]:
        """Yield that partitions of a group with members do not move, where that has lasted a while."""
        stuck: list[PlaceLag] = []
        before, standing = self._since_ms.get(group_id, {}), {}
        for each in lags:
            where = each.topic, each.partition
            # None: the end of the log is unknown. A partition that stood still counts as standing still then.
            if each.verdict in _STANDING or (each.verdict is None and where in before):
                standing[where] = before.get(where, now_ms)
                if now_ms - standing[where] >= STUCK_MS_MIN:
                    stuck.append(each)
        self._since_ms[group_id] = standing
        if stuck:
            names = ", ".join(f"{each.topic}-{each.partition}" for each in stuck[:PARTITIONS_TOLD])
            more = f" and {len(stuck) - PARTITIONS_TOLD} more" if len(stuck) > PARTITIONS_TOLD else ""
            yield Finding(
                STUCK,
                group_id,
                f"{len(stuck)} partition{'' if len(stuck) == 1 else 's'} of {group_id} "
                f"{'does' if len(stuck) == 1 else 'do'} not move: {names}{more}",
                tuple(_stands(each) for each in stuck[:PARTITIONS_TOLD]),
            )

    def forget(self, is_kept: Callable[[str], bool]) -> None:
        """Forget groups that are not there, or have no members."""
        for group_id in [each for each in self._since_ms if not is_kept(each)]:
            del self._since_ms[group_id]


def _stands(lag: PlaceLag) -> str:
    where = f"{lag.topic}-{lag.partition}"
    if lag.verdict is None:
        return f"{where}: the group stood at {lag.offset:,}, and the end of the log is unknown now"
    does = "commits the same offset again and again" if lag.verdict is Verdict.STALL else "does not commit"
    return f"{where}: the group {does} at {lag.offset:,}, and {lag.lag or 0:,} records wait"


class Alerts:
    """Which findings stand. A finding that is not found any more is over."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._active: dict[tuple[str, str], Alert] = {}

    @property
    def active(self) -> tuple[Alert, ...]:
        """The standing alerts."""
        return tuple(self._active.values())

    def update(self, findings: Iterable[Finding], now_ms: int) -> list[Alert]:
        """Take the present findings; return the alerts that begin or end."""
        found = {(each.name, each.group_id): each for each in findings}
        changed = []
        for key, finding in found.items():
            known = self._active.get(key)
            self._active[key] = (
                Alert(self._cluster, finding, now_ms) if known is None else known._replace(finding=finding)
            )
            if known is None:
                changed.append(self._active[key])
        for key in self._active.keys() - found.keys():
            changed.append(self._active.pop(key)._replace(ended_ms=now_ms))
        return changed
