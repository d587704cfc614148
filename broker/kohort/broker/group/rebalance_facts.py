"""The coordinator's facts about rebalances, from which a journal makes events.

The coordinator only has a `Journal`; `explain` implements the one that keeps rebalances. After a load
a rebalance that was in progress is unknown: then facts about it are ignored.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from kohort.broker.group.events import Cause, Event
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol
from kohort.protocol.offsets_topic import MemberMetadata

Owners = dict[tuple[str, int], str]
"""The member that owns each partition, by topic and partition."""


class Outcome(Enum):
    """How a rebalance ended."""

    STABLE = "stable"
    EMPTY = "empty"
    RESTARTED = "restarted"


class Rejoin(msgspec.Struct, frozen=True, gc=False):
    """A member of a classic group rejoined, with its values before and now; `cause` is without its kind."""

    cause: Cause
    is_leader: bool
    protocol_type: str | None
    protocol_name: str | None
    former: tuple[JoinGroupRequestProtocol, ...]
    current: tuple[JoinGroupRequestProtocol, ...]


class RebalanceFact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fact about a rebalance."""

    group_id: str
    at_ms: int


class CauseAdded(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """An event that would have started a rebalance, if none were in progress."""

    cause: Cause


class JoinPhaseBegan(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """The members of a classic group have to join again.

    `expected` are the members of the former generation with their client ids; `joined_member_ids` have sent
    their JoinGroup already. `is_initial`: the group was empty.
    """

    cause: Cause | Rejoin
    from_generation_id: int
    members: int
    waits_for_member_ids: tuple[str, ...]
    expected: dict[str, str]
    joined_member_ids: tuple[str, ...]
    is_initial: bool


class GenerationBegan(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """The join phase of a classic group is over: its leader assigns now."""

    generation_id: int
    leader: str
    protocol_name: str
    members: int


class ClassicRebalanceEnded(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """The rebalance of a classic group is over. `former` are its members as they were logged before."""

    outcome: Outcome
    generation_id: int
    members: int
    leader: str | None
    protocol_type: str | None
    protocol_name: str | None
    former: Sequence[MemberMetadata] = ()
    assignments: Mapping[str, bytes] = {}


class EpochRebalanceBegan(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """A new group epoch begins a rebalance; `expected` are the members that stay, with their client ids."""

    cause: Cause
    from_generation_id: int
    members: int
    expected: dict[str, str]
    owners: Owners


class EpochGrew(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """A further group epoch during a rebalance: all members have to reach this one."""

    cause: Cause


class MembersRemoved(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """Members have left a group with epochs, or were removed."""

    member_ids: tuple[str, ...]
    is_expired: bool


class TargetAssigned(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """The target assignment of the newest group epoch was made."""


class MemberReconciled(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """A member has reached the newest group epoch: it has revoked what it had to."""

    member_id: str


class EpochRebalanceEnded(RebalanceFact, frozen=True, kw_only=True, gc=False):
    """Every member has its target assignment, or no member is left."""

    outcome: Outcome
    generation_id: int
    members: int
    protocol_name: str
    owners: Owners


class Journal(Protocol):
    """Follows what happens in the groups of a coordinator."""

    def note(self, noted: Event | RebalanceFact) -> Event | None:
        """Apply the next fact, and return the event to report."""
        ...

    def clear(self) -> None:
        """Forget all groups: the coordinator is dropped."""
        ...


class NoJournal:
    """The journal of a coordinator without explanations: it returns the facts that are events."""

    def note(self, noted: Event | RebalanceFact) -> Event | None:
        """Return an event, and nothing of a fact."""
        return noted if isinstance(noted, Event) else None

    def clear(self) -> None:
        """Do nothing."""
