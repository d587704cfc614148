"""A model of etcd: revisions, transactions with compares, leases, watches, compaction, members.

What is agreed is one store; members differ in whether they answer, how fast, and how far behind their
watches are. A request that reaches a member is done though its answer may be lost.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.simulation.schedule import Schedule

Key = tuple[Any, ...]
WATCH_MS_MAX = 2_000
MEMBERS = 3


class Entry(NamedTuple):
    """A key's value, and the revisions that made and last changed it."""

    value: Any
    create_revision: int
    mod_revision: int
    lease: int | None = None


class Event(NamedTuple):
    """A key as it was after one revision; None where it was deleted."""

    revision: int
    key: Key
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Transaction:
    """Compares of the revisions that made keys (0: absent) and last changed them, and what to do then."""

    created: Mapping[Key, int] = field(default_factory=dict)
    modified: Mapping[Key, int] = field(default_factory=dict)
    puts: Mapping[Key, Any] = field(default_factory=dict)
    deletes: tuple[Key, ...] = ()
    lease: int | None = None
    otherwise: Mapping[Key, Any] = field(default_factory=dict)
    """What is put where they do not hold."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a transaction: the compared keys after it, and these and the ones to be put before it."""

    succeeded: bool
    revision: int
    entries: dict[Key, Entry]
    before: dict[Key, Entry]


@dataclass(frozen=True, slots=True)
class KeyAt:
    """Asks for a key as it was at a revision."""

    key: Key
    revision: int


class Was(NamedTuple):
    """A key as it was at a revision; None where it was not there."""

    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Watch:
    """Asks for what came after a revision, once there is something."""

    after_revision: int


@dataclass(frozen=True, slots=True)
class Events:
    """What a watch has seen up to a revision."""

    revision: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Compacted:
    """The watch asked for what is not kept any more: the caller has to load anew."""


@dataclass(frozen=True, slots=True)
class Range:
    """Asks for everything."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything at one revision."""

    revision: int
    entries: dict[Key, Entry]


