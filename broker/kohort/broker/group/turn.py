"""One turn of the core: the command is handled, records and effects gather."""

from collections import deque

from kohort.broker.group.classic.member import Member
from kohort.broker.group.config import GroupConfig
from kohort.broker.group.decision import (
    NOTHING,
    CancelTimer,
    Decision,
    Effect,
    Note,
    Record,
    Reply,
    SessionTimer,
    SetTimer,
    TimerKey,
)
from kohort.broker.group.events import Event
from kohort.broker.group.group import Group
from kohort.broker.group.offsets.pending import PendingOffsets
from kohort.broker.group.shard_bytes import Room, ShardBytes
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.schema import Message


class ShardState:
    """All that a shard knows: its groups by id, and which member each parked request belongs to."""

    __slots__ = ("by_id", "config", "given_member_ids", "parked", "pending", "room", "shard_bytes")

    def __init__(self, config: GroupConfig, room: Room) -> None:
        self.config = config
        self.room = room
        self.shard_bytes = ShardBytes()
        self.by_id: dict[str, Group] = {}
        self.pending = PendingOffsets()
        self.parked: dict[int, Member] = {}
        self.given_member_ids: deque[tuple[str, str]] = deque()
        """(group id, member id) in the order in which ids were given; most of them have been used since."""

    def get_or_create(self, group_id: str) -> Group:
        """Return the group, a new empty one where there was none."""
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = Group(group_id, self.shard_bytes)
        return group

    def existing(self, group_id: str) -> Group:
        """Return the group. Raises: ApiError GROUP_ID_NOT_FOUND."""
        group = self.by_id.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group


class Turn:
    """Gathers what one command leads to."""

    __slots__ = ("config", "effects", "groups", "now_ms", "records")

    def __init__(self, groups: ShardState, now_ms: int) -> None:
        self.groups = groups
        self.config = groups.config
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.effects: list[Effect] = []

    def decision(self) -> Decision:
        """Return what has been gathered."""
        if not self.records and not self.effects:
            return NOTHING
        return Decision(tuple(self.records), tuple(self.effects))

    def log(self, record: Record) -> None:
        """Let the record be written, and replayed before the next command."""
        self.records.append(record)

    def reply(self, request_id: int, message: Message) -> None:
        """Answer the request, once all records are flushed."""
        self.effects.append(Reply(request_id, message))

    def note(self, event: Event) -> None:
        """Tell what happened."""
        self.effects.append(Note(event))

    def set_timer(self, key: TimerKey, deadline_ms: int) -> None:
        """Let `TimerFired(key)` come at `deadline_ms`."""
        self.effects.append(SetTimer(key, deadline_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        """Forget that timer."""
        self.effects.append(CancelTimer(key))

    def extend_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Let the member's session last that long from now; its own timeout if not said."""
        member.last_seen_ms = self.now_ms
        deadline_ms = self.now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        member.session_deadline_ms = deadline_ms
        if member.timer_ms is None or member.timer_ms > deadline_ms:
            member.timer_ms = deadline_ms
            self.set_timer(SessionTimer(group.group_id, member.member_id), deadline_ms)

    def end_session(self, group: Group, member: Member) -> None:
        """Forget the member's session, and its timer: one may be owed even where the last has fired."""
        member.timer_ms = None
        self.cancel_timer(SessionTimer(group.group_id, member.member_id))
