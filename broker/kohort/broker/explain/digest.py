"""The history of a group over hours or days in one page: important events in full, others in one line each.

Events of a group with less than ten minutes between are one chapter. A chapter is described by the cause that
explains most of it: a cause of many rebalances comes before each of them, and a member that left
before the one that joined for it.

All counts are of rebalances, each with its first cause, so that those of a chapter and of the page add up.
What happened without a rebalance is told beside them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from kohort.broker.explain.advice import Advice
from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.findings import Ending, Explanation, Finding, FindingKind, Likelihood
from kohort.broker.explain.story import cause_words, clock_time, time_zones
from kohort.broker.explain.words import duration
from kohort.broker.group.events import CauseKind

QUIET_MS = 600_000
PAGE_LINES = 60
TOLD_IN_FULL, TOLD_IN_FULL_MAX = 3, 4
LINES_MIN, LINES_MAX = 4, 24
"""How many chapters have a line each, depending on the room on the page. The smallest are only counted."""
EVIDENCE_TOLD = 4
OTHERS_TOLD = 4
ADVICE_TOLD = 3
HOURS_MIN = 2
CHANGES_MIN = 3
_UNSURE, _CONSEQUENCE = 4, 5

_BEHIND = {FindingKind.POISON_RECORD, FindingKind.TWO_APPLICATIONS, FindingKind.SAME_INSTANCE}
_GOES_ON = {FindingKind.POISON_RECORD.value, FindingKind.STORM.value}
_WHOLE = {FindingKind.STORM, FindingKind.ROLLING_DEPLOYMENT, FindingKind.STARTED_ONE_BY_ONE}
_FOLLOWS = {
    FindingKind.MEMBER_JOINED.value,
    FindingKind.MEMBER_REJOINED.value,
    FindingKind.LEADER_REJOINED.value,
    FindingKind.OWNERSHIP_CHANGED.value,
    FindingKind.COORDINATOR_MOVED.value,
    CauseKind.STATIC_MEMBER_REPLACED.value,
}
"""What most often is the consequence of something else."""
_NAMES_MEMBERS = {
    each.value
    for each in (
        *(FindingKind.MEMBER_JOINED, FindingKind.MEMBER_LEFT, FindingKind.MEMBER_EXPIRED),
        *(FindingKind.POLL_INTERVAL_EXCEEDED, FindingKind.MEMBER_REJOINED, FindingKind.LEADER_REJOINED),
        *(CauseKind.MEMBER_DID_NOT_SYNC, CauseKind.MEMBER_DID_NOT_COME, CauseKind.SUBSCRIPTION_CHANGED),
    )
}
"""Kinds whose text has the name of a member."""
_NAMES = (
    "",
    "Names of members: group.instance.id, or client id and 8 digits of the member id, new at each start.",
)


class Entry(NamedTuple):
    """One event: its kind as text, its cause, and the evidence."""

    started_ms: int
    ended_ms: int
    changes: int
    kind: str
    text: str
    evidence: tuple[str, ...]
    rank: int
    """A smaller number explains more of the events around it."""
    likelihood: str = ""
    about: str = ""
    advice: tuple[str, ...] = ()
    ending: Ending | None = None


def of_explanations(explanations: Iterable[Explanation]) -> list[Entry]:
    """Return what an observer says happened."""
    return [
        Entry(
            each.started_ms,
            each.ended_ms,
            each.changes,
            first.kind.value,
            first.text,
            first.evidence,
            _rank(first),
            first.likelihood.value,
            first.about,
            ending=each.ending,
        )
        for each in explanations
        for first in each.findings[:1]
    ]


def of_reports(told: Iterable[tuple[RebalanceReport, Sequence[Advice]]]) -> list[Entry]:
    """Return the rebalances that a broker has reported."""
    return [
        Entry(
            report.started_ms,
            report.started_ms + report.still_ms,
            1,
            report.cause.kind.value,
            cause_words(report.cause),
            (f"the rebalance took {duration(report.still_ms)}",),
            _CONSEQUENCE if report.cause.kind.value in _FOLLOWS else 2,
            about=report.cause.group_instance_id or report.cause.client_id,
            advice=tuple(each.text for each in advice),
        )
        for report, advice in told
    ]


def _rank(finding: Finding) -> int:
    if finding.likelihood is Likelihood.POSSIBLE:
        return _UNSURE
    if finding.kind in _BEHIND:
        return 0
    if finding.kind in _WHOLE:
        return 1
    return _CONSEQUENCE if finding.kind.value in _FOLLOWS else 2


class Chapter(NamedTuple):
    """Entries without a pause between them, and the one that describes them."""

    entries: Sequence[Entry]
    head: Entry

    @property
    def started_ms(self) -> int:
        """When the first began."""
        return self.entries[0].started_ms

    @property
    def ended_ms(self) -> int:
        """When the last was over."""
        return max(each.ended_ms for each in self.entries)

    @property
    def changes(self) -> int:
        """How many rebalances it has."""
        return sum(each.changes for each in self.entries)


def chapters(entries: Iterable[Entry]) -> list[Chapter]:
    """Return the entries in chapters, the oldest first."""
    found: list[list[Entry]] = []
    for each in sorted(entries, key=lambda one: one.started_ms):
        if not found or each.started_ms - found[-1][-1].ended_ms > QUIET_MS:
            found.append([])
        found[-1].append(each)
    return [Chapter(each, _head(each)) for each in found]


def _head(entries: Sequence[Entry]) -> Entry:
    """Return the entry that explains most, the newest of its kind."""
    weights: Counter[str] = Counter()
    ranks: dict[str, int] = {}
    for each in entries:
        weights[each.kind] += max(each.changes, 1)
        ranks[each.kind] = min(ranks.get(each.kind, each.rank), each.rank)
    kind = min(weights, key=lambda one: (ranks[one], -weights[one]))
    return [each for each in entries if each.kind == kind and each.rank == ranks[kind]][-1]


def digest(group_id: str, entries: Sequence[Entry], since_ms: int) -> Iterator[str]:
    """Yield the lines of one page."""
    every = chapters(entries)
    rebalances = sum(each.changes for each in every)
    zones = time_zones(since_ms, *(at_ms for each in every for at_ms in (each.started_ms, each.ended_ms)))
    yield f"{group_id} since {clock_time(since_ms)} ({zones}): {_count(rebalances, 'rebalance')}."
    if not every:
        yield "  Nothing has happened since."
        return
    top = [*_most(every, rebalances), *_hours(entries), *(_causes(entries) if len(every) > 1 else ())]
    yield from top
    full = {
        id(each): [*_in_full(each, rebalances), *_ending(each, is_last=each is every[-1])]
        for each in _outstanding(every)
    }
    others = sorted((each for each in every if id(each) not in full), key=_weight, reverse=True)
    names = _NAMES if any(each.kind in _NAMES_MEMBERS for each in entries) else ()
    room = PAGE_LINES - len(top) - sum(len(lines) + 2 for lines in full.values()) - len(names) - 3
    kept = {id(each) for each in others[: min(max(room, LINES_MIN), LINES_MAX)]}
    dropped = [each for each in others if id(each) not in kept]
    is_apart = True
    for each in every:
        if id(each) in full:
            yield ""
            yield from full[id(each)]
            is_apart = True
        elif id(each) in kept:
            if is_apart:
                yield ""
            yield _line(each)
            is_apart = False
    if dropped:
        changes = sum(each.changes for each in dropped)
        are = "is" if len(dropped) == 1 else "are"
        yield f"And {len(dropped)} more that {are} not shown, with {_count(changes, 'rebalance')}."
    yield from names


def _most(every: Sequence[Chapter], rebalances: int) -> Iterator[str]:
    """Yield a line about the chapter that has at least half of the rebalances, if there are others."""
    largest = max(every, key=lambda each: each.changes)
    if len(every) > 1 and largest.changes >= CHANGES_MIN and 2 * largest.changes >= rebalances:
        head = largest.head
        sure = f" ({head.likelihood})" if head.likelihood else ""
        yield f"  Most of it, {_span(largest)}: {head.text}{sure}."


def _weight(chapter: Chapter) -> int:
    """Return the rebalances of a chapter; a sure cause without any counts as CHANGES_MIN."""
    return chapter.changes or (CHANGES_MIN if chapter.head.rank < _UNSURE else 0)


def _outstanding(every: Sequence[Chapter]) -> list[Chapter]:
    """Return the chapters that are described in full: the largest, and those without a rebalance."""
    if len(every) <= TOLD_IN_FULL:
        return list(every)
    large = [each for each in every if each.changes >= CHANGES_MIN]
    without = [each for each in every if not each.changes and each.head.rank < _UNSURE]
    largest = sorted(large, key=lambda each: (-each.changes, each.head.rank))[:TOLD_IN_FULL]
    return largest + without[: TOLD_IN_FULL_MAX - len(largest)]


def _causes(entries: Sequence[Entry], head: Entry | None = None) -> Iterator[str]:
    """Yield the causes of all rebalances, and what happened without one.

    `head`: the cause that describes a chapter. Its line names the clients or partitions that it concerns.
    """
    names = {} if head is None else {head.kind: f"{head.kind}{_concerned(entries, head.kind)}"}
    causes: Counter[str] = Counter()
    for each in entries:
        causes[names.get(each.kind, each.kind)] += each.changes
    if causes.total():
        yield f"  Rebalances by cause: {_most_common(+causes, '; ')}."
    without = Counter(each.kind for each in entries if not each.changes)
    if without:
        yield f"  Without a rebalance: {_most_common(without, '; ')}."


def _concerned(entries: Sequence[Entry], kind: str) -> str:
    """Return in brackets what a cause concerns, with counts if there are several; empty if nothing."""
    about: Counter[str] = Counter()
    for each in entries:
        if each.kind == kind and each.about:
            about[each.about] += each.changes
    if not about:
        return ""
    return f" ({next(iter(about)) if len(about) == 1 else _most_common(about, ', ')})"


def _most_common(counts: Counter[str], separator: str) -> str:
    """Return the most frequent with their counts, and the sum of the others."""
    most = counts.most_common(OTHERS_TOLD)
    told = [f"{name} {count}" for name, count in most]
    left = counts.total() - sum(count for _, count in most)
    return separator.join([*told, f"others {left}"] if left else told)


def _hours(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield how many rebalances began in each hour, if that is informative."""
    hours: Counter[str] = Counter()
    for each in entries:
        if each.changes:
            at = datetime.fromtimestamp(each.started_ms / 1_000).astimezone()
            hours[at.strftime("%m-%d %H:00")] += each.changes
    if len(hours) >= HOURS_MIN:
        most = sorted(hours, key=lambda hour: -hours[hour])[: 2 * OTHERS_TOLD]
        begin = 0 if len({hour[:5] for hour in hours}) > 1 else 6  # The date, where there are several.
        told = ", ".join(f"{hour[begin:]} {hours[hour]}" for hour in sorted(most))
        left = hours.total() - sum(hours[hour] for hour in most)
        more = f", in {_count(len(hours) - len(most), 'other hour')} {left}" if left else ""
        yield f"  Rebalances by the hour: {told}{more}."


