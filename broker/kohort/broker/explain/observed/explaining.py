"""A group's history: explains its events, and merges events that belong together."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from kohort.broker.explain.findings import Explanation, Finding, FindingKind, Likelihood, in_order
from kohort.broker.explain.observed.changes import change_findings
from kohort.broker.explain.observed.departures import LOOK_MS_MAX, RETURN_MS_MAX
from kohort.broker.explain.observed.endings import storm_ending, with_endings
from kohort.broker.explain.observed.events import (
    AnyObserved,
    CoordinatorMoved,
    GroupChanged,
    OffsetsRemoved,
    OffsetsSet,
    StaticMemberReturned,
    TopicsChanged,
    TransactionStands,
)
from kohort.broker.explain.observed.offsets import (
    NEW_OWNER_MS_MAX,
    removal_findings,
    set_findings,
    transaction_finding,
)
from kohort.broker.explain.observed.patterns import (
    POISON_MS_MAX,
    poison,
    run_finding,
    runs,
    same_instance,
    two_applications,
)
from kohort.broker.explain.words import duration

LOOK_BACK_MS = POISON_MS_MAX
"""No rule looks at changes that are older, except at the last one before."""
NEAR_MAX = 256
"""A change is compared with at most so many before it, and after it: a storm may have more in that time."""
LOOK_AHEAD_MS = RETURN_MS_MAX
"""No rule looks at changes that come later."""


class _Kinds(NamedTuple):
    """The events of a history by their kinds; `times` are those of the changes, in order."""

    changes: Sequence[GroupChanged]
    times: Sequence[int]
    topics: Sequence[TopicsChanged]
    coordinator_moves: Sequence[CoordinatorMoved]
    transactions: Sequence[TransactionStands]


def explain(events: Iterable[AnyObserved]) -> list[Explanation]:
    """Return what happened to one group, the oldest first; `events` has the oldest first, too."""
    history = tuple(events)
    changes = [each for each in history if isinstance(each, GroupChanged)]
    kinds = _Kinds(
        changes,
        [each.at_ms for each in changes],
        [each for each in history if isinstance(each, TopicsChanged)],
        [each for each in history if isinstance(each, CoordinatorMoved)],
        [each for each in history if isinstance(each, TransactionStands)],
    )
    told = _changes(kinds)
    returns: list[StaticMemberReturned] = []
    for each in history:
        if isinstance(each, StaticMemberReturned):
            told.append(_returned(each, returns))
            returns.append(each)
        elif isinstance(each, OffsetsRemoved):
            told.append(Explanation(each.at_ms, each.at_ms, in_order(removal_findings(each, kinds.topics))))
        elif isinstance(each, OffsetsSet):
            ended_ms = max(each.last_ms, each.at_ms)
            found = in_order(set_findings(each, _last_move(each.at_ms, changes, kinds.times)))
            told.append(Explanation(each.at_ms, ended_ms, found))
        elif isinstance(each, TransactionStands):
            told.append(Explanation(each.since_ms, each.at_ms, (transaction_finding(each),)))
        elif isinstance(each, CoordinatorMoved):
            told.append(_coordinator_moved(each))
    return with_endings(sorted(told, key=lambda each: each.started_ms), history)


def _last_move(at_ms: int, changes: Sequence[GroupChanged], times: Sequence[int]) -> GroupChanged | None:
    """Return the last change before this time by which partitions of members got other owners.

    A single member that was there before has them from nobody.
    """
    begin, end = bisect_left(times, at_ms - NEW_OWNER_MS_MAX), bisect_right(times, at_ms)
    moves = (
        each
        for each in reversed(changes[begin:end])
        if each.moved and each.former_members and (each.members > 1 or each.gone)
    )
    return next(moves, None)


def _changes(kinds: _Kinds) -> list[Explanation]:
    """Return the explanations of all changes."""
    changes = kinds.changes
    told: list[Explanation] = []
    begin = 0
    for run in runs(changes):
        found = [_change_findings(kinds, index) for index in range(begin, begin + len(run))]
        whole = run_finding(run, changes[max(begin - NEAR_MAX, 0) : begin])
        if whole is None:
            told += [_explanation([each], one) for each, one in zip(run, found, strict=True) if one]
        else:
            end = begin + len(run)
            later = changes[end : bisect_right(kinds.times, run[-1].at_ms + LOOK_AHEAD_MS)]
            ending = storm_ending(run, later) if whole.kind is FindingKind.STORM else None
            told.append(msgspec.structs.replace(_explanation(run, _together(whole, found)), ending=ending))
        begin += len(run)
    return told


def _change_findings(kinds: _Kinds, index: int) -> list[Finding]:
    """Return the findings of one change, the root cause first."""
    changes, times = kinds.changes, kinds.times
    change = changes[index]
    begin = min(bisect_left(times, change.at_ms - LOOK_BACK_MS), max(index - 1, 0))
    begin = max(begin, index - NEAR_MAX)
    end = min(bisect_right(times, change.at_ms + LOOK_AHEAD_MS), index + NEAR_MAX)
    earlier, later = changes[begin:index], changes[index + 1 : end]
    behind = [poison(change, earlier, kinds.transactions), two_applications(change, earlier)]
    found = change_findings(change, earlier, later, kinds.topics, kinds.coordinator_moves)
    return [*(each for each in behind if each is not None), *found]


def _together(whole: Finding, found: Sequence[Sequence[Finding]]) -> list[Finding]:
    """Return the findings of a run of changes: its cause, the run itself, and each kind of cause once."""
    every = [each for one in found for each in one]
    behind = [
        each
        for each in every
        if each.kind
        in {FindingKind.POISON_RECORD, FindingKind.TWO_APPLICATIONS, FindingKind.ASSIGNOR_CHANGED}
    ]
    kinds: dict[tuple[FindingKind, str], Finding] = {(each.kind, each.about): each for each in behind[-1:]}
    kinds[whole.kind, ""] = whole
    for each in reversed(every):
        if each.likelihood is not Likelihood.POSSIBLE:
            kinds.setdefault((each.kind, each.about), each)
    return list(kinds.values())


def _explanation(run: Sequence[GroupChanged], found: list[Finding]) -> Explanation:
    last = run[-1]
    missed = last.generation_id - run[0].former_generation_id - len(run)
    notes: tuple[str, ...] = ()
    if run[0].former_generation_id >= 0 and missed > 0 and not last.is_by_broker:
        notes = (f"{missed} more began and left no record: each began anew before it was over",)
    return Explanation(
        run[0].at_ms,
        last.at_ms,
        in_order(found),
        generation_id=last.generation_id,
        changes=len(run),
        members=last.members,
        protocol_name=last.protocol_name,
        moved=sum(each.moved for each in run),
        is_by_broker=last.is_by_broker,
        notes=notes,
    )


def _returned(event: StaticMemberReturned, earlier: Sequence[StaticMemberReturned]) -> Explanation:
    shared = same_instance(event, earlier)
    instance = event.member.group_instance_id or ""
    evidence = [f"its member id is another one in the same generation {event.generation_id}"]
    if event.former_client_host not in {"", event.member.client_host}:
        evidence.append(f"it came from {event.former_client_host.lstrip('/')} before")
    back = Finding(
        FindingKind.STATIC_MEMBER_RETURNED,
        Likelihood.CERTAIN,
        f"{instance} came back under its group.instance.id, restarted or elsewhere: nobody had to rebalance",
        tuple(evidence),
        instance,
    )
    found = in_order([back] if shared is None else [shared, back])
    return Explanation(event.at_ms, event.at_ms, found, generation_id=event.generation_id)


def _coordinator_moved(event: CoordinatorMoved) -> Explanation:
    gone = f", and broker {event.former_node_id} is not in the cluster" if event.is_former_gone else ""
    passed_ms = event.at_ms - (event.since_ms or event.at_ms)
    unseen = [f"the look before was {duration(passed_ms)} earlier"] if passed_ms > LOOK_MS_MAX else []
    finding = Finding(
        FindingKind.COORDINATOR_MOVED,
        Likelihood.CERTAIN,
        f"broker {event.node_id} coordinates the group instead of broker {event.former_node_id}",
        (f"it leads the group's partition of __consumer_offsets{gone}", *unseen),
    )
    return Explanation(event.at_ms, event.at_ms, (finding,))
