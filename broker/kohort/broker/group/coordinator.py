"""The group coordinator: commands in, records and effects out, and nothing besides."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from kohort.broker.group import administration
from kohort.broker.group.classic.parking import parked_error
from kohort.broker.group.classic.sessions import heartbeat
from kohort.broker.group.commands import (
    DeleteGroup,
    EndOffsets,
    ExpireOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TimerFired,
    TopicsDeleted,
    TxnOffsetCommit,
)
from kohort.broker.group.config import GroupConfig
from kohort.broker.group.decision import NOTHING, Decision, Record
from kohort.broker.group.group import CLASSIC, AnyGroup
from kohort.broker.group.kind import Replay
from kohort.broker.group.kinds import KINDS
from kohort.broker.group.offsets import removal
from kohort.broker.group.offsets.commits import commit_offsets, fetch_offsets
from kohort.broker.group.offsets.replaying import keep_offset, replay_offset
from kohort.broker.group.offsets.transactions import commit_in_transaction, end_transaction
from kohort.broker.group.rebalance_facts import Journal, NoJournal
from kohort.broker.group.shard_bytes import Room
from kohort.broker.group.turn import Handler, ShardState, Turn
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import ErrorCode
from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.schema import Message

C = TypeVar("C")
G = TypeVar("G", bound=AnyGroup)


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupCoordinator:
    """The groups of one partition of `__consumer_offsets`, as a state machine.

    The owner hands each decision's records to `replay` before the next command, logs and flushes
    them, and only then runs the effects. A log that could not be flushed means: drop this object, make
    a new one from the log. Time comes with each command; nothing here waits.
    """

    def __init__(self, config: GroupConfig, room: Room | None = None, journal: Journal | None = None) -> None:
        """`room` is that of all cores of this broker; one alone has its own. `journal` keeps rebalances."""
        self.config = config
        self.journal: Journal = NoJournal() if journal is None else journal
        self._groups = ShardState(config, Room() if room is None else room, KINDS, self.journal)

    @property
    def groups(self) -> Mapping[str, AnyGroup]:
        """The groups by id, to be read only."""
        return self._groups.by_id

    def find(self, group_id: str, kind: type[G]) -> G | None:
        """Return the group, if there is one of that kind, to be read only."""
        group = self._groups.by_id.get(group_id)
        return group if isinstance(group, kind) else None

    def handle(self, command: Any, now_ms: int) -> Decision:
        """Return what follows from a command, of `commands` or of a kind's own, at that time."""
        handle: Handler = _HANDLERS[type(command)]
        return handle(self._groups, command, now_ms)

    def replay(self, record: Record) -> None:
        """Take a logged record over: one just decided, or one read from the log."""
        _REPLAYS[type(record.key)](self._groups, record.key, record.value)

    def replay_pending(self, producer_id: int, record: Record) -> None:
        """Take over an offset of a transaction that is open."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self._groups.pending.add(producer_id, key, value)

    def end_pending(self, producer_id: int, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a transaction."""
        for key, value in self._groups.pending.take(producer_id, is_commit=is_commit):
            keep_offset(self._groups, key, value)

    def loaded(self, now_ms: int) -> Decision:
        """Return the session timers of all members; to be called once, after the log was replayed.

        Members continue with their generation. A group that exceeds its maximum size rebalances.
        """
        turn = Turn(self._groups, now_ms)
        for group in self._groups.by_id.values():
            KINDS[group.group_type].resume(turn, group)
        self._groups.room.add(self._groups.shard_bytes)
        return turn.decision()

    def give_up(self, code: ErrorCode) -> Decision:
        """Return the answers to all that is parked: this shard's log failed, or is another's now.

        The core must not be used after it. Unflushed decisions are refused by the owner.
        """
        turn = Turn(self._groups, now_ms=0)
        for request_id, member in self._groups.parked.items():
            turn.reply(request_id, parked_error(code, member, request_id))
        self._groups.parked.clear()
        self._groups.by_id.clear()
        self._groups.given_member_ids.clear()
        self._groups.room.remove(self._groups.shard_bytes)
        self.journal.clear()
        return turn.decision()

    def topic_ids(self) -> dict[str, set[UUID]]:
        """Return which ids offsets say of their topics, by the topics' names; zero where one says none."""
        found: dict[str, set[UUID]] = {}
        for group in self._groups.by_id.values():
            for topic, offsets in group.offsets.items():
                ids, last = found.setdefault(topic, set()), None
                for value in offsets.values():
                    if value.topic_id is not last:  # Nearly all of a topic share theirs.
                        last = value.topic_id
                        ids.add(last)
        for key, value in self._groups.pending.held():
            found.setdefault(key.topic, set()).add(value.topic_id)
        return found


def in_a_turn(handle: Callable[[Turn, C], None]) -> Handler:
    """Return a handler that has a turn of its own for each command."""

    def decide(groups: ShardState, command: C, now_ms: int) -> Decision:
        turn = Turn(groups, now_ms)
        handle(turn, command)
        return turn.decision()

    return decide


Request = JoinGroup | SyncGroup | Heartbeat | LeaveGroup


def _classic_request(groups: ShardState, command: Request, now_ms: int) -> Decision:
    """Let the kind of the named group answer a request of the classic protocol."""
    group = groups.by_id.get(command.message.group_id)
    kind = KINDS[CLASSIC if group is None else group.group_type]
    turn = Turn(groups, now_ms)
    kind.classic_requests[type(command)](turn, group, command)
    return turn.decision()


def _timer_fired(groups: ShardState, command: TimerFired, now_ms: int) -> Decision:
    group = groups.by_id.get(command.key.group_id)
    handle = None if group is None else KINDS[group.group_type].timers.get(type(command.key))
    if handle is None:
        return NOTHING
    turn = Turn(groups, now_ms)
    handle(turn, group, command.key)
    return turn.decision()


def _handler(command: type) -> Handler:
    """Return what handles a command that only one kind of group has."""
    kind = KINDS[command.group_type]  # type: ignore[attr-defined]  # Such commands have it.
    handler = in_a_turn(kind.commands[command])
    fast_path = kind.fast_paths.get(command)
    return handler if fast_path is None else partial(fast_path, handler)


def _replay(key: type[Message]) -> Replay:
    return KINDS.of_record(key).replays[key]


class _ByClass(dict[type, Callable[..., Any]]):
    """What handles each class of commands, or of records' keys; a kind of group's is found at the first."""

    def __init__(self, known: dict[type, Any], find: Callable[[type], Callable[..., Any]]) -> None:
        super().__init__(known)
        self._find = find

    def __missing__(self, each: type) -> Callable[..., Any]:
        found = self[each] = self._find(each)
        return found


_HANDLERS = _ByClass(
    {
        Heartbeat: partial(heartbeat, _classic_request),
        JoinGroup: _classic_request,
        SyncGroup: _classic_request,
        LeaveGroup: _classic_request,
        OffsetCommit: commit_offsets,
        OffsetFetch: fetch_offsets,
        TxnOffsetCommit: commit_in_transaction,
        EndOffsets: end_transaction,
        ListGroups: in_a_turn(administration.list_groups),
        DeleteGroup: in_a_turn(administration.delete_group),
        OffsetDelete: in_a_turn(removal.delete_offsets),
        TopicsDeleted: in_a_turn(removal.delete_topics),
        ExpireOffsets: in_a_turn(removal.expire_offsets),
        TimerFired: _timer_fired,
    },
    _handler,
)
_REPLAYS = _ByClass({OffsetCommitKey: replay_offset}, _replay)