def _in_full(chapter: Chapter, rebalances: int) -> Iterator[str]:
    head = chapter.head
    share = f" ({100 * chapter.changes // rebalances} % of all)" if chapter.changes and rebalances else ""
    what = f"  {_count(chapter.changes, 'rebalance')}{share}" if chapter.changes else ""
    yield f"{_span(chapter)}{what}"
    sure = f" ({head.likelihood})" if head.likelihood else ""
    yield f"  Cause{sure}: {head.text}."
    is_repeated = sum(each.kind == head.kind for each in chapter.entries) > 1
    if is_repeated and head.evidence:
        yield f"    when it was seen last, at {_clock(head.started_ms, chapter.started_ms)}:"
    yield from (f"    {each}" for each in head.evidence[:EVIDENCE_TOLD])
    if len(chapter.entries) > 1:
        yield from _causes(chapter.entries, head)
    advice = dict.fromkeys(text for each in chapter.entries for text in each.advice)
    yield from (f"  What to change: {text}" for text in [*advice][-ADVICE_TOLD:])


def _ending(chapter: Chapter, *, is_last: bool) -> Iterator[str]:
    """Yield what ended a chapter that has a cause which goes on until something ends it."""
    if chapter.head.kind not in _GOES_ON or chapter.head.rank == _UNSURE:
        return
    endings = [each.ending for each in chapter.entries if each.ending is not None]
    if endings:
        last = max(endings, key=lambda each: each.at_ms)
        yield f"  Then, at {_clock(last.at_ms, chapter.started_ms)}: {last.text}."
    else:
        yield f"  Nothing is known that ended it{': it may go on' if is_last else ''}."


def _line(chapter: Chapter) -> str:
    head = chapter.head
    sure = f" ({head.likelihood})" if head.likelihood else ""
    count = f"  {_count(chapter.changes, 'rebalance')}:" if chapter.changes > 1 else " "
    return f"{_span(chapter)}{count} {head.text}{sure}"


def _span(chapter: Chapter) -> str:
    begin, end = clock_time(chapter.started_ms), _clock(chapter.ended_ms, chapter.started_ms)
    return begin if begin.endswith(end) else f"{begin} to {end}"


def _clock(at_ms: int, day_ms: int) -> str:
    """Return the local time, with the date if that is another one than that of `day_ms`."""
    date, _, clock = clock_time(at_ms).partition(" ")
    return clock if clock_time(day_ms).startswith(date) else f"{date} {clock}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
