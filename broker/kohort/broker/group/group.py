"""The common part of groups of all kinds: an id, a state, members, offsets."""

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar, Generic, TypeVar

from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.state import GroupState
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kohort.protocol.offsets_topic import OffsetCommitValue

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"

Offsets = dict[str, dict[int, OffsetCommitValue]]
M = TypeVar("M")


@mypyc_attr(allow_interpreted_subclasses=True)
class Group(Generic[M]):
    """A group as one shard knows it (Kafka: Group). Each kind of group is a subclass.

    It has two kinds of state: the `logged` one, and the volatile one, which is lost with the process.
    """

    __slots__ = (
        "generation_id",
        "group_id",
        "member_bytes",
        "members",
        "offsets",
        "protocol_type",
        "shard_bytes",
        "state",
        "state_since_ms",
        "subscribed_topics",
    )

    group_type: ClassVar[str]
    """Kafka's word for the kind of group."""
    logged: ClassVar[tuple[str, ...]] = ("offsets",)
    """The logged state of the group: `replay` alone changes it, `handle` never does."""
    has_offsets: ClassVar[bool] = True
    """Whether members commit offsets; those of a share group are kept by the share coordinator."""

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        self.group_id = group_id
        self.member_bytes = 0  # Of its members' metadata; the shard counts those of all its groups.
        self.shard_bytes = ShardBytes() if shard_bytes is None else shard_bytes
        self.members: dict[str, M] = {}
        self.offsets: Offsets = {}
        self.state = GroupState.EMPTY
        self.state_since_ms = -1
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.subscribed_topics: frozenset[str] | None = None  # None: unknown.

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.group_id!r}, {self.state.value}, generation={self.generation_id})"
        )

    @property
    def member_count(self) -> int:
        """How many members the group has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether the group is Empty: it has no members, and waits for none."""
        return self.state is GroupState.EMPTY

    @property
    def given_ids(self) -> Collection[str]:
        """Ids given to members that are about to join (KIP-394)."""
        return ()

    def let_go(self) -> None:
        """Forget the members of a group that is gone."""
        self._hold(-self.member_bytes)
        self.members.clear()

    # Offsets: the permission to commit and read them depends on the kind.

    @abstractmethod
    def check_commit(self, message: OffsetCommitRequest, version: int, now_ms: int) -> None:
        """Pass a commit that may be kept. Raises: ApiError (Kafka: Group.validateOffsetCommit)."""

    @abstractmethod
    def check_transactional_commit(self, message: TxnOffsetCommitRequest) -> None:
        """Pass a transaction's commit by a member. Raises: ApiError."""

    @abstractmethod
    def check_fetch(self, asked: OffsetFetchRequestGroup) -> None:
        """Pass a fetch that may be answered. Raises: ApiError (Kafka: Group.validateOffsetFetch)."""

    @property
    def may_expire_offsets(self) -> bool:
        """Whether offsets of the group expire at all (Kafka: Group.offsetExpirationCondition)."""
        return True

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic; if unknown, one does."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def _hold(self, difference_bytes: int) -> None:
        self.member_bytes += difference_bytes
        self.shard_bytes.keep_members(difference_bytes)


AnyGroup = Group[Any]
"""A group of any kind."""