@dataclass(frozen=True, slots=True)
class Grant:
    """Asks for a lease."""

    ttl_ms: int


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """Asks for a lease to go on; answered with whether it does."""

    lease: int
    ttl_ms: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Ends a lease, with all its keys."""

    lease: int


Answer = Callable[[Any], None]


class Member:
    """One endpoint."""

    def __init__(self) -> None:
        self.is_up = True
        self.latency_ms = 0
        self.watch_lag_ms = 0
        self.stands_until_ms = 0
        """Until then it holds back what it is asked, and carries it out afterwards."""


class Etcd:
    """The store, and its members."""

    def __init__(self, schedule: Schedule) -> None:
        self.members = [Member() for _ in range(MEMBERS)]
        self.revision = 1
        self.entries: dict[Key, Entry] = {}
        self.on_event: Callable[[Event, Entry | None], None] = lambda event, before: None
        self._schedule = schedule
        self._events: list[Event] = []
        self._compacted = 0
        self._leases: dict[int, int] = {}  # Until when, in milliseconds.
        self._lease_ids = 0
        self._watching: list[tuple[Member, int, Answer]] = []

    def deliver(self, member_index: int, request: object, answer: Answer) -> None:
        """Let a member do what is asked, a while later if it is slow, never if it is down."""
        member = self.members[member_index]
        if member.is_up:
            standing_ms = member.stands_until_ms - self._schedule.time_ms
            delay_ms = max(member.latency_ms, standing_ms)
            self._schedule.after(delay_ms, lambda: self._handle(member, request, answer))

    def _handle(self, member: Member, request: object, answer: Answer) -> None:
        match request:
            case Transaction():
                answer(self.transact(request))
            case Watch(after_revision=after):
                self._watch(member, after, answer)
            case KeyAt(key=key, revision=revision):
                answer(self._at(key, revision))
            case Range():
                answer(Loaded(self.revision, dict(self.entries)))
            case Grant(ttl_ms=ttl_ms):
                self._lease_ids += 1
                self._extend(self._lease_ids, ttl_ms)
                answer(self._lease_ids)
            case KeepAlive(lease=lease, ttl_ms=ttl_ms):
                if lease in self._leases:
                    self._extend(lease, ttl_ms)
                answer(lease in self._leases)
            case Revoke(lease=lease):
                self._end(lease)
                answer(True)
            case _:
                raise AssertionError(request)

    # -- what is stored ---------------------------------------------------------------------------------

    def transact(self, asked: Transaction) -> Outcome:
        """Do what is asked at one revision, if all compares hold."""
        made = {key: self._revisions(key)[0] for key in asked.created}
        modified = {key: self._revisions(key)[1] for key in asked.modified}
        holds = made == dict(asked.created) and modified == dict(asked.modified)
        holds = holds and (asked.lease is None or asked.lease in self._leases)
        compared = (*asked.created, *asked.modified)
        concerned = (*compared, *asked.puts)
        before = {key: self.entries[key] for key in concerned if key in self.entries}
        if not holds:
            self._change(asked.otherwise, None)
        else:
            changes: dict[Key, Any] = {key: None for key in asked.deletes if key in self.entries}
            self._change(changes | dict(asked.puts), asked.lease)
        entries = {key: self.entries[key] for key in compared if key in self.entries}
        return Outcome(holds, self.revision, entries, before)

    def _at(self, key: Key, revision: int) -> Was | Compacted:
        events = [each for each in self._events if each.key == key]
        earlier = [each for each in events if each.revision <= revision]
        if revision < self._compacted or (events and not earlier and self._compacted):
            return Compacted()
        if events:
            return Was(earlier[-1].entry if earlier else None)
        return Was(self.entries.get(key))

    def _revisions(self, key: Key) -> tuple[int, int]:
        entry = self.entries.get(key)
        return (0, 0) if entry is None else (entry.create_revision, entry.mod_revision)

    def _change(self, changes: Mapping[Key, Any], lease: int | None) -> None:
        if not changes:
            return
        self.revision += 1
        for key, value in changes.items():
            before = self.entries.get(key)
            if value is None:
                del self.entries[key]
                entry = None
            else:
                created = self.revision if before is None else before.create_revision
                entry = self.entries[key] = Entry(value, created, self.revision, lease)
            event = Event(self.revision, key, entry)
            self._events.append(event)
            self.on_event(event, before)
        watching, self._watching = self._watching, []
        for member, after, answer in watching:
            self._schedule.after(member.watch_lag_ms, lambda a=after, r=answer: self._tell(a, r))  # type: ignore[misc]  # bound defaults

    # -- leases -----------------------------------------------------------------------------------------

    def holds(self, lease: int) -> bool:
        """Return whether the lease is alive."""
        return lease in self._leases

    def _extend(self, lease: int, ttl_ms: int) -> None:
        self._leases[lease] = self._schedule.time_ms + ttl_ms
        self._schedule.after(ttl_ms, lambda: self._expire(lease))

    def _expire(self, lease: int) -> None:
        if self._leases.get(lease, self._schedule.time_ms + 1) <= self._schedule.time_ms:
            self._end(lease)

    def _end(self, lease: int) -> None:
        self._leases.pop(lease, None)
        self._change({key: None for key, entry in self.entries.items() if entry.lease == lease}, None)

    # -- watches ----------------------------------------------------------------------------------------

    def compact(self) -> None:
        """Forget how it came about, all but the last few revisions."""
        self._compacted = max(self._compacted, self.revision - 3)
        self._events = self._events[bisect_right(self._events, self._compacted, key=_revision_of) :]

    def _watch(self, member: Member, after: int, answer: Answer) -> None:
        if after < self.revision:
            self._schedule.after(member.watch_lag_ms, lambda: self._tell(after, answer))
            return
        waiting = (member, after, answer)
        self._watching.append(waiting)
        self._schedule.after(WATCH_MS_MAX, lambda: self._give_up(waiting))

    def _give_up(self, waiting: tuple[Member, int, Answer]) -> None:
        if waiting in self._watching:
            self._watching.remove(waiting)
            waiting[2](Events(waiting[1], ()))

    def _tell(self, after: int, answer: Answer) -> None:
        if after < self._compacted:
            answer(Compacted())
        else:
            first = bisect_right(self._events, after, key=_revision_of)
            answer(Events(self.revision, tuple(self._events[first:])))


def _revision_of(event: Event) -> int:
    return event.revision
