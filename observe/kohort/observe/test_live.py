"""The views of the live page: of a day lived in simulated time, and of clusters of which little is known."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import msgspec
import pytest

from kohort.broker.explain.findings import Explanation
from kohort.broker.explain.observed.events import AnyObserved, GroupChanged, TopicsChanged
from kohort.broker.explain.observed.explaining import LOOK_BACK_MS, explain
from kohort.broker.explain.story import time_zones
from kohort.client import PartitionInfo, TopicDescription
from kohort.client.values import Node
from kohort.observe import known
from kohort.observe.alerting import Alerting
from kohort.observe.brokers import counted
from kohort.observe.facts import Facts
from kohort.observe.observer import Observer, Target
from kohort.observe.pace import Limits
from kohort.observe.pages import Pages
from kohort.observe.records import Records
from kohort.observe.samples import GROUPS_MAX, SAMPLES_MAX, Samples
from kohort.observe.site import Site
from kohort.observe.store import CLUSTER_WIDE, GroupNews, Store
from kohort.observe.test_day import HOUR, MIDNIGHT, PARTITIONS, Day, stormy_day

NIGHT = MIDNIGHT + 24 * HOUR


def observer_of(folder: Path, name: str = "") -> Observer:
    servers = {"bootstrap_servers": ["a:1", "b:2"]}
    return Observer(Target(name, servers, servers), folder / "o.db", Limits())  # type: ignore[arg-type]  # They are both.


@pytest.fixture
def observer(tmp_path: Path) -> Observer:
    return observer_of(tmp_path)


def view(observer: Observer, path: str, now_ms: int = NIGHT, status: int = 200) -> dict[str, object]:
    answer = Pages(observer, lambda: now_ms).page(f"/api/v1/live/{path}")
    assert answer.status == status, answer.body
    return msgspec.json.decode(answer.body, type=dict[str, object])


def items(told: dict[str, object], name: str) -> list[dict[str, object]]:
    found = told[name]
    assert isinstance(found, list)
    return found


def last_storm(events: list[dict[str, object]]) -> tuple[int, int]:
    """Return when the last storm was over, and how many rebalances it had."""
    last = [each for each in events if each["is_storm"]][-1]
    return msgspec.convert((last["ended_ms"], last["changes"]), tuple[int, int])


@pytest.fixture
def stormy(observer: Observer) -> Day:
    day = Day(observer)
    stormy_day(day, seed=3)
    day.store.close()
    return day


def look(day: Day, lag: int = 50) -> None:
    ends = {"t": {each: day.offsets[each] + lag for each in range(PARTITIONS)}}
    day.watched.note_ends(ends, day.log.now_ms)


def test_a_storm_is_told_with_its_cause_how_sure_it_is_and_in_short(observer: Observer, stormy: Day) -> None:
    told = view(observer, "group?id=g")
    assert (told["state"], told["type"], told["hours"]) == ("Stable", "classic", 24)
    events = items(told, "rebalances")
    assert last_storm(events)[1] >= 4
    assert "t-3" in [about for each in events for about in msgspec.convert(each["about"], list[str])]
    assert {each["likelihood"] for each in events} <= {"certain", "likely", "possible"}
    assert "a rolling deployment" in [each["cause"] for each in events]
    assert any("t-3 stops its readers" in str(line) for line in msgspec.convert(told["digest"], list[str]))
    assert told["storm"] == 0  # It was in the morning.
    story = msgspec.convert(events[-1]["story"], list[str])
    assert any(line.startswith("  Cause (") for line in story)
    assert told["time_zone"] == time_zones(MIDNIGHT)


def test_a_storm_is_marked_until_it_has_been_quiet_for_ten_minutes(observer: Observer, stormy: Day) -> None:
    ended_ms, changes = last_storm(items(view(observer, "group?id=g"), "rebalances"))
    assert view(observer, "group?id=g", ended_ms + 1_000)["storm"] == changes
    assert view(observer, "group?id=g", ended_ms + 700_000)["storm"] == 0


def test_the_history_shown_is_that_of_the_hours_asked_for_or_else_of_any_time(
    observer: Observer, stormy: Day
) -> None:
    day = items(view(observer, "group?id=g"), "rebalances")
    hour = view(observer, "group?id=g&hours=1")
    assert (hour["hours"], hour["rebalances"], hour["digest"]) == (1, [], [])
    later = view(observer, "group?id=g", NIGHT + 48 * HOUR)
    assert (later["hours"], later["rebalances"]) == (0, day)
    assert view(observer, "group?id=g&hours=7")["hours"] == 24  # Not among those on offer.


def storm_of(observer: Observer, changes: int) -> int:
    """Store a storm with a change each five seconds, and return when it ends."""
    observer.watched.status.cluster_id = "c"
    observer.watched.status.is_caught_up = True
    events: list[AnyObserved] = [
        GroupChanged(
            at_ms=MIDNIGHT + 5_000 * each,
            generation_id=each + 1,
            former_generation_id=each,
            members=2,
            former_members=2,
        )
        for each in range(changes)
    ]
    store = Store(observer.store_path)
    store.save("c", {}, [GroupNews("g", b"", events)])
    store.close()
    return events[-1].at_ms


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events were explained each time."""
    counts: list[int] = []

    def counting(events: Iterable[AnyObserved]) -> list[Explanation]:
        every = [*events]
        counts.append(len(every))
        return explain(every)

    monkeypatch.setattr(known, "explain", counting)
    return counts


