import msgspec
import pytest

from kohort.broker.explain.digest import digest, of_explanations
from kohort.broker.explain.findings import Explanation, FindingKind
from kohort.broker.explain.observed.events import (
    AnyObserved,
    OffsetMove,
    OffsetMovedOn,
    OffsetsSet,
    OwnedPartition,
    TopicsChanged,
)
from kohort.broker.explain.observed.explaining import explain
from kohort.broker.explain.observed.story import observed_story
from kohort.broker.explain.observed.test_explaining import NOW, changed, flapping, gone, member

STUCK = OwnedPartition("t", 3, 117, 400)
MINUTE, HOUR = 60_000, 3_600_000


def ending(*events: AnyObserved) -> str:
    told = explain(events)[0]
    return "" if told.ending is None else told.ending.text


def test_a_storm_ends_when_its_member_stays() -> None:
    events = flapping(4)
    told = explain(events)[0]
    assert told.findings[0].kind is FindingKind.STORM
    assert told.ending is not None
    assert (told.ending.at_ms, told.ending.text) == (
        events[-1].at_ms,
        "app-1 from 10.0.0.1 joined, and was not gone again",
    )


def test_a_storm_that_goes_on_within_minutes_has_no_end() -> None:
    later = changed(NOW + 4 * MINUTE, 30, gone=(gone("a", at_ms=NOW + 4 * MINUTE),))
    assert not ending(*flapping(4), later)


def test_a_storm_may_end_as_its_member_stays_away() -> None:
    assert ending(*flapping(4)[:-1]) == "app-1 from 10.0.0.1 was gone, and did not come back"
    back = changed(NOW + 4 * MINUTE, 30, joined=(member("late"),))
    assert ending(*flapping(4)[:-1], back) == "app-1 from 10.0.0.1 joined, and was not gone again"
    assert (
        ending(*flapping(4)[:-1], msgspec.structs.replace(flapping(4)[-1], members=0))
        == "the group had no member any more"
    )


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            OffsetMovedOn(
                at_ms=NOW + 5 * MINUTE, topic="t", partition=3, before=117, after=118, departures=4
            ),
            "the committed offset of t-3 moved on from 117 to 118: a reader got past that record, or "
            "skipped it",
        ),
        (
            OffsetsSet(
                at_ms=NOW + 5 * MINUTE, partitions=1, backward=0, moves=(OffsetMove("t", 3, 117, 300),)
            ),
            "the committed offset of t-3 was set from 117 to 300",
        ),
        (
            TopicsChanged(at_ms=NOW + 5 * MINUTE, since_ms=NOW + 4 * MINUTE, deleted=("t",)),
            "the topic t was deleted",
        ),
    ],
)
def test_a_standstill_ends_when_its_offset_moves(event: AnyObserved, text: str) -> None:
    told = explain([*flapping(4, (STUCK,)), event])
    assert told[0].findings[0].kind is FindingKind.POISON_RECORD
    assert told[0].ending is not None
    assert (told[0].ending.at_ms, told[0].ending.text) == (event.at_ms, text)
    assert any(line.startswith("  Then, at ") and text in line for line in observed_story(told[0]))
    again = explain(
        [*flapping(4, (STUCK,)), event, TopicsChanged(at_ms=event.at_ms + 1, since_ms=0, deleted=("t",))]
    )
    assert again[0].ending == told[0].ending  # It ends once.


def test_another_partition_that_moves_ends_nothing() -> None:
    other = OffsetMovedOn(at_ms=NOW + MINUTE, topic="t", partition=1, before=117, after=118, departures=4)
    assert ending(*flapping(4, (STUCK,)), other) == "app-1 from 10.0.0.1 joined, and was not gone again"


def page(told: list[Explanation]) -> list[str]:
    return [*digest("g", of_explanations(told), NOW)]


def test_the_page_says_what_ended_a_storm_or_that_it_is_not_known() -> None:
    later = changed(NOW + 4 * MINUTE, 30, gone=(gone("a", at_ms=NOW + 4 * MINUTE),))
    assert any(
        line.startswith("  Then, at ")
        and line.endswith(": app-1 from 10.0.0.1 joined, and was not gone again.")
        for line in page(explain(flapping(4)))
    )
    assert "  Nothing is known that ended it: it may go on." in page(explain([*flapping(4), later]))
    joined = changed(NOW + 4 * HOUR, 31, joined=(member("b", "app-2"),))
    assert "  Nothing is known that ended it." in page(explain([*flapping(4), later, joined]))
