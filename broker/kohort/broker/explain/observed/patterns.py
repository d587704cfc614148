"""What several changes of a group are together: a deployment, a storm, a start, a poison record."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

import msgspec

from kohort.broker.explain.findings import Finding, FindingKind, Likelihood
from kohort.broker.explain.observed.departures import RETURN_MS_MAX, may_have_expired
from kohort.broker.explain.observed.events import (
    Departure,
    GroupChanged,
    OwnedPartition,
    StaticMemberReturned,
    Subscribers,
    TransactionStands,
)
from kohort.broker.explain.words import duration, process_name

QUIET_MS = 60_000
"""A change belongs to the one before it when it comes sooner than this."""
START_QUIET_MS = 15_000
STORM_CHANGES_MIN = 4
START_UP_CHANGES_MIN = 3
REPLACED_MIN = 2
POISON_DEPARTURES, POISON_DEPARTURES_MAX = 3, 50
POISON_MS_MAX = 1_800_000
POISON_PARTITIONS_MAX = 2
STUCK_MAX = 16
PARTITIONS_TOLD = 4
MARKERS_MAX = 2
"""Ends of transactions before the last stable offset, which a client need not count as read."""
INSTANCE_MS_MAX = 600_000
INSTANCE_RETURNS = 3
RESTART_MS_MIN = 1_000
"""No process ends and starts again as soon as this: the former one ran when it was taken over."""
_POD = "[bcdfghjklmnpqrstvwxz2456789]"
"""The letters of which Kubernetes makes the names of pods."""
_NUMBERED = re.compile(rf"[-_.]?([0-9a-f]{{8}}-[0-9a-f-]{{27}}|(?<=-){_POD}{{6,10}}-{_POD}{{5}}|\d+)$")

Run = Sequence[GroupChanged]


def runs(changes: Run) -> Iterator[list[GroupChanged]]:
    """Yield the changes that follow each other without a pause; how a group came up is a run by itself."""
    run: list[GroupChanged] = []
    for each in changes:
        if run and _is_apart(each, run):
            yield from _from_first_departure(run)
            run = []
        run.append(each)
    yield from _from_first_departure(run)


def _from_first_departure(run: list[GroupChanged]) -> Iterator[list[GroupChanged]]:
    """Yield a run in two parts: deployments and storms begin when the first member is gone."""
    first = next((index for index, each in enumerate(run) if each.gone), 0)
    yield from (part for part in (run[:first], run[first:]) if part)


def _is_apart(change: GroupChanged, run: Run) -> bool:
    passed_ms = change.at_ms - run[-1].at_ms
    if _is_start(run):
        return passed_ms >= START_QUIET_MS or not _only_joins(change)
    return passed_ms >= QUIET_MS


def run_finding(run: Run, earlier: Run) -> Finding | None:
    """Return the finding for a run as a whole, None if its changes have nothing in common."""
    if _is_start(run):
        is_long = sum(bool(each.joined) for each in run) >= START_UP_CHANGES_MIN
        return _start(run) if is_long and not _were_there(run, earlier) else None
    return _deployment(run) or _storm(run)


def _is_start(run: Run) -> bool:
    return not run[0].former_members and all(_only_joins(each) for each in run)


def _were_there(run: Run, earlier: Run) -> bool:
    """Whether members of this run were members a while before: they may have lost their sessions alone."""
    began_ms = run[0].at_ms
    recent = takewhile(lambda each: began_ms - each.at_ms <= RETURN_MS_MAX, reversed(earlier))
    gone = {departure.member.process for each in recent for departure in each.gone}
    return any(member.process in gone for each in run for member in each.joined)


def _only_joins(change: GroupChanged) -> bool:
    """Whether members came and nothing else happened; the second step of a cooperative rebalance is part."""
    has_more = any(each.before for each in change.grown)  # Else the leader learns of the topics as it starts.
    has_other_topics = change.is_metadata_changed and not change.joined
    return not (change.gone or change.resubscribed or has_more or has_other_topics)


def _span(run: Run) -> str:
    return duration(run[-1].at_ms - run[0].at_ms)


def _start(run: Run) -> Finding:
    members = sum(len(each.joined) for each in run)
    text = f"{members} members started one by one: {len(run)} rebalances within {_span(run)}"
    evidence = (
        "the group had no member before, none of these was one lately, and nobody left",
        _numbers(run),
    )
    # Members of an older group may have been cut off for long instead.
    sure = Likelihood.CERTAIN if run[0].former_generation_id < 0 else Likelihood.LIKELY
    return Finding(FindingKind.STARTED_ONE_BY_ONE, sure, text, evidence)


def _deployment(run: Run) -> Finding | None:
    """Return that the members of an application were replaced, each of them once."""
    members = run[0].former_members
    joined = {each.member_id for change in run for each in change.joined}
    gone = [each.member for change in run for each in change.gone]
    replaced = min(len(gone), len(joined))
    is_once = len(gone) <= members + 1 and abs(len(gone) - len(joined)) <= 1
    if replaced < REPLACED_MIN or 2 * replaced < members or not is_once:
        return None
    if any(each.member_id in joined for each in gone):
        return None
    stems = Counter(_stem(each.client_id) for each in gone)
    returned = Counter(_stem(each.client_id) for change in run for each in change.joined)
    if (stems & returned).total() < replaced:
        return None
    text = f"a rolling deployment: {replaced} of {members} members were replaced within {_span(run)}"
    evidence = (
        "as many members of the same client ids came as had gone, and none of them is gone again",
        _numbers(run),
    )
    is_sure = len(run) > 1 and 2 * sum(may_have_expired(*each) for each in _departures(run)) < len(gone)
    sure = Likelihood.LIKELY if is_sure else Likelihood.POSSIBLE
    return Finding(FindingKind.ROLLING_DEPLOYMENT, sure, text, evidence, ", ".join(sorted(stems)))


def _departures(run: Run) -> Iterator[tuple[GroupChanged, Departure]]:
    return ((change, departure) for change in run for departure in change.gone)


def _storm(run: Run) -> Finding | None:
    """Return that members come and go again and again."""
    departures = sum(bool(each.gone) for each in run)
    most = most_often_gone(run)
    if len(run) < STORM_CHANGES_MIN or departures < REPLACED_MIN or most is None or most[1] < REPLACED_MIN:
        return None
    process, times = most
    text = f"a rebalance storm: {len(run)} rebalances within {_span(run)}"
    evidence = (
        f"{process_name(*process)} was gone {times} times, the most of all",
        _numbers(run),
    )
    return Finding(FindingKind.STORM, Likelihood.CERTAIN, text, evidence, process[0])


def most_often_gone(run: Run) -> tuple[tuple[str, str], int] | None:
    """Return the client id and host of the process that was gone the most, and how often.

    A process that never joined does not count: an application shrinks, and its members end one by one.
    """
    joined = {each.process for change in run for each in change.joined}
    return next((each for each in times_gone(run).most_common() if each[0] in joined), None)


def times_gone(changes: Iterable[GroupChanged]) -> Counter[tuple[str, str]]:
    """Return how often each process was gone, by client id and host.

    It counts again only after it has come back: a process may have several members, which end one by one.
    """
    times: Counter[tuple[str, str]] = Counter()
    away: set[tuple[str, str]] = set()
    for change in changes:
        gone = {each.member.process for each in change.gone} - away
        times.update(gone)
        away = (away | gone) - {each.process for each in change.joined}
    return times


def _numbers(run: Run) -> str:
    kind = "group epochs" if run[-1].is_by_broker else "generations"
    return f"{kind} {run[0].generation_id} to {run[-1].generation_id}"


def two_applications(change: GroupChanged, earlier: Run) -> Finding | None:
    """Return that members of different applications share the group, where that is new with this change."""
    pair = _strangers(change.subscribers)
    if pair is None or (earlier and _strangers(earlier[-1].subscribers) is not None):
        return None
    evidence = tuple(
        f"{each.members} of {', '.join(each.client_ids)} subscribe to {', '.join(each.topics)}"
        for each in pair
    )
    text = "two applications use one group.id: each gets partitions, and every member waits for both"
    about = ", ".join(pair[1].client_ids)
    is_apart = set(pair[0].topics).isdisjoint(pair[1].topics)
    sure = Likelihood.LIKELY if is_apart else Likelihood.POSSIBLE  # Else they may change what they read.
    return Finding(FindingKind.TWO_APPLICATIONS, sure, text, evidence, about)


def _strangers(subscribers: Sequence[Subscribers]) -> tuple[Subscribers, Subscribers] | None:
    """Return two sets of members that share neither subscription nor client ids."""
    for index, one in enumerate(subscribers):
        stems = {_stem(each) for each in one.client_ids}
        for other in subscribers[index + 1 :]:
            if stems.isdisjoint(_stem(each) for each in other.client_ids):
                return one, other
    return None


def poison(
    change: GroupChanged, earlier: Run, transactions: Sequence[TransactionStands] = ()
) -> Finding | None:
    """Return the partitions that lose one member after another, while their offsets do not move.

    A reader of committed records waits at an open transaction, and its offset stands still as well.
    """
    recent = [each for each in (*earlier, change) if change.at_ms - each.at_ms <= POISON_MS_MAX]
    every = [(each, departure) for each in recent for departure in each.gone]
    gone = every[-POISON_DEPARTURES:]
    if not change.gone or len(gone) < POISON_DEPARTURES:
        return None
    stuck = set.intersection(*(_offsets(departure) for _, departure in gone))
    stuck -= {(*_place(each), each.offset) for each in gone[-1][1].owned if each.is_read}
    before = every[-POISON_DEPARTURES_MAX:-POISON_DEPARTURES]
    for earlier_one in reversed(before):  # What stood still the longest.
        longer = stuck & _offsets(earlier_one[1])
        if not longer:
            break
        stuck, gone = longer, [earlier_one, *gone]
    has_advanced = any(each.advanced for each in recent if each.at_ms > gone[0][0].at_ms)
    if not stuck or len(stuck) > STUCK_MAX or not has_advanced:
        return None
    found = _poisoned(sorted(stuck), gone, is_handed_on=_is_handed_on(recent, gone))
    offsets = {(topic, partition): offset for topic, partition, offset in stuck}
    for each in transactions:
        offset = offsets.get((each.topic, each.partition))
        if offset is not None and each.since_ms <= change.at_ms and waits_at(each.last_stable_offset, offset):
            where = f"{each.topic}-{each.partition}"
            evidence = f"a transaction on {where} stayed open just there, at which readers may wait"
            return msgspec.structs.replace(
                found, likelihood=Likelihood.POSSIBLE, evidence=(*found.evidence, evidence)
            )
    return found


def waits_at(last_stable_offset: int, offset: int) -> bool:
    """Whether a group with this committed offset has read all up to the last stable offset."""
    return 0 <= last_stable_offset - offset <= MARKERS_MAX


def _offsets(departure: Departure) -> set[tuple[str, int, int]]:
    return {(each.topic, each.partition, each.offset) for each in departure.owned}


def _is_handed_on(recent: Run, gone: Sequence[tuple[GroupChanged, Departure]]) -> bool:
    """Whether they may have left in turn, each once, before they had committed anything of a partition.

    In a deployment the same partition may go to one after the other of the members that are about to end.
    """
    often = Counter(departure.member.process for each in recent for departure in each.gone)
    is_once = all(often[departure.member.process] == 1 for _, departure in gone)
    return is_once and not any(may_have_expired(*each) for each in gone)


def _poisoned(
    stuck: Sequence[tuple[str, int, int]],
    gone: Sequence[tuple[GroupChanged, Departure]],
    *,
    is_handed_on: bool,
) -> Finding:
    """Return the finding. Many stalled partitions may also be those of one broken process."""
    ends = {_place(each): each.end_offset for each in gone[-1][1].owned}
    is_behind = any(ends[topic, partition] > offset for topic, partition, offset in stuck)
    is_narrow = len(stuck) <= POISON_PARTITIONS_MAX
    processes = {departure.member.process for _, departure in gone}
    passed = duration(gone[-1][0].at_ms - gone[0][0].at_ms)
    told = ", ".join(f"{topic}-{partition}" for topic, partition, _ in stuck[:PARTITIONS_TOLD])
    where = told if len(stuck) == 1 else f"one of {told}"
    evidence = [
        f"the {len(gone)} members that were gone in the last {passed} all owned {told}",
        *(
            _stood_still(f"{topic}-{partition}", offset, ends[topic, partition])
            for topic, partition, offset in stuck[:PARTITIONS_TOLD]
        ),
        "offsets of other partitions moved meanwhile",
    ]
    if len(processes) > 1:
        evidence.append(f"they were {len(processes)} different processes")
    is_likely = is_behind and (is_narrow or len(processes) > 1) and not is_handed_on
    return Finding(
        FindingKind.POISON_RECORD,
        Likelihood.LIKELY if is_likely else Likelihood.POSSIBLE,
        f"a record of {where} stops its readers",
        tuple(evidence),
        told,
    )


def _stood_still(where: str, offset: int, end_offset: int) -> str:
    """Return the offset, and whether records were left: it stands still as well if there are none to read."""
    left = f"; there were records to read up to {end_offset - 1:,}" if end_offset > max(offset, 0) else ""
    if offset < 0:
        return f"no offset of {where} was committed{left}"
    return f"the committed offset of {where} was {offset:,} each time{left}"


def _place(owned: OwnedPartition) -> tuple[str, int]:
    return owned.topic, owned.partition


def same_instance(event: StaticMemberReturned, earlier: Sequence[StaticMemberReturned]) -> Finding | None:
    """Return the finding that a group.instance.id changes its process so often that two must have it."""
    instance = event.member.group_instance_id or ""
    recent = takewhile(lambda each: event.at_ms - each.at_ms <= INSTANCE_MS_MAX, reversed(earlier))
    former = [each for each in recent if each.member.group_instance_id == instance]
    times = len(former) + 1
    if times < INSTANCE_RETURNS:
        return None
    within = duration(event.at_ms - former[-1].at_ms)
    text = f"two processes use the group.instance.id {instance}: each fences the other"
    evidence = [f"it was taken over {times} times within {within}"]
    alive = sum(_is_taken_over(each) for each in (event, *former))
    if alive:
        evidence.append(f"the former process had committed within a second before {alive} of these times")
    hosts = [each.member.client_host for each in (event, *former)]
    is_to_and_fro = hosts[0] in hosts[2:] and len(set(hosts)) > 1
    if is_to_and_fro:
        evidence.append(f"it went to and fro between {' and '.join(sorted(_addresses(hosts)))}")
    is_sure = is_to_and_fro or 2 * alive > times
    sure = Likelihood.LIKELY if is_sure else Likelihood.POSSIBLE  # Else one process may end again and again.
    return Finding(FindingKind.SAME_INSTANCE, sure, text, tuple(evidence), instance)


def _addresses(hosts: Iterable[str]) -> set[str]:
    return {each.lstrip("/") for each in hosts}


def _is_taken_over(event: StaticMemberReturned) -> bool:
    """Whether the former process committed until then."""
    return event.at_ms - event.former_commit_ms < RESTART_MS_MIN


def _stem(client_id: str) -> str:
    """Return a client id without what numbers the processes of one application."""
    return _NUMBERED.sub("", client_id)
