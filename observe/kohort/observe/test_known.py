from collections.abc import Iterator

import msgspec
import pytest

from kohort.broker.explain.findings import Explanation
from kohort.broker.explain.observed.events import (
    AnyObserved,
    GroupChanged,
    OffsetMovedOn,
    OwnedPartition,
    TopicsChanged,
    TransactionStands,
)
from kohort.broker.explain.observed.explaining import explain
from kohort.broker.explain.observed.test_explaining import NOW as LIVED
from kohort.broker.explain.observed.test_explaining import flapping
from kohort.observe.known import EVENTS_MAX, explained
from kohort.observe.observer import Observer
from kohort.observe.pages import Pages
from kohort.observe.store import CLUSTER_WIDE, GroupNews, Store
from kohort.observe.test_day import HOUR, MIDNIGHT, MINUTE, Day, stormy_day

DAY = 24 * HOUR


@pytest.fixture
def observer(observer: Observer) -> Observer:
    observer.watched.status.cluster_id = "c"
    observer.watched.status.is_caught_up = True
    return observer


def stored(observer: Observer, events: list[AnyObserved], group_id: str = "g") -> None:
    store = Store(observer.store_path)
    store.save("c", {}, [GroupNews(group_id, b"", events)])
    store.close()


def changes(count: int, every_ms: int, *, at_once: int = 1) -> list[AnyObserved]:
    return [
        GroupChanged(
            at_ms=MIDNIGHT + every_ms * (each // at_once),
            generation_id=each + 1,
            former_generation_id=each,
            members=2,
        )
        for each in range(count)
    ]


def pages(observer: Observer, most: int, since_ms: int = 0) -> Iterator[list[Explanation]]:
    found = explained(observer, "g", since_ms, most=most)
    yield found.told
    while found.begins_ms is not None:
        found = explained(observer, "g", since_ms, found.begins_ms, most=most)
        yield found.told


def days(observer: Observer, count: int) -> list[AnyObserved]:
    """Store some days with a storm in each, and return the events."""
    day = Day(observer)
    stormy_day(day, 7)
    once = day.store.events("c", "g", most=10_000)
    day.store.close()
    before = [
        msgspec.structs.replace(each, at_ms=each.at_ms - number * DAY)
        for number in range(1, count)
        for each in once
    ]
    before.sort(key=lambda each: each.at_ms)
    stored(observer, before)
    return [*before, *once]


def test_a_history_of_large_events_is_read_in_more_parts(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.observe.store.EVENTS_BYTES_MAX", 1_000)
    stored(observer, changes(200, 5 * MINUTE))
    parts = [*pages(observer, 10_000)]
    assert len(parts) > 10
    assert sum(each.changes for part in parts for each in part) == 200


@pytest.mark.parametrize("most", [70, 100, 10_000])
def test_parts_of_a_history_are_together_the_whole(observer: Observer, most: int) -> None:
    events = days(observer, 4)
    parts = [*pages(observer, most)]
    assert len(parts) > len(events) // most
    assert [each for part in reversed(parts) for each in part] == explain(events)
    later = [*pages(observer, most, MIDNIGHT)]
    assert [each for part in reversed(later) for each in part] == [
        each for each in explain(events) if each.ended_ms >= MIDNIGHT
    ]


def test_a_storm_of_more_events_than_are_explained_at_once_is_told_in_pieces(observer: Observer) -> None:
    stored(observer, changes(1_000, 500, at_once=3))
    parts = [*pages(observer, 100)]
    assert len(parts) in range(10, 13)
    assert sum(each.changes for part in parts for each in part) == 1_000


def test_a_transaction_that_began_long_before_is_told_once(observer: Observer) -> None:
    stands = TransactionStands(
        at_ms=MIDNIGHT + 10 * HOUR,
        since_ms=MIDNIGHT,
        topic="t",
        partition=0,
        last_stable_offset=1,
        end_offset=9,
    )
    stored(observer, [*changes(200, 5 * MINUTE), stands])
    told = [each for part in pages(observer, 20) for each in part]
    assert sum(each.started_ms == MIDNIGHT and not each.changes for each in told) == 1
    assert sum(each.changes for each in told) == 200


def test_topics_that_change_just_after_a_part_end_no_standstill_that_was_over(observer: Observer) -> None:
    until_ms = LIVED + HOUR // 2
    moved = OffsetMovedOn(
        at_ms=until_ms + MINUTE, topic="t", partition=3, before=117, after=118, departures=4
    )
    deleted = TopicsChanged(at_ms=until_ms + 2 * MINUTE, since_ms=until_ms + MINUTE, deleted=("t",))
    storm = flapping(4, (OwnedPartition("t", 3, 117, 400),))
    stored(observer, [*storm, moved])
    stored(observer, [deleted], CLUSTER_WIDE)
    (told,) = explained(observer, "g", until_ms=until_ms).told
    assert [told] == explain([*storm, moved, deleted])
    assert told.ending is not None
    assert told.ending.at_ms == moved.at_ms


def test_one_question_explains_a_bounded_number_of_events(observer: Observer) -> None:
    now_ms = MIDNIGHT + DAY
    stored(observer, changes(3 * EVENTS_MAX, 10_000))
    site = Pages(observer, lambda: now_ms)

    class Told(msgspec.Struct):
        observed: list[Explanation]
        explained_since_ms: int | None

    def told(query: str) -> Told:
        return msgspec.json.decode(site.page(f"/api/v1/groups/g{query}").body, type=Told)

    first = told("?since_ms=1")
    assert sum(each.changes for each in first.observed) <= EVENTS_MAX
    assert first == told("")
    second = told(f"?since_ms=1&until_ms={first.explained_since_ms}")
    assert second.observed[-1].ended_ms < first.observed[0].started_ms
    assert site.page("/api/v1/groups/g?until_ms=soon").status == 400
