"""A share group: its members, its epochs, and which share partitions it has."""

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, NoReturn
from uuid import UUID

import msgspec

from kohort.broker.group.config import GroupConfig
from kohort.broker.group.epochs.group import EpochGroup
from kohort.broker.group.epochs.members import count_down
from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.group import SHARE
from kohort.broker.group.rebalance_facts import Owners
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.share.assignor import NAME
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.state import GroupState
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class ShareTopic(msgspec.Struct, frozen=True):
    """Share partitions of one topic."""

    name: str
    partitions: frozenset[int]


ShareTopics = Mapping[UUID, ShareTopic]
"""By the topic's id. No topic is without partitions."""


class ShareGroup(EpochGroup[ShareMember, Partitions]):
    """A group as one shard knows it (Kafka: ShareGroup).

    The group epoch grows with each change of what its members read, of those topics, and of which share
    partitions are ready. A share partition is ready when the share coordinator has its state: until then
    it is `initializing`, and is not assigned. All of that is logged.
    """

    group_type: ClassVar[str] = SHARE
    logged: ClassVar[tuple[str, ...]] = (*EpochGroup.logged, "deleting", "initialized", "initializing")
    has_offsets: ClassVar[bool] = False

    __slots__ = ("deleting", "initialized", "initializing", "name_counts")

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.initializing: ShareTopics = {}
        self.initialized: ShareTopics = {}
        self.deleting: Mapping[UUID, str] = {}
        # Derived from logged state:
        self.name_counts: Counter[str] = Counter()

    def owners_of(self, members: Mapping[str, ShareMember]) -> Owners:
        """Return no owners: partitions are shared."""
        return {}

    def assignor_name(self, members: Mapping[str, ShareMember], config: GroupConfig) -> str:
        """Return the only assignor that there is."""
        return NAME

    def _topics_read(self) -> frozenset[str]:
        return frozenset(self.name_counts)

    def _count(self, member: ShareMember) -> None:
        self.name_counts.update(member.topic_names)

    def _uncount(self, member: ShareMember) -> None:
        for name in member.topic_names:
            count_down(self.name_counts, name)

    def _state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    # Offsets: share groups commit none.

    def check_commit(self, message: OffsetCommitRequest, version: int, now_ms: int) -> NoReturn:
        """Refuse a commit. Raises: ApiError."""
        self._refuse()

    def check_transactional_commit(self, message: TxnOffsetCommitRequest) -> NoReturn:
        """Refuse a transaction's commit. Raises: ApiError."""
        self._refuse()

    def check_fetch(self, asked: OffsetFetchRequestGroup) -> None:
        """Return that there are none, as Kafka does: it does not report the wrong kind of group."""

    def _refuse(self) -> NoReturn:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")