def test_a_long_storm_is_explained_from_its_newest_events_and_once_for_each(
    observer: Observer, explained: list[int]
) -> None:
    now_ms = storm_of(observer, 2_500)
    pages = Pages(observer, lambda: now_ms)

    def told() -> dict[str, object]:
        return msgspec.json.decode(pages.page("/api/v1/live/group?id=g").body, type=dict[str, object])

    first = told()
    assert first == told()
    assert explained == [known.EVENTS_MAX]
    assert first["explained_since_ms"] == MIDNIGHT + 5_000 * 500 + LOOK_BACK_MS
    assert items(first, "rebalances")
    store = Store(observer.store_path)
    now_ms += 5_000
    store.save("c", {}, [GroupNews(CLUSTER_WIDE, b"", [TopicsChanged(at_ms=now_ms, since_ms=now_ms - 1)])])
    store.close()
    assert told()["explained_since_ms"] == MIDNIGHT + 5_000 * 500 + LOOK_BACK_MS
    assert len(explained) == 2
    hour = msgspec.json.decode(pages.page("/api/v1/live/group?id=g&hours=1").body, type=dict[str, object])
    assert hour["explained_since_ms"] is None, "all of it is explained"


def test_a_view_without_history_explains_nothing(observer: Observer, explained: list[int]) -> None:
    now_ms = storm_of(observer, 20)
    told = view(observer, "group?id=g&history=no", now_ms)
    assert (told["state"], told["rebalances"], told["digest"], explained) == ("Empty", [], [], [])
    assert view(observer, "group?id=h&history=no", now_ms, 404)["error"] == "there is no group h"


def test_members_tell_how_they_commit(observer: Observer, stormy: Day) -> None:
    members = items(view(observer, "group?id=g", stormy.log.now_ms), "members")
    assert len(members) == 4
    assert {9_990 < msgspec.convert(each["commit_interval_ms"], int) <= 10_000 for each in members} == {True}
    assert all(each["last_commit_ms"] == stormy.log.now_ms for each in members)


def test_lag_is_in_the_list_and_unknown_once_the_ends_are_old(observer: Observer, stormy: Day) -> None:
    look(stormy)
    now_ms = stormy.log.now_ms
    (row,) = items(view(observer, "groups", now_ms), "groups")
    assert (row["lag"], row["members"], row["verdict"]) == (50 * PARTITIONS, 4, "OK")
    assert row["cause"]
    (old,) = items(view(observer, "groups", now_ms + HOUR), "groups")
    assert (old["lag"], old["lag_seconds"], old["verdict"]) == (None, None, None)


def test_the_last_cause_is_known_after_many_changes_of_topics(observer: Observer) -> None:
    day = Day(observer)
    day.start(1)
    day.read(60_000)
    now_ms = day.log.now_ms
    topics = [
        TopicsChanged(at_ms=now_ms + each, since_ms=now_ms, created=(f"t{each}",)) for each in range(150)
    ]
    day.store.save("c", {}, [GroupNews(CLUSTER_WIDE, b"", [*topics])])
    day.store.close()
    (row,) = items(view(observer, "groups"), "groups")
    assert row["cause"] == "a member joined"


def test_groups_are_searched_and_ordered_and_counted(observer: Observer) -> None:
    watched = observer.watched
    watched.facts.ends = {"t": {0: 100}}
    for number in range(150):
        watched.records.group(f"Group-{number:03}").commit("t", 0, number % 100, MIDNIGHT)
    told = view(observer, "groups")
    groups = items(told, "groups")
    assert (told["total"], told["matching"], len(groups)) == (150, 150, 100)
    assert [each["group_id"] for each in groups[:2]] == ["Group-000", "Group-100"]
    found = view(observer, "groups?q=group-14&order=name")
    ids = [each["group_id"] for each in items(found, "groups")]
    assert ids == [f"Group-{each}" for each in range(140, 150)]
    assert found["by_state"] == {"Empty": 150}


