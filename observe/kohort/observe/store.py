"""The history on disk: events, the state of groups, and up to where the records are read. SQLite.

All that a look has brought is one transaction. Whenever the process is killed, the store has the events, the
groups and the positions of one moment, and the next process goes on from there. A power failure may take the
last transactions, which are then read again.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kohort.broker.explain.observed.events import AnyObserved, TopicsChanged, read_observed

SCHEMA = 3
"""Version 3 has OffsetMovedOn events, which an older kohort cannot read."""
CLUSTER_WIDE = ""
"""The group id of events that concern the whole cluster."""
BUSY_SECONDS = 10.0
NEAR_MS = 1_800_000
"""An event of the whole cluster explains nothing of a group whose events are all further away than this."""
WIDE_READ_MAX = 20_000
"""At most so many events of the whole cluster are read to find those near the events of a group."""
EVENTS_BYTES_MAX = 8 << 20
NEVER = 1 << 62
_TABLES = """
CREATE TABLE IF NOT EXISTS positions (
    cluster TEXT NOT NULL,
    partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    PRIMARY KEY (cluster, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS groups (
    cluster TEXT NOT NULL,
    group_id TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (cluster, group_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY,
    cluster TEXT NOT NULL,
    group_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    event BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_group ON events (cluster, group_id, at_ms);
CREATE INDEX IF NOT EXISTS events_by_time ON events (at_ms);
CREATE TABLE IF NOT EXISTS cluster_states (
    cluster TEXT PRIMARY KEY,
    state BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS totals (events INTEGER NOT NULL, size_bytes INTEGER NOT NULL);
DELETE FROM totals;
INSERT INTO totals SELECT COUNT(*), COALESCE(SUM(LENGTH(event)), 0) FROM events;
CREATE TRIGGER IF NOT EXISTS event_added AFTER INSERT ON events BEGIN
    UPDATE totals SET events = events + 1, size_bytes = size_bytes + LENGTH(NEW.event);
END;
CREATE TRIGGER IF NOT EXISTS event_dropped AFTER DELETE ON events BEGIN
    UPDATE totals SET events = events - 1, size_bytes = size_bytes - LENGTH(OLD.event);
END;
"""
_EVENTS = "SELECT at_ms, id, event FROM events WHERE cluster = ? AND group_id = ?"
_NEWEST = f"{_EVENTS} AND at_ms >= ? AND at_ms < ? ORDER BY at_ms DESC, id DESC"
_Row = tuple[int, int, AnyObserved]
"""When an event was, its number, and the event."""


class GroupNews(NamedTuple):
    """A group that has changed: its state, None where the group is gone, and its events.

    An empty state is that of before.
    """

    group_id: str
    state: bytes | None
    events: list[AnyObserved]


class StoreError(Exception):
    """The file is of a newer kohort, or no store at all; or it cannot be written, as on a full disk."""


class Store:
    """One file, of one or several clusters. One thread writes; each other thread opens its own to read."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it. Raises: StoreError, OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        try:
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path}: {error}") from None

    def _prepare(self) -> None:
        run = self._database.execute
        (version,) = run("PRAGMA user_version").fetchone()
        if version > SCHEMA:
            raise StoreError(f"{self._path} was written by a newer kohort (version {version} of its tables)")
        run("PRAGMA synchronous = NORMAL")
        if not version:
            run("PRAGMA auto_vacuum = INCREMENTAL")
            run("PRAGMA journal_mode = WAL")
        if version < SCHEMA:
            self._database.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def positions(self, cluster: str) -> dict[int, int]:
        """Return the next offset of each partition of `__consumer_offsets`. Raises: StoreError."""
        return dict(self._rows("SELECT partition, next_offset FROM positions WHERE cluster = ?", cluster))

    def groups(self, cluster: str) -> list[tuple[str, bytes]]:
        """Return the state of each group. Raises: StoreError."""
        return self._rows("SELECT group_id, state FROM groups WHERE cluster = ?", cluster)

    def cluster_state(self, cluster: str) -> bytes | None:
        """Return what `save` was given of the cluster itself. Raises: StoreError."""
        rows = self._rows("SELECT state FROM cluster_states WHERE cluster = ?", cluster)
        state: bytes | None = rows[0][0] if rows else None
        return state

    def _rows(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        return [*self._each(question, *values)]

    def _each(self, question: str, *values: object) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._database.execute(question, values)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be read: {error}") from None

    def save(
        self,
        cluster: str,
        positions: Mapping[int, int],
        news: Iterable[GroupNews],
        cluster_state: bytes | None = None,
    ) -> None:
        """Store all of this, or nothing. Raises: StoreError, such as for a full disk."""
        run, run_many = self._database.execute, self._database.executemany
        with self._whole():
            for group in news:
                if group.state is None:
                    run("DELETE FROM groups WHERE cluster = ? AND group_id = ?", (cluster, group.group_id))
                elif group.state:
                    run("REPLACE INTO groups VALUES (?, ?, ?)", (cluster, group.group_id, group.state))
                run_many(
                    "INSERT INTO events (cluster, group_id, at_ms, event) VALUES (?, ?, ?, ?)",
                    [
                        (cluster, group.group_id, each.at_ms, msgspec.json.encode(each))
                        for each in group.events
                    ],
                )
            rows = [(cluster, *each) for each in positions.items()]
            run_many("REPLACE INTO positions VALUES (?, ?, ?)", rows)
            if cluster_state is not None:
                run("REPLACE INTO cluster_states VALUES (?, ?)", (cluster, cluster_state))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Make the changes of the block one transaction. Raises: StoreError."""
        run = self._database.execute
        try:
            run("BEGIN IMMEDIATE")
            try:
                yield
                run("COMMIT")
            finally:
                if self._database.in_transaction:
                    run("ROLLBACK")
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be written: {error}") from None

    def begin_anew(self, cluster: str) -> None:
        """Forget a cluster's positions and groups. The events stay. Raises: StoreError."""
        with self._whole():
            for table in ("positions", "groups", "cluster_states"):
                self._database.execute(f"DELETE FROM {table} WHERE cluster = ?", (cluster,))

    def rename(self, former: str, cluster: str) -> None:
        """Rename a cluster with its history. State under the new name stays. Raises: StoreError."""
        if former == cluster:
            return
        with self._whole():
            for table in ("positions", "groups", "cluster_states"):
                self._database.execute(
                    f"UPDATE OR IGNORE {table} SET cluster = ? WHERE cluster = ?", (cluster, former)
                )
                self._database.execute(f"DELETE FROM {table} WHERE cluster = ?", (former,))
            self._database.execute("UPDATE events SET cluster = ? WHERE cluster = ?", (cluster, former))

    def events(
        self, cluster: str, group_id: str, *, since_ms: int = 0, until_ms: int = NEVER, most: int = 1_000
    ) -> list[AnyObserved]:
        """Return the newest events of a group before `until_ms`, with those of the whole cluster near them.

        The oldest come first. Of each kind there are at most `most`, and of the group's own at most
        `EVENTS_BYTES_MAX`: a large group has large events. Topics that come and go all day leave room for the
        group. Raises: StoreError.
        """
        rows: list[_Row] = []
        size_bytes = 0
        newest = self._each(f"{_NEWEST} LIMIT ?", cluster, group_id, since_ms, until_ms, most)
        for at_ms, number, event in newest:
            size_bytes += len(event)
            if rows and size_bytes > EVENTS_BYTES_MAX:
                break
            rows.append((at_ms, number, self._event(event)))
        if rows and group_id != CLUSTER_WIDE:
            times = [row[0] for row in reversed(rows)]
            from_ms = max(times[0] - NEAR_MS, since_ms)
            near = (row for row in self._wide(cluster, from_ms, until_ms) if _is_near(row[2], times))
            rows += islice(near, most)
        return [event for _, _, event in sorted(rows, key=itemgetter(0, 1))]

    def _wide(self, cluster: str, from_ms: int, until_ms: int) -> Iterator[_Row]:
        """Yield the events of the whole cluster, the newest first.

        The first one from `until_ms` on is with them: topics may have changed long before that was seen.
        """
        next_one = f"{_EVENTS} AND at_ms >= ? ORDER BY at_ms, id LIMIT 1"
        after = self._each(next_one, cluster, CLUSTER_WIDE, until_ms)
        before = self._each(_NEWEST, cluster, CLUSTER_WIDE, from_ms, until_ms)
        for at_ms, number, event in islice(chain(after, before), WIDE_READ_MAX):
            yield at_ms, number, self._event(event)

    def count(self, cluster: str, group_id: str, *, since_ms: int, until_ms: int, most: int) -> int:
        """Return how many events of a group are in this time, up to `most`. Raises: StoreError."""
        question = (
            "SELECT COUNT(*) FROM (SELECT 1 FROM events"
            " WHERE cluster = ? AND group_id = ? AND at_ms >= ? AND at_ms < ? LIMIT ?)"
        )
        ((count,),) = self._rows(question, cluster, group_id, since_ms, until_ms, most)
        number: int = count
        return number

    def _event(self, value: bytes) -> AnyObserved:
        try:
            return read_observed(value)
        except msgspec.DecodeError as error:
            raise StoreError(f"{self._path} has an event that this kohort does not know: {error}") from None

    def changed_since(self, cluster: str, since_ms: int) -> dict[str, int]:
        """Return the groups with events since then, each with the number of its newest event.

        Raises: StoreError.
        """
        question = (
            "SELECT group_id, MAX(id) FROM events"
            " WHERE at_ms >= ? AND cluster = ? AND group_id != ? GROUP BY group_id"
        )
        return dict(self._rows(question, since_ms, cluster, CLUSTER_WIDE))

    def newest_of(self, cluster: str, group_id: str) -> int:
        """Return the number of a group's newest event, 0 for none. Raises: StoreError."""
        question = (
            "SELECT id FROM events WHERE cluster = ? AND group_id = ? ORDER BY at_ms DESC, id DESC LIMIT 1"
        )
        rows = self._rows(question, cluster, group_id)
        number: int = rows[0][0] if rows else 0
        return number

    def newest(self, cluster: str) -> dict[str, int]:
        """Return when the newest event of each group was. Raises: StoreError."""
        question = "SELECT group_id, MAX(at_ms) FROM events WHERE cluster = ? GROUP BY group_id"
        return dict(self._rows(question, cluster))

    def forget(self, *, before_ms: int, bytes_max: int) -> int:
        """Drop events that are older, and the oldest while the events take more; return how many.

        Raises: StoreError.
        """
        run = self._database.execute
        with self._whole():
            dropped = run("DELETE FROM events WHERE at_ms < ?", (before_ms,)).rowcount
            count, size_bytes = run("SELECT events, size_bytes FROM totals").fetchone()
            if size_bytes > bytes_max:
                surplus = max(count * (size_bytes - bytes_max) // size_bytes, 1)
                dropped += run(
                    "DELETE FROM events WHERE id IN (SELECT id FROM events ORDER BY at_ms, id LIMIT ?)",
                    (surplus,),
                ).rowcount
        if dropped:
            with suppress(sqlite3.OperationalError):  # In use: the next round does it.
                run("PRAGMA incremental_vacuum").fetchall()
        return dropped


def _is_near(event: AnyObserved, times: Sequence[int]) -> bool:
    """Whether a change of topics may have been near one of these times, the oldest first."""
    since_ms = event.since_ms if isinstance(event, TopicsChanged) else event.at_ms
    index = bisect_left(times, since_ms - NEAR_MS)
    return index < len(times) and times[index] <= event.at_ms + NEAR_MS
