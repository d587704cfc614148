"""How a region stands, as a process has read it: for its page, its JSON and its metrics."""

from collections.abc import Mapping

from kohort.queues.clock import wall_ms
from kohort.queues.region.coordinating import Region, group_of, members_reports
from kohort.queues.region.entries import RegionState, Report
from kohort.queues.region.log import RegionLog


def status_of(region: Region, log: RegionLog | None) -> Mapping[str, object]:
    """Return the region's phase, its last checkpoint, its resets, and how each member stands."""
    state = None if log is None else log.view.state
    found: dict[str, object] = {"region": region.name, "group": region.group_id, "phase": "", "members": []}
    if log is None or state is None:
        return found
    reports = {each.name: each for each in members_reports(state, log.view.reports)}
    return {
        **found,
        "group": group_of(region, [*reports.values()]),
        "phase": state.phase,
        "reason": state.reason,
        "size": state.size,
        "checkpoint": state.completed,
        "checkpoint_age_ms": checkpoint_age_ms(log),
        "records_before_checkpoint": sum(state.offsets.values()),
        "resets": max(0, state.attempt - 1),
        "consecutive_resets": state.consecutive_resets,
        "members": [_member(name, reports.get(name), state) for name in sorted(state.members)],
    }


def checkpoint_age_ms(log: RegionLog | None) -> int | None:
    """Return how long ago the last checkpoint was; None before there was one."""
    state = None if log is None else log.view.state
    if state is None or not state.completed_at_ms:
        return None
    return max(0, wall_ms() - state.completed_at_ms)


def _member(name: str, report: Report | None, state: RegionState) -> Mapping[str, object]:
    if report is None:
        return {"name": name, "state": "", "has_reset": False, "generation_id": -1, "wants": ""}
    return {
        "name": name,
        "state": report.state,
        "has_reset": report.attempt == state.attempt,
        "generation_id": report.generation_id,
        "wants": "" if report.wanted is None else report.wanted.reason,
    }
