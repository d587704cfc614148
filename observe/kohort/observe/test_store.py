from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.broker.explain.observed.events import CoordinatorMoved, TopicsChanged
from kohort.observe.store import CLUSTER_WIDE, NEAR_MS, SCHEMA, GroupNews, Store, StoreError

WRITER = """
import sys
from pathlib import Path
from kohort.broker.explain.observed.events import CoordinatorMoved
from kohort.observe.store import GroupNews, Store
store = Store(Path(sys.argv[1]))
for number in range(1, 1_000_000):
    event = CoordinatorMoved(at_ms=number, node_id=number, former_node_id=0)
    store.save("c", {0: number, 1: number}, [GroupNews("g", str(number).encode(), [event])])
    if number == 50:
        print("on", flush=True)
"""


def moved(at_ms: int) -> CoordinatorMoved:
    return CoordinatorMoved(at_ms=at_ms, node_id=2, former_node_id=1)


def test_what_is_saved_is_there_for_the_next_process(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "o.db")
    topics = TopicsChanged(at_ms=7, since_ms=1, created=("t",))
    store.save("c", {0: 5, 3: 9}, [GroupNews("g", b"state", [moved(5), moved(9)])], b"look")
    store.save("c", {3: 10}, [GroupNews(CLUSTER_WIDE, b"", [topics]), GroupNews("h", b"other", [])])
    store.close()
    again = Store(tmp_path / "deep" / "o.db")
    assert again.positions("c") == {0: 5, 3: 10}
    assert dict(again.groups("c")) == {"g": b"state", "h": b"other"}
    assert again.cluster_state("c") == b"look"
    assert again.events("c", "g") == [moved(5), topics, moved(9)]
    assert again.events("c", "g", since_ms=8) == [moved(9)]
    assert again.events("c", "g", most=1) == [topics, moved(9)]
    assert again.events("c", "g", until_ms=9) == [moved(5), topics]
    assert again.events("c", "h") == []
    assert again.positions("another cluster") == {}
    again.save("c", {}, [GroupNews("g", None, [])])
    assert dict(again.groups("c")) == {"h": b"other"}
    again.close()


