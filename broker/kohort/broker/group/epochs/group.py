"""The common part of consumer, share and streams groups: epochs, targets and sessions."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from kohort.broker.group.config import GroupConfig
from kohort.broker.group.epochs.members import FIRST_EPOCH, M
from kohort.broker.group.epochs.sessions import Session
from kohort.broker.group.group import Group
from kohort.broker.group.rebalance_facts import Owners
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.state import GroupState
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import ApiError, ErrorCode

T = TypeVar("T")


@mypyc_attr(allow_interpreted_subclasses=True)
class EpochGroup(Group[M], Generic[M, T]):
    """A group with a target assignment for a group epoch; each member reconciles with it by itself.

    `generation_id` is the group epoch. Sessions, revocation deadlines and the group's settings are volatile.
    """

    logged: ClassVar[tuple[str, ...]] = (
        "assigned_at_ms",
        "assignment_epoch",
        "generation_id",
        "members",
        "metadata_hash",
        "offsets",
        "targets",
    )
    __slots__ = (
        "assigned_at_ms",
        "assignment_epoch",
        "instances",
        "is_rebalancing",
        "metadata_hash",
        "metadata_version",
        "overrides",
        "revocations",
        "sessions",
        "targets",
    )

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.protocol_type = self.group_type
        self.generation_id = FIRST_EPOCH
        self.subscribed_topics = frozenset()
        self.assignment_epoch = 0
        self.assigned_at_ms: int | None = None
        self.metadata_hash = 0
        self.targets: dict[str, T] = {}
        # Derived from logged state:
        self.instances: dict[str, str] = {}  # The static members' ids, by group.instance.id.
        # Volatile:
        self.metadata_version: int | None = None  # The value last compared with `metadata_hash`.
        self.sessions: dict[str, Session] = {}
        self.revocations: dict[str, int] = {}  # In which epoch a member was asked to give up something.
        self.is_rebalancing = False  # From a new group epoch on until every member is reconciled.
        self.overrides: Mapping[str, str] = {}  # The group's own settings, from its last command.

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.generation_id

    @abstractmethod
    def owners_of(self, members: Mapping[str, M]) -> Owners:
        """Return the owner of each partition or task among these members."""

    @abstractmethod
    def assignor_name(self, members: Mapping[str, M], config: GroupConfig) -> str:
        """Return the name of the assignor for these members."""

    def member(self, member_id: str) -> M:
        """Return the member. Raises: ApiError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str) -> M | None:
        """Return the member with that group.instance.id."""
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members[member_id]

    # Logged state; `replaying` alone calls these.

    def put_member(self, member: M) -> None:
        """Keep the member as its record says."""
        former = self.members.get(member.member_id)
        if former is not None:
            self._hold(-former.metadata_bytes)
            self._uncount(former)
            if former.instance_id != member.instance_id:
                self._release_instance(former)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self._hold(member.metadata_bytes)
        self._count(member)
        self.refresh()

    def drop_member(self, member_id: str) -> None:
        """Forget the member, if it is one."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._hold(-member.metadata_bytes)
        self._uncount(member)
        self.sessions.pop(member_id, None)
        self.revocations.pop(member_id, None)
        self._release_instance(member)
        self.refresh()

    def _release_instance(self, member: M) -> None:
        """Free the group.instance.id of a static member, unless another member has taken it."""
        instance_id = member.instance_id
        if instance_id is not None and self.instances.get(instance_id) == member.member_id:
            del self.instances[instance_id]

    def refresh(self) -> None:
        """Derive the subscribed topics and the state of the group."""
        self.subscribed_topics = self._topics_read()
        self.state = self._state()

    @abstractmethod
    def _topics_read(self) -> frozenset[str]:
        """Return the topics that the members read."""

    @abstractmethod
    def _count(self, member: M) -> None:
        """Count the member's subscription and its partitions or tasks."""

    @abstractmethod
    def _uncount(self, member: M) -> None:
        """Undo `_count` for the member."""

    def _state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(each.is_reconciled(self.assignment_epoch) for each in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING


AnyEpochGroup = EpochGroup[Any, Any]
"""A group with epochs, of any kind."""
