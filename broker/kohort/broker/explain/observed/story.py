"""An explanation in lines that a person reads."""

from collections.abc import Iterator

from kohort.broker.explain.findings import Explanation, Finding, Likelihood
from kohort.broker.explain.story import clock_time

CAUSES_TOLD = 5


def observed_story(explanation: Explanation) -> Iterator[str]:
    """Yield the lines: when, the state of the group then, the causes with their evidence, moved
    partitions."""
    yield f"{clock_time(explanation.started_ms)}{_what(explanation)}"
    former: Finding | None = None
    for each in explanation.findings[:CAUSES_TOLD]:
        yield f"  {_word(each, former)} ({each.likelihood.value}): {each.text}."
        if former is None or each.evidence != former.evidence:
            yield from (f"    {fact}" for fact in each.evidence)
        former = each
    if len(explanation.findings) > CAUSES_TOLD:
        yield f"  And {len(explanation.findings) - CAUSES_TOLD} more."
    if explanation.changes:
        count = explanation.moved
        yield f"  {count} partition{'' if count == 1 else 's'} moved." if count else "  No partition moved."
    yield from (f"  {each[0].upper()}{each[1:]}." for each in explanation.notes)
    if explanation.ending is not None:
        yield f"  Then, at {clock_time(explanation.ending.at_ms)}: {explanation.ending.text}."


def _what(explanation: Explanation) -> str:
    if explanation.generation_id < 0:
        return ""
    kind = "epoch" if explanation.is_by_broker else "generation"
    told = f"  {kind} {explanation.generation_id}"
    if not explanation.changes:
        return told
    if explanation.changes > 1:
        told += f", the last of {explanation.changes} until {clock_time(explanation.ended_ms)}"
    count = explanation.members
    told += f": {count} member{'' if count == 1 else 's'}"
    return f"{told}, {explanation.protocol_name}" if explanation.protocol_name else told


def _word(finding: Finding, former: Finding | None) -> str:
    """Return the relation of a finding to the one before it: its cause, a further one, or an alternative."""
    if former is None:
        return "Cause"
    is_other_reading = finding.likelihood is Likelihood.POSSIBLE and finding.about == former.about
    return "Or" if is_other_reading and former.likelihood is Likelihood.POSSIBLE else "And"