def test_topics_that_come_and_go_all_day_leave_room_for_a_group(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    topics = [TopicsChanged(at_ms=at_ms, since_ms=at_ms - 1, created=("t",)) for at_ms in range(1, 5_000)]
    far = [
        TopicsChanged(at_ms=2 * NEAR_MS + each.at_ms, since_ms=2 * NEAR_MS, created=("far",))
        for each in topics
    ]
    store.save(
        "c", {}, [GroupNews(CLUSTER_WIDE, b"", [*topics, *far]), GroupNews("g", b"", [moved(1), moved(2)])]
    )
    found = store.events("c", "g", most=100)
    assert [each for each in found if isinstance(each, CoordinatorMoved)] == [moved(1), moved(2)]
    assert len(found) == 102
    assert not any(isinstance(each, TopicsChanged) and each.created == ("far",) for each in found)
    store.close()


def test_topics_that_changed_while_nobody_observed_are_near_all_of_that_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    late = TopicsChanged(at_ms=9 * NEAR_MS, since_ms=1, deleted=("t",))
    later = TopicsChanged(at_ms=9 * NEAR_MS + 1, since_ms=9 * NEAR_MS, deleted=("u",))
    store.save("c", {}, [GroupNews("g", b"", [moved(NEAR_MS)]), GroupNews(CLUSTER_WIDE, b"", [late, later])])
    assert store.events("c", "g") == [moved(NEAR_MS), late]
    assert store.events("c", "g", until_ms=2 * NEAR_MS) == [moved(NEAR_MS), late]
    store.close()


def test_large_events_are_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "o.db")
    store.save("c", {}, [GroupNews("g", b"", [moved(at_ms) for at_ms in range(100, 200)])])
    size_bytes = len(b'{"event":"CoordinatorMoved","at_ms":150,"node_id":2,"former_node_id":1}')
    monkeypatch.setattr("kohort.observe.store.EVENTS_BYTES_MAX", 10 * size_bytes)
    assert store.events("c", "g") == [moved(at_ms) for at_ms in range(190, 200)]
    monkeypatch.setattr("kohort.observe.store.EVENTS_BYTES_MAX", 1)
    assert store.events("c", "g") == [moved(199)]
    assert store.count("c", "g", since_ms=0, until_ms=1_000, most=1_000) == 100
    assert store.count("c", "g", since_ms=150, until_ms=160, most=3) == 3
    store.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_process_that_is_killed_leaves_one_moment(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "o.db"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    try:
        process.wait(0.01 * seed)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    store = Store(path)
    positions = store.positions("c")
    ((_, state),) = store.groups("c")
    events = store.events("c", "g", most=1_000_000)
    assert positions == {0: int(state), 1: int(state)}
    assert [each.at_ms for each in events] == list(range(1, int(state) + 1))
    assert int(state) >= 50
    store.close()


def test_a_save_that_fails_changes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    store.save("c", {0: 1}, [])

    def fails() -> GroupNews:
        raise OSError("no such group")

    with pytest.raises(OSError, match="no such group"):
        store.save("c", {0: 2}, (fails() for _ in range(1)))
    assert store.positions("c") == {0: 1}
    store.save("c", {0: 3}, [])
    assert store.positions("c") == {0: 3}
    store.close()


def test_the_oldest_are_forgotten_by_age_and_by_size(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    store.save("c", {}, [GroupNews("g", b"", [moved(at_ms) for at_ms in range(1_000)])])
    assert store.forget(before_ms=100, bytes_max=1 << 30) == 100
    assert store.forget(before_ms=100, bytes_max=1 << 30) == 0
    size_bytes = 900 * len(b'{"event":"CoordinatorMoved","at_ms":500,"node_id":2,"former_node_id":1}')
    store.forget(before_ms=0, bytes_max=size_bytes // 3)
    left = store.events("c", "g")
    assert 250 <= len(left) <= 300
    assert left[-1] == moved(999)
    store.close()


def test_a_store_that_cannot_grow_says_so_and_stays_as_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    store.save("c", {0: 1}, [])
    (pages,) = store._database.execute("PRAGMA page_count").fetchone()
    store._database.execute(f"PRAGMA max_page_count = {pages + 2}")  # As on a disk that is full.
    with pytest.raises(StoreError, match=r"o.db cannot be written: .* full"):
        store.save("c", {0: 2}, [GroupNews("g", bytes(100_000), [moved(1)])])
    assert store.positions("c") == {0: 1}
    assert store.events("c", "g") == []
    store.close()


def test_a_store_that_another_process_holds_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.observe.store.BUSY_SECONDS", 0.01)
    store, other = Store(tmp_path / "o.db"), Store(tmp_path / "o.db")
    with other._whole(), pytest.raises(StoreError, match="locked"):
        store.save("c", {0: 2}, [])
    store.save("c", {0: 2}, [])
    store.close()
    other.close()


def test_forgetting_reads_no_event_that_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    store.save("c", {}, [GroupNews("g", b"", [moved(at_ms) for at_ms in range(50_000)])])
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    store._database.set_progress_handler(count, 100)
    store.forget(before_ms=0, bytes_max=1 << 30)
    assert steps < 10
    store.close()


def test_a_store_of_the_second_version_is_taken_over(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    store.save("c", {0: 5}, [GroupNews("g", b"state", [moved(5)])], b"look")
    store._database.execute("PRAGMA user_version = 2")
    store.close()
    again = Store(tmp_path / "o.db")
    assert (again.positions("c"), again.cluster_state("c"), again.events("c", "g")) == (
        {0: 5},
        b"look",
        [moved(5)],
    )
    assert again._database.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
    again.close()


def test_a_store_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "o.db"
    store = Store(path)
    store.save("c", {0: 5}, [GroupNews("g", b"state", [moved(5)])])
    for each in ("TRIGGER event_added", "TRIGGER event_dropped", "TABLE totals"):
        store._database.execute(f"DROP {each}")
    store._database.execute("PRAGMA user_version = 1")
    store.close()
    again = Store(path)
    assert again.events("c", "g") == [moved(5)]
    again.save("c", {}, [GroupNews("g", b"", [moved(9)])])
    assert again._database.execute("SELECT events, size_bytes FROM totals").fetchone() == (2, 138)
    again.begin_anew("c")
    assert (again.positions("c"), dict(again.groups("c"))) == ({}, {})
    assert again.events("c", "g") == [moved(5), moved(9)]
    again.close()


def test_a_cluster_is_renamed_with_its_history(tmp_path: Path) -> None:
    store = Store(tmp_path / "o.db")
    for cluster in ("former", "other"):
        store.save(cluster, {0: 5}, [GroupNews("g", b"state", [moved(5)])], b"look")
    store.rename("former", "c")
    assert (store.positions("c"), store.groups("c"), store.cluster_state("c")) == (
        {0: 5},
        [("g", b"state")],
        b"look",
    )
    assert (store.events("c", "g"), store.events("former", "g"), store.groups("former")) == (
        [moved(5)],
        [],
        [],
    )
    assert store.events("other", "g") == [moved(5)]
    store.rename("other", "c")  # Of which something is there already.
    assert (store.groups("c"), len(store.events("c", "g")), store.positions("other")) == (
        [("g", b"state")],
        2,
        {},
    )
    store.rename("c", "c")
    assert store.positions("c") == {0: 5}
    store.close()


def test_a_file_of_something_else_or_of_a_newer_kohort_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"this is no database at all, but long enough to look like one" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(other)
    newer = tmp_path / "newer.db"
    database = sqlite3.connect(newer)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="newer kohort"):
        Store(newer)