def test_a_group_that_is_not_there_is_told_apart_from_one_not_read_yet(observer: Observer) -> None:
    assert "still reads" in str(view(observer, "group?id=g", status=404)["error"])
    observer.watched.status.is_caught_up = True
    name = quote("<b>?&", safe="")
    assert view(observer, f"group?id={name}", status=404)["error"] == "there is no group <b>?&"
    assert view(observer, "topics", status=404)["error"] == "there is no view topics"


def test_a_first_run_tells_what_is_missing(observer: Observer) -> None:
    observer.watched.status.reads_records = False
    observer.watched.status.refused = {"ListOffsets of broker 1": "not allowed"}
    told = view(observer, "groups")
    state = msgspec.convert(told["observer"], dict[str, object])
    assert (told["total"], state["reads_records"], state["bootstrap"]) == (0, False, "a:1,b:2")
    assert len(items(told, "cannot_know")) == 2


def test_an_alert_is_shown_in_its_own_cluster_alone(tmp_path: Path) -> None:
    one, two = observer_of(tmp_path, "one"), observer_of(tmp_path, "two")
    day = Day(one)
    stormy_day(day, seed=3)
    two.watched.status.cluster_id = "d"
    two.watched.status.is_caught_up = True
    ended_ms, _ = last_storm(items(view(one, "group?id=g"), "rebalances"))
    alerting = Alerting([one, two], [], lambda: ended_ms)
    alerting.look()
    site = Site([one, two], lambda: ended_ms, alerting)
    told = [
        msgspec.json.decode(site.page(f"/{each}/api/v1/live/groups").body, type=dict[str, object])
        for each in ("one", "two")
    ]
    assert "GroupStorm" in [each["name"] for each in items(told[0], "alerts")]
    assert told[1]["alerts"] == []
    assert msgspec.json.decode(site.page("/two/api/v1/alerts").body) == []


def test_brokers_and_partitions_with_a_problem_are_counted(observer: Observer) -> None:
    partitions = (
        PartitionInfo(0, 1, 0, (1, 2), (1, 2)),
        PartitionInfo(1, 2, 0, (1, 2), (2,)),
        PartitionInfo(2, -1, 0, (3, 2), (3,)),
    )
    topics = {"t": TopicDescription("t", UUID(int=1), False, partitions)}
    nodes = (Node(1, "a", 9092, "r"), Node(2, "b", 9092))
    observer.watched.counts = counted(topics, nodes, 2, (1, 2))
    told = view(observer, "health")
    assert told["controller"] == 2
    cluster = msgspec.convert(told["cluster"], dict[str, object])
    assert (cluster["partitions"], cluster["under_replicated"], cluster["offline"]) == (3, 2, 1)
    problems = items(cluster, "problems")
    assert [(each["partition"], each["is_offline"]) for each in problems] == [(1, False), (2, True)]
    brokers = items(told, "brokers")
    shares = [(each["leaders"], each["replicas"], each["in_sync"]) for each in brokers]
    assert shares == [(1, 2, 1), (1, 3, 2)]
    assert brokers[0]["rack"] == "r"


def test_brokers_without_addresses_are_counted() -> None:
    topics = {
        "t": TopicDescription("t", UUID(int=1), False, (PartitionInfo(0, 1, 0, (1, 2), (1, 2)),)),
    }
    found = counted(topics, (), -1, (1, 2))
    assert [(each.node_id, each.host, each.replicas) for each in found.brokers] == [(1, "", 1), (2, "", 1)]


def test_samples_are_kept_for_an_hour_and_for_the_groups_that_were_looked_at() -> None:
    records, samples, ends = Records(Facts()), Samples(), {"t": {0: 1_000}}
    for number in range(GROUPS_MAX + 1):
        records.group(f"g{number}").commit("t", 0, 10, MIDNIGHT)
    last = f"g{GROUPS_MAX}"
    samples.take(records.groups, ends, MIDNIGHT)
    assert [*samples.of("g0")] == [(MIDNIGHT, 1, 10, 990)]
    assert [*samples.of(last)] == []
    samples.want(last)
    for step in range(1, SAMPLES_MAX + 9):
        samples.take(records.groups, ends, MIDNIGHT + 10_000 * step)
        samples.take(records.groups, ends, MIDNIGHT + 10_000 * step + 9_000)  # Too early.
    times = [each.at_ms for each in samples.of(last)]
    assert (len(times), times[-1] - times[0]) == (SAMPLES_MAX, 10_000 * (SAMPLES_MAX - 1))
    del records.groups[last]
    samples.take(records.groups, ends, MIDNIGHT + HOUR * 2)
    assert [*samples.of(last)] == []
