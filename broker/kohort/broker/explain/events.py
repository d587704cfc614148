"""Reports of rebalances, and the events that `explain` adds to those of the coordinator.

Times are in milliseconds since 1970, durations in milliseconds.
"""

import msgspec

from kohort.broker.group.events import (
    Cause,
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupLoaded,
    LeaderElected,
    MemberExpired,
    MemberFenced,
    MemberIdExpired,
    MemberIdGiven,
    MemberJoined,
    MemberLeft,
    MemberRefused,
    MemberRejoined,
    OffsetsRemoved,
    RebalanceExtended,
    RebalanceStarted,
    StaticMemberReturned,
)
from kohort.broker.group.rebalance_facts import Outcome


class Waited(msgspec.Struct, frozen=True, gc=False):
    """A member that a join phase waited for, and how long; `joined` is False if it never joined."""

    member_id: str
    client_id: str
    waited_ms: int
    joined: bool


class Move(msgspec.Struct, frozen=True, gc=False):
    """One partition with a changed owner; None for no owner.

    `still_ms`: the longest time without a reader: from when its owner rejoined, left or was last seen
    to the new assignment.
    """

    topic: str
    partition: int
    from_member_id: str | None
    to_member_id: str | None
    still_ms: int


class RebalanceReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A past rebalance, explained.

    `generation_id` is the resulting one. `waited_for` has the slowest first. `still_ms` is the time
    from the start to the assignment: the longest that an eager group can read nothing. `is_initial`: the
    group was empty before, so it waited for more members on purpose.
    """

    outcome: Outcome
    generation_id: int
    cause: Cause
    further_causes: tuple[Cause, ...]
    started_ms: int
    join_ms: int
    sync_ms: int
    still_ms: int
    members: int
    leader: str | None
    protocol_name: str | None
    waited_for: tuple[Waited, ...]
    removed_member_ids: tuple[str, ...]
    moves: tuple[Move, ...]
    is_initial: bool = False
    is_by_broker: bool = False
    """Of a consumer group: the broker assigns, and each member comes to that by itself."""


class JoinCompleted(Event, frozen=True, kw_only=True):
    """Every expected member has joined or was removed: the leader assigns now."""

    generation_id: int
    leader: str
    protocol_name: str
    members: int
    waited_ms: int
    waited_for: tuple[Waited, ...]


class RebalanceCompleted(Event, frozen=True, kw_only=True):
    """A rebalance is over, one way or another."""

    report: RebalanceReport


AnyEvent = (
    MemberIdGiven
    | MemberIdExpired
    | MemberJoined
    | MemberRejoined
    | MemberLeft
    | MemberExpired
    | MemberFenced
    | StaticMemberReturned
    | MemberRefused
    | RebalanceStarted
    | RebalanceExtended
    | JoinCompleted
    | LeaderElected
    | RebalanceCompleted
    | GroupEmptied
    | GroupDeleted
    | OffsetsRemoved
    | GroupLoaded
)
"""Every kind of event: the types into which `msgspec` decodes their JSON."""
