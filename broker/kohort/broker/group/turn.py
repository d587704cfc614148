"""One turn of the core: the command is handled, records and effects gather."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from kohort.broker.group.config import GroupConfig
from kohort.broker.group.decision import (
    NOTHING,
    CancelTimer,
    Decision,
    Effect,
    Note,
    Record,
    Reply,
    SetTimer,
    TimerKey,
)
from kohort.broker.group.events import Event
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.offsets.pending import PendingOffsets
from kohort.broker.group.rebalance_facts import Journal, RebalanceFact
from kohort.broker.group.shard_bytes import Room, ShardBytes
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.schema import Message

G = TypeVar("G", bound=AnyGroup)


class Kinds(Protocol):
    """The kinds of groups, for commands about groups of any kind."""

    def simple_group(self, group_id: str, shard_bytes: ShardBytes) -> AnyGroup:
        """Return a group that has offsets alone."""
        ...

    def tombstones(self, group: AnyGroup) -> Iterable[Record]:
        """Return the records that delete the group."""
        ...


class Parked(Protocol):
    """A member that waits for the answer to its JoinGroup or its SyncGroup."""

    awaiting_join: int | None
    awaiting_sync: int | None


class ShardState:
    """The state of a shard: its groups by id, and the member of each parked request."""

    __slots__ = (
        "by_id",
        "config",
        "given_member_ids",
        "journal",
        "kinds",
        "parked",
        "pending",
        "room",
        "shard_bytes",
        "successors",
    )

    def __init__(self, config: GroupConfig, room: Room, kinds: Kinds, journal: Journal) -> None:
        self.config = config
        self.room = room
        self.journal = journal
        self.kinds = kinds
        self.shard_bytes = ShardBytes()
        self.by_id: dict[str, AnyGroup] = {}
        self.pending = PendingOffsets()
        self.parked: dict[int, Parked] = {}
        self.given_member_ids: deque[tuple[str, str]] = deque()
        """(group id, member id) in the order in which ids were given; most of them have been used since."""
        self.successors: dict[str, AnyGroup] = {}
        """Groups that a turn has made: each takes its place when the first record about it is replayed."""

    def find(self, group_id: str, kind: type[G]) -> G | None:
        """Return the group, if there is one of that kind."""
        group = self.by_id.get(group_id)
        return group if isinstance(group, kind) else None

    def of_kind(self, kind: type[G]) -> Iterator[G]:
        """Yield the groups of that kind."""
        for group in self.by_id.values():
            if isinstance(group, kind):
                yield group

    def existing(self, group_id: str, kind: type[G]) -> G:
        """Return the group. Raises: ApiError GROUP_ID_NOT_FOUND if there is none of that kind."""
        group = self.by_id.get(group_id)
        if isinstance(group, kind):
            return group
        words = "not found" if group is None else f"is not a {kind.group_type} group"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {words}.")

    def existing_of_any_kind(self, group_id: str) -> AnyGroup:
        """Return the group. Raises: ApiError GROUP_ID_NOT_FOUND."""
        group = self.by_id.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    # Logged state; `replay` alone calls these.

    def group_with_offsets(self, group_id: str) -> AnyGroup:
        """Return the group of any kind; create a simple one if there is none."""
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = self.kinds.simple_group(group_id, self.shard_bytes)
        return group

    def group_of_kind(self, group_id: str, kind: type[G]) -> G:
        """Return the group of that kind; another one with its id in the log before is replaced.

        Offsets that were there are its own from now on.
        """
        former = self.by_id.get(group_id)
        if isinstance(former, kind):
            return former
        successor = self.successors.pop(group_id, None)
        group = successor if isinstance(successor, kind) else kind(group_id, self.shard_bytes)
        self.by_id[group_id] = group
        if former is not None:
            group.offsets = former.offsets
            former.let_go()
        return group

    def forget(self, group: AnyGroup) -> None:
        """Forget a group; its offsets, which have their own records, belong to its successor."""
        group_id = group.group_id
        del self.by_id[group_id]
        group.let_go()
        successor = self.successors.pop(group_id, None)
        if successor is not None:
            self.by_id[group_id] = successor
        if group.offsets:
            self.group_with_offsets(group_id).offsets = group.offsets


class Turn:
    """Collects the results of one command."""

    __slots__ = ("config", "effects", "groups", "now_ms", "records")

    def __init__(self, groups: ShardState, now_ms: int) -> None:
        self.groups = groups
        self.config = groups.config
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.effects: list[Effect] = []
        if groups.successors:  # Of a turn that has logged nothing about them.
            for group in groups.successors.values():
                group.let_go()
            groups.successors.clear()

    def decision(self) -> Decision:
        """Return the collected results."""
        if not self.records and not self.effects:
            return NOTHING
        return Decision(tuple(self.records), tuple(self.effects))

    def new_group(self, group_id: str, kind: type[G]) -> G:
        """Return a new group; it takes its place, perhaps of another kind's group, with its first record."""
        group = self.groups.successors[group_id] = kind(group_id, self.groups.shard_bytes)
        return group

    def log(self, record: Record) -> None:
        """Log the record, which is replayed before the next command."""
        self.records.append(record)

    def reply(self, request_id: int, message: Message) -> None:
        """Answer the request, once all records are flushed."""
        self.effects.append(Reply(request_id, message))

    def note(self, noted: Event | RebalanceFact) -> None:
        """Pass a fact to the journal, and report the event that it returns."""
        event = self.groups.journal.note(noted)
        if event is not None:
            self.effects.append(Note(event))

    def set_timer(self, key: TimerKey, deadline_ms: int) -> None:
        """Let `TimerFired(key)` come at `deadline_ms`."""
        self.effects.append(SetTimer(key, deadline_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        """Forget that timer."""
        self.effects.append(CancelTimer(key))

    def has_room(self, group: AnyGroup | None, more_bytes: int) -> bool:
        """Return whether there is room for that many more bytes of members' metadata."""
        if more_bytes <= 0:
            return True
        group_bytes = 0 if group is None else group.member_bytes
        shard_bytes = self.groups.room.member_bytes_with(self.groups.shard_bytes)
        return (
            group_bytes + more_bytes <= self.config.group_member_bytes_max
            and shard_bytes + more_bytes <= self.config.member_bytes_max
        )


Handler = Callable[[ShardState, Any, int], Decision]
"""What handles a kind of command: the shard's state, the command, and the time in milliseconds."""
