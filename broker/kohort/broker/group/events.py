"""What happened in a group, for the log, the metrics and the page: `msgspec.json.encode` writes each.

Times are in milliseconds since 1970, durations in milliseconds.
"""

from enum import Enum

import msgspec

GROUP_EVENTS_TOPIC = "__group_events"


class CauseKind(Enum):
    """Why a rebalance began."""

    MEMBER_JOINED = "a member joined"
    MEMBER_LEFT = "a member left"
    MEMBER_EXPIRED = "a member missed its session timeout"
    MEMBER_DID_NOT_SYNC = "a member did not sync in time"
    MEMBER_DID_NOT_COME = "a member did not come to its new assignment in time"
    LEADER_REJOINED = "the leader rejoined"
    TOPIC_METADATA_CHANGED = "the leader saw topics or partitions change"
    METADATA_CHANGED = "topics or partitions changed"
    SUBSCRIPTION_CHANGED = "a member changed its subscription"
    OWNERSHIP_CHANGED = "a member gave up partitions (cooperative)"
    PROTOCOLS_CHANGED = "a member changed its assignors"
    STATIC_MEMBER_REPLACED = "a static member came back under a new id"
    ASSIGNMENT_TOO_LARGE = "the leader handed out more than there is room for"
    DOWNGRADED = "the last member of the consumer protocol left"
    OVER_CAPACITY = "the loaded group has more members than group.max.size"


class Cause(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The cause of a rebalance, the member, and the client's reason (KIP-800).

    `after_ms`: how long an expired member had been silent; `connection_closed_ms`: how long
    its connection had been closed by then, 0 if it was open or is unknown.
    """

    kind: CauseKind
    at_ms: int
    member_id: str = ""
    client_id: str = ""
    group_instance_id: str | None = None
    reason: str = ""
    after_ms: int = 0
    client_host: str = ""
    connection_closed_ms: int = 0


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """Something that happened in a group."""

    group_id: str
    at_ms: int


class MemberEvent(Event, frozen=True, kw_only=True):
    """Something that happened to a member."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    group_instance_id: str | None = None


class MemberIdGiven(MemberEvent, frozen=True, kw_only=True):
    """A dynamic member was sent away to join again with this id (KIP-394)."""


class MemberIdExpired(MemberEvent, frozen=True, kw_only=True):
    """An id was given and never used."""


class MemberJoined(MemberEvent, frozen=True, kw_only=True):
    """A new member is in; it takes part from the next generation."""

    reason: str = ""


class MemberRejoined(MemberEvent, frozen=True, kw_only=True):
    """A member asks for the next generation."""

    reason: str = ""


class MemberLeft(MemberEvent, frozen=True, kw_only=True):
    """A member said goodbye; `reason` in its own words (KIP-800)."""

    reason: str = ""


class MemberExpired(MemberEvent, frozen=True, kw_only=True):
    """A member was removed: its last request was `after_ms` ago."""

    after_ms: int
    reason: str = ""


class MemberFenced(MemberEvent, frozen=True, kw_only=True):
    """A second claimant of a group.instance.id took the place of this member."""

    by_member_id: str


class StaticMemberReturned(MemberEvent, frozen=True, kw_only=True):
    """A static member came back; `rebalances` says whether its group has to rebalance for it."""

    former_member_id: str
    rebalances: bool


class MemberRefused(MemberEvent, frozen=True, kw_only=True):
    """A join was answered with an error."""

    error: str


class RebalanceStarted(Event, frozen=True, kw_only=True):
    """The group asks everyone to join again; it waits for those members and for unused member ids."""

    cause: Cause
    from_generation_id: int
    members: int
    waits_for_member_ids: tuple[str, ...] = ()


class RebalanceExtended(Event, frozen=True, kw_only=True):
    """Members keep coming to a new group: it waits for more until `deadline_ms`."""

    deadline_ms: int
    members: int


class LeaderElected(Event, frozen=True, kw_only=True):
    """The former leader did not rejoin; another member leads."""

    leader: str
    former_leader: str


class GroupEmptied(Event, frozen=True, kw_only=True):
    """The last member is gone."""

    generation_id: int


class GroupDeleted(Event, frozen=True, kw_only=True):
    """The group is gone: on request, or because its last offset expired."""

    expired: bool


class OffsetsRemoved(Event, frozen=True, kw_only=True):
    """Offsets were removed; `reason` is one of expired, topic deleted, group deleted, on request."""

    offsets: int
    reason: str


class GroupLoaded(Event, frozen=True, kw_only=True, omit_defaults=True):
    """A group was loaded from the log with its members and continues.

    In a cluster: `node_id` coordinates it from now on, and `former_node_id` did before, -1 if
    unknown; `why` tells what happened to that one, and `silent_ms` how long it had been silent.
    """

    generation_id: int
    members: int
    node_id: int = -1
    former_node_id: int = -1
    why: str = ""
    silent_ms: int = 0

    @property
    def is_fail_over(self) -> bool:
        """Whether another broker coordinated the group before."""
        return self.former_node_id not in {-1, self.node_id}
