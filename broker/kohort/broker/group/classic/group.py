"""A classic group and its members: its generation, its leader's assignment, what each member waits for."""

from collections.abc import Collection
from typing import ClassVar

from kohort.broker.group.group import CLASSIC, CONSUMER, Group
from kohort.broker.group.partition import hash_table_place
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.state import TRANSITIONS, GroupState
from kohort.broker.group.subscriptions import subscribed_topics
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import ApiError, ErrorCode, WireError
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kohort.protocol.offsets_topic import GroupMetadataValue, MemberMetadata

PROTOCOL_BYTES = 128  # What an entry of `protocols` takes besides its name and its metadata.
LOST = -1  # Marks a parked request whose client disconnected: it counts, but its answer is dropped.


class Member:
    """A member, its protocols, and its parked requests (Kafka: ClassicGroupMember).

    `connection_closed_ms` is when the connection closed over which it last joined or synced, 0 before.
    `awaiting_join` and `awaiting_sync` are ids of parked requests; `parking` alone sets them.
    `timer_ms` is when the session timer that the shell holds will fire: a heartbeat moves only
    `session_deadline_ms`, and the timer is set again when it fires too early.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "connection_closed_ms",
        "instance_id",
        "is_new",
        "join_version",
        "last_seen_ms",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "timer_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[JoinGroupRequestProtocol, ...],
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = unique_by_name(protocols)
        self.assignment = b""
        self.is_new = False
        self.awaiting_join: int | None = None
        self.join_version = 0
        self.awaiting_sync: int | None = None
        self.session_deadline_ms = 0
        self.last_seen_ms = 0
        self.connection_closed_ms = 0
        self.timer_ms: int | None = None

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, instance={self.instance_id!r})"

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the member is parked, which keeps its session alive."""
        return self.awaiting_join is not None or self.awaiting_sync is not None

    @property
    def metadata_bytes(self) -> int:
        """About how many bytes the member's protocols and its assignment take."""
        return bytes_of(self.protocols) + len(self.assignment)

    def metadata(self, protocol_name: str | None) -> bytes | None:
        """Return the member's metadata for that protocol, or None if it does not support it."""
        for each in self.protocols:
            if each.name == protocol_name:
                return each.metadata
        return None

    def matches(self, protocols: tuple[JoinGroupRequestProtocol, ...]) -> bool:
        """Return whether these are the protocols that the member joined with."""
        return self.protocols == unique_by_name(protocols)


def bytes_of(protocols: tuple[JoinGroupRequestProtocol, ...]) -> int:
    """Return about how many bytes the protocols take."""
    size_bytes = 0
    for each in protocols:
        size_bytes += PROTOCOL_BYTES + len(each.name) + len(each.metadata)
    return size_bytes


def unique_by_name(
    protocols: tuple[JoinGroupRequestProtocol, ...],
) -> tuple[JoinGroupRequestProtocol, ...]:
    """Return the protocols without a second one of the same name."""
    if len(protocols) < 2:
        return tuple(protocols)
    first: dict[str, JoinGroupRequestProtocol] = {}
    for protocol in protocols:
        first.setdefault(protocol.name, protocol)
    return tuple(first.values())


def loaded_member(metadata: MemberMetadata, protocol_name: str | None) -> Member:
    """Return a member as the log knows it: with the one protocol that its group had chosen."""
    protocol = JoinGroupRequestProtocol(name=protocol_name or "", metadata=metadata.subscription)
    timeout_ms = metadata.rebalance_timeout
    return Member(
        member_id=metadata.member_id,
        instance_id=metadata.group_instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.session_timeout if timeout_ms < 0 else timeout_ms,
        session_timeout_ms=metadata.session_timeout,
        protocols=(protocol,),
    )


