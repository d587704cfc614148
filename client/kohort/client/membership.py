"""A member's side of the classic group protocol: pure, no I/O, no clock.

Two who serve it ask it what is owed. The network's side asks `next_request(now_ms)` and reports what
came of it with `answered` or `failed`. The user's side asks for `begin_handover()` within a poll: there
may be partitions to give up (`Revoke`, `Lose`) or to take (`Assign`), each ended with `end_handover`. No
JoinGroup goes out before the user has given up what was owned, and heartbeats go on meanwhile.

Source: KIP-62, KIP-134, KIP-345, KIP-394, KIP-800; ConsumerCoordinator and AbstractCoordinator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from kohort.client.assignors import Assignor, Owned, Subscription
from kohort.client.errors import BrokerError, ConfigurationError, KohortError
from kohort.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

PROTOCOL_TYPE = "consumer"
JOIN_GRACE_MS = 5_000  # A join is answered when the rebalance timeout is over; Kafka waits this much longer.
POLL_TIMEOUT_REASON = "consumer poll timeout has expired."


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The part of a consumer's settings that its membership follows."""

    group_id: str
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 30_000
    group_instance_id: str | None = None


class State(Enum):
    """Where the member stands."""

    OUTSIDE = auto()  # No member; joins as soon as there is a subscription.
    JOINING = auto()
    ASSIGNING = auto()  # Leads, and has to hand the partitions out.
    SYNCING = auto()
    STABLE = auto()
    IDLE = auto()  # Left because the user did not poll; joins again at the next poll.
    LEFT = auto()
    FAILED = auto()  # Refused for good; `error` says why.


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look the coordinator up; report with `coordinator_found` or `failed`."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send `request` to the coordinator; report its answer with `answered`, or `failed`."""

    request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class HandOut:
    """This member leads: call `hand_out` with the number of partitions of these topics."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until_ms`, or with None until something else happens."""

    until_ms: int | None


Request = FindCoordinator | Send | HandOut | Wait


@dataclass(frozen=True, slots=True)
class Revoke:
    """Partitions that the member must give up; commits for them still count."""

    partitions: Owned


@dataclass(frozen=True, slots=True)
class Lose:
    """Partitions that are gone already: commits for them don't count any more."""

    partitions: Owned


@dataclass(frozen=True, slots=True)
class Assign:
    """Partitions that the member may read from now on: all that it owns."""

    partitions: Owned


Handover = Revoke | Lose | Assign


