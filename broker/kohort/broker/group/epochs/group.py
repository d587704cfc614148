"""A group whose members come to its epoch one by one, as far as its kind does not matter."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from kohort.broker.group.config import GroupConfig
from kohort.broker.group.epochs.sessions import Session
from kohort.broker.group.group import Group
from kohort.broker.group.reports import Owners
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.protocol.compiled import mypyc_attr


class EpochMember(Protocol):
    """A member, as the log has it."""

    @property
    def member_id(self) -> str:
        """Its id."""
        ...

    @property
    def instance_id(self) -> str | None:
        """Its group.instance.id, where it is a static one."""
        ...

    @property
    def client_id(self) -> str:
        """What its client calls itself."""
        ...

    @property
    def client_host(self) -> str:
        """Where it connects from."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch that it has come to."""
        ...

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long it may take to give up what it has to."""
        ...

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether the member has what the target of that epoch gives it."""
        ...


M = TypeVar("M", bound=EpochMember)


@mypyc_attr(allow_interpreted_subclasses=True)
class EpochGroup(Group, Generic[M]):
    """A group whose target is made for a group epoch, to which each member comes by itself.

    The group epoch, the epoch of the target and when it was made are logged. Volatile are sessions, what
    members have to give up until when, and what was set for the group alone.
    """

    __slots__ = (
        "assigned_at_ms",
        "assignment_epoch",
        "overrides",
        "owners_before",
        "revocations",
        "sessions",
    )

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.assignment_epoch = 0
        self.assigned_at_ms: int | None = None
        self.sessions: dict[str, Session] = {}
        self.revocations: dict[str, int] = {}  # In which epoch a member was asked to give up something.
        self.owners_before: Owners = {}  # As the rebalance in progress found them.
        self.overrides: Mapping[str, str] = {}  # What was set for this group alone, by its last command.

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return self.generation_id

    @property
    @abstractmethod
    def epoch_members(self) -> Mapping[str, M]:
        """The members, by their ids."""

    @property
    def member_count(self) -> int:
        """How many members the group has."""
        return len(self.epoch_members)

    @abstractmethod
    def owners_of(self, members: Mapping[str, M]) -> Owners:
        """Return who of these has what."""

    @abstractmethod
    def assignor_name(self, members: Mapping[str, M], config: GroupConfig) -> str:
        """Return who makes the targets of these members."""
