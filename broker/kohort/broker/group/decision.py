"""The result of a command: records to log, and effects to run once they are flushed."""

import msgspec

from kohort.broker.group.events import Event
from kohort.protocol.schema import Message


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of the core's log, not yet encoded; a value of None is a tombstone."""

    key: Message
    value: Message | None


class SessionTimer(msgspec.Struct, frozen=True, gc=False):
    """The key of the timer that ends a member's session, or an unused member id."""

    group_id: str
    member_id: str


class JoinTimer(msgspec.Struct, frozen=True, gc=False):
    """The key of the timer that ends a group's join phase."""

    group_id: str


class SyncTimer(msgspec.Struct, frozen=True, gc=False):
    """The key of the timer that removes members that do not sync."""

    group_id: str


class RevocationTimer(msgspec.Struct, frozen=True, gc=False):
    """The key of the timer that removes a member that does not give up partitions or tasks in time."""

    group_id: str
    member_id: str


class AwaitedTimer(msgspec.Struct, frozen=True, gc=False):
    """The key of the timer that removes a consumer group's classic member that does not join or sync."""

    group_id: str
    member_id: str


TimerKey = SessionTimer | JoinTimer | SyncTimer | RevocationTimer | AwaitedTimer


class Reply(msgspec.Struct, frozen=True, gc=False):
    """Answer this request with this message; each request is answered at most once."""

    request_id: int
    message: Message


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """Send `TimerFired(key)` at `deadline_ms`; an earlier timer of the same key is replaced."""

    key: TimerKey
    deadline_ms: int


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    """Cancel the timer of this key. A late one is harmless."""

    key: TimerKey


class Note(msgspec.Struct, frozen=True, gc=False):
    """Publish the event to the log, the metrics, `__group_events` and the live page."""

    event: Event


Effect = Reply | SetTimer | CancelTimer | Note


class TransactionEnd(msgspec.Struct, frozen=True, gc=False):
    """The end of a producer's transaction, and the epoch of its transaction coordinator."""

    is_commit: bool
    coordinator_epoch: int


class TransactionalWrite(msgspec.Struct, frozen=True, gc=False):
    """The producer whose transaction the records belong to; with an `end`, its marker and no records."""

    producer_id: int
    producer_epoch: int
    end: TransactionEnd | None = None


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What the shell has to do, in order: replay and append `records`, flush, run `effects`.

    Those of a transaction are replayed by `replay_pending`, its end by `end_pending`.
    """

    records: tuple[Record, ...] = ()
    effects: tuple[Effect, ...] = ()
    transaction: TransactionalWrite | None = None


NOTHING = Decision()