class Membership:
    """One member of one group, from its first join to its leaving."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        self.settings = settings
        self.state = State.OUTSIDE
        self.member_id = ""
        self.generation_id = -1
        self.protocol_name: str | None = None
        self.is_leader = False
        self.error: KohortError | None = None
        self.handover: Handover | None = None  # What the user's side has to do next ...
        self._in_hand: Handover | None = None  # ... and what it is doing.
        self.owned: Owned = {}
        self._assignors = {each.name: each for each in assignors}
        self._topics: tuple[str, ...] = ()
        self._joined_topics: tuple[str, ...] = ()
        self._group_topics: frozenset[str] = frozenset()
        self._shared_out: Mapping[str, int] = {}
        self._last_owned: Owned = {}  # With its generation: what a sticky assignor is told.
        self._last_generation_id = -1
        self._subscriptions: Mapping[str, Subscription] = {}
        self._assignments: Mapping[str, bytes] = {}
        self._reason: str | None = None
        self._coordinator_known = False
        self._not_before_ms = 0
        self._failures = 0
        self._heartbeat_due_ms = 0
        self._last_poll_ms: int | None = None  # None while the user is inside a poll.

    # What the user does

    def subscribe(self, topics: Sequence[str]) -> None:
        """Wish for these topics; a member that has joined with others joins again."""
        wanted = tuple(sorted(set(topics)))
        if wanted != self._topics:
            self._topics = wanted
            self.rejoin("the subscription has changed")

    def rejoin(self, reason: str) -> None:
        """Join again, for a reason that the broker's operator will see (KIP-800)."""
        if self.state in (State.SYNCING, State.ASSIGNING, State.STABLE):
            self._prepare_join(reason)

    def poll_begins(self) -> bool:
        """The user is back: return whether the member had left for want of polls, and joins again."""
        self._last_poll_ms = None
        if self.state is not State.IDLE:
            return False
        self.state = State.OUTSIDE
        return True

    def poll_ends(self, now_ms: int) -> None:
        """The user has got records and works on them: the poll interval runs."""
        self._last_poll_ms = now_ms

    @property
    def has_handover(self) -> bool:
        """Whether the user's side has something to do."""
        return self.handover is not None or self._in_hand is not None

    def begin_handover(self) -> Handover | None:
        """Return what the user's side has to do now; the same again if it did not get to its end."""
        if self._in_hand is None:
            self._in_hand, self.handover = self.handover, None
            if isinstance(self._in_hand, Assign):
                self.owned = self._in_hand.partitions
        return self._in_hand

    def end_handover(self) -> None:
        """The user's side has done what `begin_handover` returned."""
        assert self._in_hand is not None
        if not isinstance(self._in_hand, Assign):
            self.owned = {}
            if not isinstance(self.handover, Assign):
                self.handover = None  # Whatever was to be taken away in the meantime is gone as well.
        self._in_hand = None

    def partitions_changed(self, partition_counts: Mapping[str, int]) -> None:
        """Join again if this member leads, and the topics are not as they were when it shared them out."""
        if (
            self.state is State.STABLE
            and self.is_leader
            and self._counts_of(partition_counts) != self._shared_out
        ):
            self.rejoin("the topics' partitions have changed")

    def leave(self, reason: str) -> LeaveGroupRequest | None:
        """Return the request to send, None for who is no member, or static and to be missed in vain."""
        is_member = self.member_id != "" and self.state not in (State.IDLE, State.LEFT, State.FAILED)
        self.state = State.LEFT
        if not is_member or self.settings.group_instance_id is not None:
            return None
        return self._leave_request(reason)

    # What the network's side asks

    def next_request(self, now_ms: int) -> Request:
        """Return what is to be sent, or how long there is nothing to do."""
        if self.state in (State.LEFT, State.FAILED, State.IDLE) or not self._topics:
            return Wait(None)
        if now_ms < self._not_before_ms:
            return Wait(self._not_before_ms)
        if self.generation_id >= 0 and self._poll_interval_over(now_ms):
            return self._go_idle()
        if not self._coordinator_known:
            return FindCoordinator()
        if self.state is State.OUTSIDE and not self.has_handover:
            return self._join()
        if self.state is State.ASSIGNING:
            return HandOut(frozenset(topic for each in self._subscriptions.values() for topic in each.topics))
        if self.state is State.SYNCING:
            return self._sync()
        if self.member_id == "" or self.generation_id < 0:
            return Wait(None)  # Not a member, and the user has partitions to give up first.
        return self._heartbeat(now_ms)

    def coordinator_found(self) -> None:
        """The coordinator is known and can be asked."""
        self._coordinator_known = True

    def hand_out(self, partition_counts: Mapping[str, int]) -> None:
        """Let the group's assignor share out these topics; the SyncGroup follows.

        Raises: whatever a user's own assignor raises.
        """
        assert self.state is State.ASSIGNING
        self._shared_out = self._counts_of(partition_counts)
        assignor = self._assignors[self.protocol_name or ""]
        assignment = assignor.assign(self._subscriptions, partition_counts)
        self._assignments = {
            member_id: _encode_assignment(assignment.get(member_id, {})) for member_id in self._subscriptions
        }
        self.state = State.SYNCING

    def assignor_failed(self, error: Exception) -> None:
        """The user's own assignor raised: the consumer can't go on."""
        self._fail(ConfigurationError(f"the assignor {self.protocol_name!r} failed: {error!r}"))

    # What came of it

    def answered(
        self, response: JoinGroupResponse | SyncGroupResponse | HeartbeatResponse, now_ms: int
    ) -> None:
        """Take in the coordinator's answer to the last request."""
        code = (
            ErrorCode(response.error_code)
            if response.error_code in _CODES
            else ErrorCode.UNKNOWN_SERVER_ERROR
        )
        if code is not ErrorCode.NONE:
            self._refused(
                code, (isinstance(response, JoinGroupResponse) and response.member_id) or "", now_ms
            )
            return
        self._failures = 0
        if isinstance(response, JoinGroupResponse):
            self._joined(response, now_ms)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response, now_ms)

    def failed(self, error: KohortError, now_ms: int) -> None:
        """The request could not be sent or got no answer: look for the coordinator, and try again."""
        if not error.retriable:
            self._fail(error)
            return
        self._coordinator_known = False
        self._back_off(now_ms)
        if self.state is State.JOINING or self.state is State.SYNCING:
            self.state = State.OUTSIDE  # Whether the broker acted is not known; joining again settles it.

    def _refused(self, code: ErrorCode, member_id: str, now_ms: int) -> None:
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = member_id
            self.state = State.OUTSIDE
        elif code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}:
            self._thrown_out(keep_member_id=code is ErrorCode.ILLEGAL_GENERATION)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._prepare_join("the group rebalances")
        elif code in {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}:
            self.failed(BrokerError(code), now_ms)
        elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._back_off(now_ms)
            if self.state is not State.STABLE:
                self.state = State.OUTSIDE
        else:
            self._fail(BrokerError(code))

    def _thrown_out(self, *, keep_member_id: bool) -> None:
        self.generation_id = -1
        if not keep_member_id:
            self.member_id = ""
        self._lose()
        self.state = State.OUTSIDE

    def _fail(self, error: KohortError) -> None:
        self.error = error
        self._lose()
        self.state = State.FAILED

    def _lose(self) -> None:
        self.handover = Lose(self.owned) if self.owned else None

    def _prepare_join(self, reason: str) -> None:
        """Rejoin, once the user has given up what is owned: the eager protocol."""
        self._reason = reason
        self.handover = Revoke(self.owned) if self.owned else None
        self.state = State.OUTSIDE

    def _join(self) -> Send:
        self.state = State.JOINING
        self._joined_topics = self._topics
        settings = self.settings
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(
                JoinGroupRequestProtocol(name=each.name, metadata=self._subscription(each))
                for each in self._assignors.values()
            ),
            reason=self._reason,
        )
        return Send(request, max(settings.max_poll_interval_ms + JOIN_GRACE_MS, settings.request_timeout_ms))

    def _subscription(self, assignor: Assignor) -> bytes:
        user_data = None
        if assignor.user_data is not None:
            user_data = assignor.user_data(self._last_owned, self._last_generation_id)
        return ConsumerProtocolSubscription(
            topics=self._topics,
            user_data=user_data,
            owned_partitions=_topic_partitions(self.owned),
            generation_id=self.generation_id,
        ).encode_versioned()

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        self.protocol_name = response.protocol_name
        self.is_leader = response.leader == response.member_id
        self._heartbeat_due_ms = now_ms + self.settings.heartbeat_interval_ms
        self._assignments = {}
        self._reason = None
        self.state = State.SYNCING
        if self.is_leader and not response.skip_assignment:
            self._subscriptions = {
                each.member_id: _decode_subscription(each.metadata, each.group_instance_id)
                for each in response.members
            }
            self._group_topics = frozenset(
                topic for each in self._subscriptions.values() for topic in each.topics
            )
            self.state = State.ASSIGNING

    def _counts_of(self, partition_counts: Mapping[str, int]) -> Mapping[str, int]:
        return {topic: partition_counts[topic] for topic in self._group_topics if topic in partition_counts}

    def _sync(self) -> Send:
        request = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in self._assignments.items()
            ),
        )
        timeout_ms = max(self.settings.max_poll_interval_ms + JOIN_GRACE_MS, self.settings.request_timeout_ms)
        return Send(request, timeout_ms)

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        try:
            partitions = _decode_assignment(response.assignment)
        except WireError as error:
            self._fail(
                BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignment is unreadable: {error}")
            )
            return
        self._last_owned, self._last_generation_id = partitions, self.generation_id
        self._heartbeat_due_ms = now_ms + self.settings.heartbeat_interval_ms
        self.handover = Assign(partitions)
        self.state = State.STABLE
        if self._topics != self._joined_topics:
            self.rejoin("the subscription has changed")

    def _heartbeat(self, now_ms: int) -> Request:
        if now_ms < self._heartbeat_due_ms:
            return Wait(min(self._heartbeat_due_ms, self._poll_due_ms()))
        self._heartbeat_due_ms = now_ms + self.settings.heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
        )
        return Send(request, min(self.settings.session_timeout_ms, self.settings.request_timeout_ms))

    def _poll_due_ms(self) -> int:
        began_ms = self._last_poll_ms
        return self._heartbeat_due_ms if began_ms is None else began_ms + self.settings.max_poll_interval_ms

    def _poll_interval_over(self, now_ms: int) -> bool:
        return self._last_poll_ms is not None and now_ms >= self._poll_due_ms()

    def _go_idle(self) -> Request:
        """Leave because the user does not poll; a static member just falls silent."""
        request = self._leave_request(POLL_TIMEOUT_REASON)
        self._thrown_out(keep_member_id=False)
        self.state = State.IDLE
        if self.settings.group_instance_id is not None:
            return Wait(None)
        return Send(request, self.settings.request_timeout_ms)

    def _leave_request(self, reason: str) -> LeaveGroupRequest:
        member = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.settings.group_instance_id, reason=reason
        )
        return LeaveGroupRequest(group_id=self.settings.group_id, member_id="", members=(member,))

    def _back_off(self, now_ms: int) -> None:
        wait_ms = min(
            self.settings.retry_backoff_max_ms, self.settings.retry_backoff_ms << min(self._failures, 20)
        )
        self._failures += 1
        self._not_before_ms = now_ms + wait_ms


_CODES = frozenset(ErrorCode)


def _topic_partitions(owned: Owned) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic=topic, partitions=each) for topic, each in sorted(owned.items()))


def _encode_assignment(partitions: Owned) -> bytes:
    return ConsumerProtocolAssignment(assigned_partitions=_topic_partitions(partitions)).encode_versioned()


def _decode_assignment(data: bytes) -> Owned:
    if not data:  # A leader that forgot this member: Kafka hands out an empty assignment.
        return {}
    decoded = ConsumerProtocolAssignment.decode_versioned(data)
    return {each.topic: each.partitions for each in decoded.assigned_partitions if each.partitions}


def _decode_subscription(data: bytes, group_instance_id: str | None) -> Subscription:
    """Return a member's wishes; one whose bytes can't be read wishes for nothing."""
    try:
        decoded = ConsumerProtocolSubscription.decode_versioned(data)
    except WireError:
        return Subscription((), group_instance_id=group_instance_id)
    return Subscription(
        topics=decoded.topics,
        owned={each.topic: each.partitions for each in decoded.owned_partitions},
        generation_id=decoded.generation_id,
        user_data=decoded.user_data,
        rack_id=decoded.rack_id,
        group_instance_id=group_instance_id,
    )
