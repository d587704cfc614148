"""The text of `kohort groups explain`: the last rebalances of a group, and the one in progress."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from kohort.broker.explain.advice import advice_of, same_instance
from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.story import began, fail_over, still_missing, story
from kohort.broker.explain.timeline import OngoingRebalance, Timeline
from kohort.broker.explain.views import GroupView
from kohort.broker.group.events import GroupLoaded

Said = Callable[[RebalanceReport], Sequence[str]]
"""Returns what clients say themselves about the time of a rebalance."""


def explanation(
    group_id: str, timeline: Timeline, last: int, now_ms: int, said: Said = lambda _report: ()
) -> Iterator[str]:
    """Yield the lines about the last rebalances of a group."""
    told = advice_of(timeline.reports)[-last:]
    moves = list(timeline.fail_overs)[-last:]
    if not told and timeline.ongoing is None:
        yield f"{group_id}: no rebalance is known."
    for report, advice in told:
        earlier = [each for each in moves if each.at_ms < report.started_ms]
        moves = moves[len(earlier) :]
        yield from fail_overs(earlier)
        yield from story(report, advice, said(report))
        yield ""
    yield from fail_overs(moves)
    if timeline.ongoing is not None:
        yield from began(timeline.ongoing)
        yield from still_missing(timeline.ongoing, now_ms)
    for each in same_instance(timeline.fenced):
        yield f"What to change: {each.text}"


def fail_overs(moves: Iterable[GroupLoaded]) -> Iterator[str]:
    """Yield the lines about changes of the coordinator."""
    for each in moves:
        yield from fail_over(each)
        yield ""


def timeline_of(view: GroupView) -> Timeline:
    """Return the coordinator's history of a group, which is in memory."""
    timeline = Timeline(max(len(view.history), 1))
    timeline.reports.extend(view.history)
    if view.rebalance is not None:
        ongoing = OngoingRebalance(view.rebalance.cause, view.rebalance.started_ms)
        ongoing.is_assigning = view.state == "CompletingRebalance"
        missing = view.rebalance.waits_for_member_ids
        if ongoing.is_assigning and view.leader is not None:
            missing = (view.leader,)
        ongoing.missing = dict.fromkeys(missing, view.rebalance.started_ms)
        ongoing.last_seen_ms = {each.member_id: each.last_seen_ms for each in view.members}
        ongoing.deadline_ms = view.rebalance.deadline_ms
        timeline.ongoing = ongoing
    return timeline
