"""A share group: its members, its epochs, and which share partitions it has."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NoReturn
from uuid import UUID

import msgspec

from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.epochs.sessions import Session
from kohort.broker.group.group import SHARE, Group
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.state import GroupState
from kohort.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest
    from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
    from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


FIRST_EPOCH = 1
"""A new group's: its first members are in epoch 2, as Apache Kafka has it from 4.3 on."""


class ShareTopic(msgspec.Struct, frozen=True):
    """Share partitions of one topic."""

    name: str
    partitions: frozenset[int]


ShareTopics = Mapping[UUID, ShareTopic]
"""By the topic's id. No topic is without partitions."""


class ShareGroup(Group):
    """A group as one shard knows it (Kafka: ShareGroup).

    The group epoch grows with each change of what its members read, of those topics, and of which share
    partitions are ready. A share partition is ready once the share coordinator keeps its state: until then
    it is `initializing`, and nobody is given it. All of that is logged.

    `generation_id` is the group epoch; `members` stays empty, so that no classic request finds any.
    """

    group_type: ClassVar[str] = SHARE

    __slots__ = (
        "assigned_at_ms",
        "assignment_epoch",
        "deleting",
        "initialized",
        "initializing",
        "metadata_hash",
        "metadata_version",
        "name_counts",
        "overrides",
        "sessions",
        "share_members",
        "targets",
    )

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.protocol_type = SHARE
        self.subscribed_topics = frozenset()
        self.metadata_hash = 0
        self.generation_id = FIRST_EPOCH
        self.assignment_epoch = 0
        self.share_members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.initializing: ShareTopics = {}
        self.initialized: ShareTopics = {}
        self.deleting: Mapping[UUID, str] = {}
        # Derived from what is logged:
        self.name_counts: Counter[str] = Counter()
        # Volatile:
        self.sessions: dict[str, Session] = {}
        self.overrides: Mapping[str, str] = {}  # What was set for this group alone, by its last command.
        self.metadata_version: int | None = None  # Of what was last compared with `metadata_hash`.
        self.assigned_at_ms: int | None = None

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.generation_id

    @property
    def member_count(self) -> int:
        """How many members the group has."""
        return len(self.share_members)

    @property
    def is_blank(self) -> bool:
        """Whether the log says nothing of the group."""
        return False

    def share_member(self, member_id: str) -> ShareMember:
        """Return the member. Raises: ApiError UNKNOWN_MEMBER_ID."""
        member = self.share_members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    # What is logged; `replaying` alone calls these.

    def put_member(self, member: ShareMember) -> None:
        """Let the member stand as logged."""
        former = self.share_members.get(member.member_id)
        if former is not None:
            self._forget_subscription(former)
        self.share_members[member.member_id] = member
        self._hold(member.metadata_bytes)
        self.name_counts.update(member.topic_names)
        self._refresh()

    def drop_member(self, member_id: str) -> None:
        """Forget the member, if it is one."""
        member = self.share_members.pop(member_id, None)
        if member is not None:
            self._forget_subscription(member)
            self.sessions.pop(member_id, None)
            self._refresh()

    def _refresh(self) -> None:
        self.subscribed_topics = frozenset(self.name_counts)
        self.state = GroupState.STABLE if self.share_members else GroupState.EMPTY

    def _forget_subscription(self, member: ShareMember) -> None:
        self._hold(-member.metadata_bytes)
        for name in member.topic_names:
            self.name_counts[name] -= 1
            if not self.name_counts[name]:
                del self.name_counts[name]

    # Offsets: share groups commit none.

    def committer(self, message: "OffsetCommitRequest", version: int) -> NoReturn:
        """Refuse a commit. Raises: ApiError."""
        self._refuse()

    def check_transactional(self, message: "TxnOffsetCommitRequest") -> NoReturn:
        """Refuse a transaction's commit. Raises: ApiError."""
        self._refuse()

    def check_fetch(self, asked: "OffsetFetchRequestGroup") -> None:
        """Let anybody see that there are none, as Kafka does: it does not say that this is no such group."""

    def _refuse(self) -> NoReturn:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")