class InitialDelay:
    """How long the join phase of a new group waits for more members (`group.initial.rebalance.delay.ms`).

    It waits for `delay_ms`. Where `has_new_member` says that members keep coming it waits again, for
    `remaining_ms` more in total.
    """

    __slots__ = ("delay_ms", "has_new_member", "remaining_ms")

    def __init__(self, delay_ms: int, rebalance_timeout_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = max(rebalance_timeout_ms - delay_ms, 0)
        self.has_new_member = False


@mypyc_attr(allow_interpreted_subclasses=True)
class ClassicGroup(Group[Member]):
    """A group whose members join and sync together, generation after generation (Kafka: ClassicGroup).

    A group with offsets that never had members is one, too. Its members are volatile: they may have
    joined a generation whose assignment is not logged yet.
    """

    __slots__ = (
        "are_assignments_void",
        "awaiting_joins",
        "initial_delay",
        "join_deadline_ms",
        "leader",
        "metadata",
        "pending_members",
        "pending_syncs",
        "protocol_counts",
        "protocol_name",
        "static_members",
        "sync_deadline_ms",
    )

    group_type: ClassVar[str] = CLASSIC
    logged: ClassVar[tuple[str, ...]] = ("offsets", "metadata")

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.metadata: GroupMetadataValue | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.static_members: dict[str, str] = {}
        self.protocol_counts: dict[str, int] = {}
        self.awaiting_joins = 0
        self.are_assignments_void = False  # A sync phase was given up: Kafka shows none until the next.
        self.pending_members: dict[str, int] = {}  # Given ids (KIP-394), and when each expires.
        self.pending_syncs: dict[str, None] = {}  # In order, unlike a set: decisions shall not vary.
        self.join_deadline_ms: int | None = None
        self.initial_delay: InitialDelay | None = None  # Of a join phase that began with an empty group.
        self.sync_deadline_ms: int | None = None

    def become(self, state: GroupState, now_ms: int) -> None:
        """Change to `state`; a transition that Kafka's groups do not have is a bug."""
        assert state in TRANSITIONS[self.state], (self, state)
        self.state = state
        self.state_since_ms = now_ms

    # Members.

    def add(self, member: Member) -> None:
        """Take a member in; the first one leads and says what kind of group it is."""
        assert member.member_id not in self.members, member
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, member
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member:
        """Remove the member and return it; its parked requests have been answered before."""
        member = self.members.pop(member_id)
        assert not member.is_waiting, member
        self._count(member, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_syncs.pop(member_id, None)
        return member

    def replace(self, old: Member, new: Member) -> None:
        """Let a second claimant of a group.instance.id replace the first (KIP-345)."""
        assert not old.is_waiting, old
        assert new.instance_id is not None
        new.assignment = old.assignment
        self.members = {
            each.member_id: each for each in (new if one is old else one for one in self.members.values())
        }
        self._count(old, -1)
        self._count(new, 1)
        self.static_members[new.instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id
        if old.member_id in self.pending_syncs:
            del self.pending_syncs[old.member_id]
            self.pending_syncs[new.member_id] = None

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """Return the member. Raises: ApiError as in Kafka for unknown and for fenced members."""
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    @property
    def given_ids(self) -> Collection[str]:
        """Ids given to members that are about to join (KIP-394)."""
        return self.pending_members.keys()

    @property
    def is_blank(self) -> bool:
        """Whether the log has no record of the group, and no member is about to join it."""
        return self.is_empty and self.metadata is None and not self.offsets and not self.pending_members

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group waits for its members to join, or for its leader to assign."""
        return self.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)

    @property
    def has_all_members_joined(self) -> bool:
        """Whether no member and no given id is missing in the join phase."""
        return self.awaiting_joins == len(self.members) and not self.pending_members

    def rebalance_timeout_ms(self) -> int:
        """Return the longest time that a member asks for to rejoin."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    # Protocols.

    def supports(self, protocol_type: str, protocols: tuple[JoinGroupRequestProtocol, ...]) -> bool:
        """Return whether a member with these protocols fits: all members support one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everyone = len(self.members)
        if protocol_type != self.protocol_type:
            return False
        for each in protocols:  # noqa: SIM110  # Twice as quick without a generator.
            if self.protocol_counts.get(each.name, 0) == everyone:
                return True
        return False

    def select_protocol(self) -> str:
        """Return the protocol with most votes; each member votes for its first that all support.

        Of equal votes it takes the one that Kafka happens to choose, the first in a hash table: a group
        that moves from Kafka to kohort should not rebalance for it.
        """
        if len(self.protocol_counts) == 1:
            return next(iter(self.protocol_counts))
        everyone = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(
                each.name for each in member.protocols if self.protocol_counts[each.name] == everyone
            )
            votes[choice] = votes.get(choice, 0) + 1
        if len(votes) == 1:
            return next(iter(votes))
        return max(votes, key=lambda name: (votes[name], -hash_table_place(name)))

    def update_protocols(self, member: Member, protocols: tuple[JoinGroupRequestProtocol, ...]) -> None:
        """Replace the member's protocols."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Set the member's assignment."""
        self._hold(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def _count(self, member: Member, difference: int) -> None:
        metadata_bytes = difference * member.metadata_bytes
        self.member_bytes += metadata_bytes
        self.shard_bytes.keep_members(metadata_bytes)
        for protocol in member.protocols:
            count = self.protocol_counts.get(protocol.name, 0) + difference
            if count:
                self.protocol_counts[protocol.name] = count
            else:
                del self.protocol_counts[protocol.name]

    def subscribes_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic; if unknown, a group of consumers does."""
        return self.protocol_type == CONSUMER and super().subscribes_to(topic)

    def read_subscriptions(self) -> None:
        """Remember the subscriptions of the members of a consumer group, from its new generation on."""
        self.subscribed_topics = self._subscriptions()

    def _subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
            return None
        brought: set[bytes] = set()
        for member in self.members.values():
            metadata = member.metadata(self.protocol_name)
            if metadata is None:
                return None
            brought.add(metadata)
        try:
            topics = [subscribed_topics(metadata) for metadata in brought]
        except WireError:
            return None
        # Usually all members send the same bytes, and all groups share what was decoded.
        return topics[0] if len(topics) == 1 else frozenset[str]().union(*topics)

    # Offsets.

    @property
    def may_expire_offsets(self) -> bool:
        """Whether the group is empty, or the subscriptions of all its members are known."""
        return self.is_empty or (self.state is GroupState.STABLE and self.subscribed_topics is not None)

    def check_commit(self, message: OffsetCommitRequest, version: int, now_ms: int) -> None:
        """Check that a commit is allowed, and extend its member's session.

        Raises: ApiError (Kafka: ClassicGroup.validateOffsetCommit).
        """
        generation_id = message.generation_id_or_member_epoch
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return  # A simple commit: of a consumer without a group, or of an administrator.
        if generation_id < 0 and not message.member_id and message.group_instance_id is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_member(message.member_id, message.group_instance_id)
        if generation_id != self.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        if self.state is not GroupState.EMPTY:
            member.last_seen_ms = now_ms
            member.session_deadline_ms = now_ms + member.session_timeout_ms

    def check_transactional_commit(self, message: TxnOffsetCommitRequest) -> None:
        """Pass a transaction's commit by a member. Raises: ApiError."""
        self.check_member(message.member_id, message.group_instance_id)
        if message.generation_id_or_member_epoch != self.generation_id:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(self, asked: OffsetFetchRequestGroup) -> None:
        """Pass every fetch."""
