"""The group coordinator: commands in, records and effects out, and nothing besides."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar
from uuid import UUID

from kohort.broker.group import administration
from kohort.broker.group.classic import joining, leaving, rebalancing, syncing
from kohort.broker.group.classic.parking import lose, parked_join_error, sync_error
from kohort.broker.group.classic.replaying import keep_offset, replay_group, replay_offset
from kohort.broker.group.classic.sessions import connection_closed, heartbeat, session_timer_fired
from kohort.broker.group.commands import (
    ConnectionClosed,
    DeleteGroup,
    DescribeGroup,
    EndOffsets,
    ExpireOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    RequestLost,
    SyncGroup,
    TimerFired,
    TopicsDeleted,
    TxnOffsetCommit,
)
from kohort.broker.group.config import GroupConfig
from kohort.broker.group.decision import Decision, JoinTimer, Record, SessionTimer, SyncTimer
from kohort.broker.group.events import Cause, CauseKind, GroupLoaded
from kohort.broker.group.group import CLASSIC, Group
from kohort.broker.group.offsets import removal
from kohort.broker.group.offsets.commits import commit_offsets, fetch_offsets
from kohort.broker.group.offsets.transactions import commit_in_transaction, end_transaction
from kohort.broker.group.shard_bytes import Room
from kohort.broker.group.turn import ShardState, Turn
from kohort.broker.group.views import GroupView, view_of
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import ErrorCode
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

C = TypeVar("C")


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupCoordinator:
    """The groups of one partition of `__consumer_offsets`, as a state machine.

    The owner hands each decision's records to `replay` before the next command, logs and flushes
    them, and only then runs the effects. A log that could not be flushed means: drop this object, make
    a new one from the log. Time comes with each command; nothing here waits.
    """

    def __init__(self, config: GroupConfig, room: Room | None = None) -> None:
        """`room` is that of all cores of this broker; one alone has its own."""
        self.config = config
        self._groups = ShardState(config, Room() if room is None else room)
        self._handlers = _Handlers(self._groups)

    @property
    def groups(self) -> Mapping[str, Group]:
        """The groups by id, to be read only."""
        return self._groups.by_id

    def handle(self, command: Any, now_ms: int) -> Decision:
        """Return what follows from a `Command`, or one of a newer kind of group, at that time."""
        return self._handlers[type(command)](command, now_ms)

    def replay(self, record: Record) -> None:
        """Take a logged record over: one just decided, or one read from the log."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            replay_offset(self._groups, key, value)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            replay_group(self._groups, key, value)
        else:
            loaded_kinds().replay(self._groups, key, value)

    def replay_pending(self, producer_id: int, record: Record) -> None:
        """Take over an offset of a transaction that is open."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self._groups.pending.add(producer_id, key, value)

    def end_pending(self, producer_id: int, is_commit: bool) -> None:
        """Let what a transaction has left count, or not."""
        for key, value in self._groups.pending.take(producer_id, is_commit=is_commit):
            keep_offset(self._groups, key, value)

    def loaded(self, now_ms: int) -> Decision:
        """Return the session timers of all members; to be called once, after the log was replayed.

        Members go on with their generation. A group that has become larger than allowed rebalances.
        """
        turn = Turn(self._groups, now_ms)
        for group in self._groups.by_id.values():
            _resume(turn, group)
        self._groups.room.add(self._groups.shard_bytes)
        return turn.decision()

    def give_up(self, code: ErrorCode) -> Decision:
        """Return the answers to all that is parked: this shard's log failed, or is another's now.

        The core must not be used after it. What was decided but not flushed is the owner's to refuse.
        """
        turn = Turn(self._groups, now_ms=0)
        for request_id, member in self._groups.parked.items():
            joins = member.awaiting_join == request_id
            turn.reply(request_id, parked_join_error(code, member) if joins else sync_error(code))
        self._groups.parked.clear()
        self._groups.by_id.clear()
        self._groups.given_member_ids.clear()
        self._groups.room.remove(self._groups.shard_bytes)
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

    def describe(self, group_id: str, now_ms: int) -> GroupView | None:
        """Return how the group stands and what its rebalances were about, or None."""
        group = self._groups.by_id.get(group_id)
        return None if group is None else view_of(group, now_ms)


def _resume(turn: Turn, group: Group) -> None:
    if group.group_type != CLASSIC:
        loaded_kinds().resume(turn, group)
    if not group.members:
        return
    for member in group.members.values():
        turn.extend_session(group, member)
    members = len(group.members)
    turn.note(
        GroupLoaded(
            group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.generation_id, members=members
        )
    )
    if group.leader is None:
        rebalancing.begin_downgraded(turn, group)
    elif members > turn.config.group_max_size:
        rebalancing.prepare_rebalance(turn, group, Cause(CauseKind.OVER_CAPACITY, turn.now_ms))


def _timer_fired(turn: Turn, command: TimerFired) -> None:
    key = command.key
    group = turn.groups.by_id.get(key.group_id)
    if group is not None and group.group_type != CLASSIC:
        loaded_kinds().timer_fired(turn, group, key)
    elif isinstance(key, SessionTimer):
        session_timer_fired(turn, key)
    elif isinstance(key, JoinTimer):
        rebalancing.join_timer_fired(turn, key)
    elif isinstance(key, SyncTimer):
        syncing.sync_timer_fired(turn, key)


def loaded_kinds() -> ModuleType:
    """Return the way to groups of newer kinds, imported with the first of them."""
    return import_module("kohort.broker.group.kinds")


class _Handlers(dict[type, Callable[..., Decision]]):
    """Which function handles which command; those about groups of newer kinds are found at their first."""

    def __init__(self, groups: ShardState) -> None:
        super().__init__(_classic_handlers(groups))
        self._groups = groups

    def __missing__(self, kind: type) -> Callable[..., Decision]:
        kinds = loaded_kinds()
        handler: Callable[..., Decision] = _in_a_turn(self._groups, kinds.handler_of(kind))
        fast_path = kinds.fast_path_of(kind)
        if fast_path is not None:
            handler = _fast_path_or(self._groups, fast_path, handler)
        self[kind] = handler
        return handler


def _in_a_turn(groups: ShardState, function: Callable[[Turn, C], None]) -> Callable[[C, int], Decision]:
    def handle(command: C, now_ms: int) -> Decision:
        turn = Turn(groups, now_ms)
        function(turn, command)
        return turn.decision()

    return handle


def _fast_path_or(
    groups: ShardState,
    fast_path: Callable[[ShardState, C, int], Decision | None],
    otherwise: Callable[[C, int], Decision],
) -> Callable[[C, int], Decision]:
    def handle(command: C, now_ms: int) -> Decision:
        decision = fast_path(groups, command, now_ms)
        return otherwise(command, now_ms) if decision is None else decision

    return handle


def _classic_handlers(groups: ShardState) -> dict[type, Callable[..., Decision]]:
    in_a_turn = partial(_in_a_turn, groups)
    return {
        Heartbeat: partial(heartbeat, groups),
        OffsetCommit: partial(commit_offsets, groups),
        OffsetFetch: partial(fetch_offsets, groups),
        TxnOffsetCommit: partial(commit_in_transaction, groups),
        EndOffsets: partial(end_transaction, groups),
        JoinGroup: in_a_turn(joining.join),
        SyncGroup: in_a_turn(syncing.sync),
        LeaveGroup: in_a_turn(leaving.leave),
        DescribeGroup: in_a_turn(administration.describe_group),
        ListGroups: in_a_turn(administration.list_groups),
        DeleteGroup: in_a_turn(administration.delete_group),
        OffsetDelete: in_a_turn(removal.delete_offsets),
        TopicsDeleted: in_a_turn(removal.delete_topics),
        ExpireOffsets: in_a_turn(removal.expire_offsets),
        TimerFired: in_a_turn(_timer_fired),
        RequestLost: in_a_turn(lose),
        ConnectionClosed: in_a_turn(connection_closed),
    }
