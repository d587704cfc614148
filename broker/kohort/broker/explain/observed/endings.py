"""What ended a storm, or the standstill of a partition. Pure."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kohort.broker.explain.findings import Ending, Explanation, FindingKind
from kohort.broker.explain.observed.events import AnyObserved, OffsetMovedOn, OffsetsSet, TopicsChanged
from kohort.broker.explain.observed.patterns import Run, most_often_gone
from kohort.broker.explain.words import process_name


def storm_ending(run: Run, later: Run) -> Ending | None:
    """Return what ended a storm: the last thing that the process did which was gone most often.

    None if that process was gone again in `later`, the changes of the next minutes.
    """
    last = run[-1]
    if not last.members:
        return Ending(last.at_ms, "the group had no member any more")
    most = most_often_gone(run)
    if most is None:
        return None
    process, _ = most
    if any(each.member.process == process for change in later for each in change.gone):
        return None
    name = process_name(*process)
    for change in reversed((*run, *later)):
        if any(each.process == process for each in change.joined):
            return Ending(change.at_ms, f"{name} joined, and was not gone again")
        if any(each.member.process == process for each in change.gone):
            return Ending(change.at_ms, f"{name} was gone, and did not come back")
    return None


def with_endings(told: Sequence[Explanation], history: Iterable[AnyObserved]) -> list[Explanation]:
    """Return the explanations, with the ends of standstills. Both sequences have the oldest first."""
    found = [*told]
    standing: dict[str, int] = {}
    """The last explanation by each partition that has not moved since."""
    index = 0
    for event in history:
        while index < len(found) and found[index].started_ms <= event.at_ms:
            standing.update(dict.fromkeys(_stuck(found[index]), index))
            index += 1
        for where, text in _ends(event, standing):
            known = standing.pop(where, None)
            if known is not None:
                found[known] = msgspec.structs.replace(found[known], ending=Ending(event.at_ms, text))
    return found


def _stuck(told: Explanation) -> Iterator[str]:
    for each in told.findings:
        if each.kind is FindingKind.POISON_RECORD:
            yield from each.about.split(", ")


def _ends(event: AnyObserved, standing: Iterable[str]) -> list[tuple[str, str]]:
    """Return the partitions that stand still no longer, each with what happened."""
    if isinstance(event, OffsetMovedOn):
        where = f"{event.topic}-{event.partition}"
        before = f" from {event.before:,}" if event.before >= 0 else ""
        text = f"the committed offset of {where} moved on{before} to {event.after:,}"
        return [(where, f"{text}: a reader got past that record, or skipped it")]
    if isinstance(event, OffsetsSet):
        return [
            (where, f"the committed offset of {where} was set from {each.before:,} to {each.after:,}")
            for each in event.moves
            for where in (f"{each.topic}-{each.partition}",)
        ]
    if isinstance(event, TopicsChanged):
        gone = {topic: f"the topic {topic} was deleted" for topic in event.deleted}
        return [(where, gone[topic]) for where in standing if (topic := where.rpartition("-")[0]) in gone]
    return []
