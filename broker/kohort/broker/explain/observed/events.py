"""Events of a group, observed from outside. Times are in milliseconds since 1970."""

import msgspec

TIMES_UNKNOWN = 0


class ObservedMember(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member as a record of its group has it; timeouts are 0 where the record has none."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    topics: tuple[str, ...] = ()
    topic_regex: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0

    @property
    def process(self) -> tuple[str, str]:
        """Client id and host: a returning process has the same."""
        return self.client_id, self.client_host


class OwnedPartition(msgspec.Struct, frozen=True, array_like=True):
    """A partition that a member owned: the group's committed offset, and the log's end; -1 for unknown."""

    topic: str
    partition: int
    offset: int
    end_offset: int = -1

    @property
    def is_read(self) -> bool:
        """Whether it is known that nothing is behind the committed offset."""
        return 0 <= self.end_offset <= max(self.offset, 0)


class Departure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member that is gone, and when it was last known to live and to make progress; 0 for never.

    An interval is the usual time between two commits, or between two that moved an offset.
    """

    member: ObservedMember
    last_commit_ms: int = TIMES_UNKNOWN
    commit_interval_ms: int = 0
    last_progress_ms: int = TIMES_UNKNOWN
    progress_interval_ms: int = 0
    owned: tuple[OwnedPartition, ...] = ()


class Resubscription(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member whose subscription is another one."""

    member_id: str
    client_id: str
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class Grown(msgspec.Struct, frozen=True, array_like=True):
    """How many partitions of a topic were assigned before and after."""

    topic: str
    before: int
    after: int


class Subscribers(msgspec.Struct, frozen=True, array_like=True):
    """Members with one subscription: how many, and the first of their client ids."""

    topics: tuple[str, ...]
    members: int
    client_ids: tuple[str, ...]


class ObservedEvent(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", tag=True
):
    """Something that was seen at `at_ms`."""

    at_ms: int


class GroupChanged(ObservedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A generation, or a group epoch, and how it differs from the one before.

    `former_generation_id` is -1 where none is known. `moved`: partitions with another owner.
    `advanced`: partitions whose committed offset moved since the change before. `session_timeout_ms`: of a
    group with epochs, for all members. `others_commit_ms`: the last commit of a member that stays.
    """

    generation_id: int
    former_generation_id: int = -1
    members: int = 0
    former_members: int = 0
    protocol_name: str = ""
    former_protocol_name: str = ""
    joined: tuple[ObservedMember, ...] = ()
    gone: tuple[Departure, ...] = ()
    resubscribed: tuple[Resubscription, ...] = ()
    grown: tuple[Grown, ...] = ()
    subscribers: tuple[Subscribers, ...] = ()
    moved: int = 0
    advanced: int = 0
    others_commit_ms: int = TIMES_UNKNOWN
    session_timeout_ms: int = 0
    is_by_broker: bool = False
    is_metadata_changed: bool = False
    """Of a group with epochs: the hash of its topics' metadata is another one."""
    group_type: str = ""
    """Of a group with epochs: consumer, share or streams."""
    topology_epoch: int = 0
    """Of a streams group whose topology is another one: its epoch."""


class StaticMemberReturned(ObservedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A static member has another member id in the same generation: no other member had to rejoin.

    `former_commit_ms`: when it committed last under the former one.
    """

    member: ObservedMember
    former_member_id: str
    generation_id: int
    former_client_host: str = ""
    former_commit_ms: int = TIMES_UNKNOWN


class OffsetsRemoved(ObservedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """Offsets were removed at one time. `kept`: of how many partitions the group still has offsets.

    `newest_commit_ms`: when the newest of the removed offsets was committed. `empty_since_ms`: since when
    the group has no members; 0 where it has some or that is not known.
    """

    partitions: int
    topics: tuple[str, ...]
    kept: int = 0
    members: int = 0
    newest_commit_ms: int = TIMES_UNKNOWN
    empty_since_ms: int = TIMES_UNKNOWN
    retention_ms: int = 0
    is_group_removed: bool = False
    is_by_broker: bool = False
    """Of a group with epochs: offsets expire by the time of their commit alone."""


class OffsetMove(msgspec.Struct, frozen=True, array_like=True):
    """A committed offset that was replaced."""

    topic: str
    partition: int
    before: int
    after: int


class OffsetsSet(ObservedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """Offsets were committed that no member's progress explains; `moves` has the first of them.

    If that was repeated, the number of `times`, the last at `last_ms`.
    """

    partitions: int
    backward: int
    members: int = 0
    has_had_members: bool = False
    moves: tuple[OffsetMove, ...] = ()
    times: int = 1
    last_ms: int = TIMES_UNKNOWN
    is_shared: bool = False
    """The start of a share group went back between two looks."""
    is_transactional: bool = False
    """Some were committed in a transaction: the offset before may be one whose transaction was aborted."""


class OffsetMovedOn(ObservedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """A committed offset moved forward that had stood still while several members were gone, one by one."""

    topic: str
    partition: int
    before: int
    after: int
    departures: int


class TopicsChanged(ObservedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The cluster's topics have changed since the previous observation, at `since_ms`."""

    since_ms: int
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    grown: tuple[Grown, ...] = ()

    def may_be_between(self, begin_ms: int, end_ms: int) -> bool:
        """Whether the topics may have changed in that time: hours may lie between two looks."""
        return self.since_ms <= end_ms and begin_ms <= self.at_ms


class CoordinatorMoved(ObservedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """Another broker leads the partition of `__consumer_offsets` that the group is in.

    `since_ms`: the previous observation; 0 where it is not known.
    """

    node_id: int
    former_node_id: int
    is_former_gone: bool = False
    since_ms: int = TIMES_UNKNOWN

    def may_be_between(self, begin_ms: int, end_ms: int) -> bool:
        """Whether the coordinator may have moved in that time."""
        return (self.since_ms or self.at_ms) <= end_ms and begin_ms <= self.at_ms


class TransactionHolder(msgspec.Struct, frozen=True, array_like=True):
    """An open transaction: its transactional id, when it began, and when its coordinator aborts it."""

    transactional_id: str
    started_ms: int
    timeout_ms: int
    state: str


class TransactionStands(ObservedEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The last stable offset of a partition has not moved since `since_ms`, and the group stands at it.

    `timeout_ms_max`: transaction.max.timeout.ms, 0 where it is not known.
    """

    since_ms: int
    topic: str
    partition: int
    last_stable_offset: int
    end_offset: int
    timeout_ms_max: int = 0
    holders: tuple[TransactionHolder, ...] = ()
    """The open transactions that have written to the partition, the oldest first; none where not known."""
    is_without_holder: bool = False
    """Every coordinator was asked, and none told of an open transaction of the partition."""


AnyObserved = (
    GroupChanged
    | StaticMemberReturned
    | OffsetsRemoved
    | OffsetsSet
    | OffsetMovedOn
    | TopicsChanged
    | CoordinatorMoved
    | TransactionStands
)
"""Every kind of event."""

_DECODER = msgspec.json.Decoder(AnyObserved)


def read_observed(value: bytes) -> AnyObserved:
    """Return an event as `msgspec.json.encode` has written it. Raises: msgspec.DecodeError."""
    event: AnyObserved = _DECODER.decode(value)
    return event
