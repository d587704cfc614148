"""The classic group protocol, eager and cooperative, as one state machine.

Eager: before each join the user revokes everything. Cooperative (KIP-429): the user keeps its partitions,
joins with them, revokes only those that the new assignment takes away, and then joins again so that they can
be reassigned. The protocol is cooperative only if every listed assignor is: so a live group moves from
[range] over [cooperative-sticky, range], which is still eager, to [cooperative-sticky].

Source: KIP-62, KIP-134, KIP-345, KIP-394, KIP-429, KIP-792, KIP-800, KIP-814; ConsumerCoordinator and
AbstractCoordinator.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kohort.client.assignors import Assignor, Owned, Subscription, only_topics
from kohort.client.errors import BrokerError, ConfigurationError, KohortError
from kohort.client.membership import wire
from kohort.client.membership.membership import CODES, OUT, POLL_TIMEOUT_REASON, Membership
from kohort.client.membership.ownership import of_other_topics
from kohort.client.membership.requests import (
    ClassicAnswer,
    FindCoordinator,
    HandOut,
    MemberSettings,
    Request,
    Send,
    State,
    Wait,
)
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from kohort.client.membership.requests import Answer

PROTOCOL_TYPE = "consumer"
JOIN_GRACE_MS = 5_000  # A join is answered at the end of the rebalance timeout; Kafka waits this much longer.
REASON_LENGTH_MAX = 255  # What brokers take (KIP-800).

_THROWN_OUT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_MISSED = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS})
_IN_REBALANCE = (State.JOINING, State.ASSIGNING, State.SYNCING)


class ClassicMembership(Membership):
    """One member of one classic group."""

    def __init__(self, settings: MemberSettings, assignors: Sequence[Assignor]) -> None:
        super().__init__(settings)
        self.protocol_name: str | None = None
        self.is_leader = False
        self.is_cooperative = all(each.cooperative for each in assignors)
        self._assignors = {each.name: each for each in assignors}
        self._topics: tuple[str, ...] = ()
        self._joined_topics: tuple[str, ...] = ()
        self._group_topics: frozenset[str] = frozenset()
        self._partition_counts: Mapping[str, int] = {}
        self._shared_out: Mapping[str, int] | None = None
        self._assigned: Owned = {}  # The newest assignment and its generation, seen by the user or not.
        self._assigned_generation_id = -1
        self._subscriptions: Mapping[str, Subscription] = {}
        self._assignments: Mapping[str, bytes] = {}
        self._reason: str | None = None
        self._rejoin_afterwards: str | None = None
        self._was_passed_over = False

    # Calls of the user

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics; a member that joined with other topics rejoins."""
        wanted = tuple(sorted(set(topics)))
        if wanted != self._topics:
            self._topics = wanted
            self.rejoin("the subscription has changed")

    def rejoin(self, reason: str) -> None:
        """Rejoin, for a reason that the broker's operator can see; after a running rebalance."""
        if self.state is State.STABLE:
            self._prepare_join(reason)
        elif self.state in _IN_REBALANCE:
            self._rejoin_afterwards = reason

    @property
    def watched_topics(self) -> frozenset[str]:
        """The topics whose partitions matter to this member: its own, and the whole group's if it leads."""
        return self._group_topics.union(self._topics) if self.is_leader else frozenset(self._topics)

    def partitions_changed(self, partition_counts: Mapping[str, int]) -> None:
        """Join again if this member leads, and the topics are not as they were when it shared them out."""
        self._partition_counts = partition_counts
        if self.state is State.STABLE and self.is_leader:
            counts = self._counts_of(partition_counts)
            if self._shared_out is None:  # Came back as a static leader, and shared nothing out (KIP-814).
                self._shared_out = counts
            elif counts != self._shared_out:
                self.rejoin("the topics' partitions have changed")

    @property
    def awaits_member_id(self) -> bool:
        """Whether the coordinator is about to give it an id (KIP-394), for which the group then waits."""
        return self.state is State.JOINING and not self.member_id and self.settings.group_instance_id is None

    def leave(self, reason: str, *, leave_group: bool | None = None) -> LeaveGroupRequest | None:
        """Return the request to send, None for a non-member, or a static one that stays.

        `leave_group` lets a static member leave, or another stay until its session ends (KIP-1092).
        """
        is_member = self.member_id != "" and self.state not in OUT
        self.state = State.LEFT
        leaves = self.settings.group_instance_id is None if leave_group is None else leave_group
        if not is_member or not leaves:
            return None
        return self._leave_request(reason)

    def commit_refused(self, code: ErrorCode, generation_id: int, now_ms: int) -> bool:
        """Apply a refused commit; return whether it can be repeated after the rebalance.

        A commit from a past generation tells nothing about this member.
        """
        if self.state in _IN_REBALANCE or generation_id != self.generation_id:
            return self.generation_id >= 0
        if self.state is State.OUTSIDE and code in _MISSED:
            return self.generation_id >= 0  # It rejoins; partitions that it then still owns can be committed.
        if code is ErrorCode.FENCED_INSTANCE_ID or code in _THROWN_OUT:
            self._refused(code, "", now_ms)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin("a commit met a rebalance")
            return True
        return False

    # Calls of the network side

    def next_request(self, now_ms: int) -> Request:
        """Return the next request, or how long there is nothing to do."""
        if self.state in OUT or not self._topics:
            return Wait(None)
        if now_ms < self._not_before_ms:
            return Wait(self._not_before_ms)
        if self.generation_id >= 0 and self._poll_interval_over(now_ms):
            return self._go_idle(now_ms)
        if not self._coordinator_known:
            return FindCoordinator()
        if self.state is State.OUTSIDE and not self.has_handover:
            return self._join()
        if self.state is State.ASSIGNING:
            return HandOut(self._group_topics)
        if self.state is State.SYNCING:
            return self._sync()
        if self.member_id == "" or self.generation_id < 0:
            return Wait(None)  # Not a member, and the user has partitions to give up first.
        return self._heartbeat(now_ms)

    def hand_out(self, partition_counts: Mapping[str, int]) -> None:
        """Let the group's assignor share out these topics; the SyncGroup follows.

        Raises: the error of a user's own assignor.
        """
        assert self.state is State.ASSIGNING
        self._partition_counts = partition_counts
        self._shared_out = self._counts_of(partition_counts)
        assignor = self._assignors[self.protocol_name or ""]
        assignment = assignor.assign(self._subscriptions, partition_counts)
        self._assignments = {
            member_id: wire.encode_assignment(assignment.get(member_id, {}))
            for member_id in self._subscriptions
        }
        self.state = State.SYNCING

    def assignor_failed(self, error: Exception) -> None:
        """The user's own assignor raised: the consumer can't continue."""
        self._fail(ConfigurationError(f"the assignor {self.protocol_name!r} failed: {error!r}"))

    # Results of requests

    def answered(self, response: "Answer", now_ms: int) -> None:
        """Apply the coordinator's answer to the last request."""
        assert isinstance(response, ClassicAnswer)
        if self.state in OUT:
            return  # A commit's answer, or the user, was quicker.
        if response.error_code:
            known = response.error_code in CODES
            code = ErrorCode(response.error_code) if known else ErrorCode.UNKNOWN_SERVER_ERROR
            member_id = response.member_id if isinstance(response, JoinGroupResponse) else ""
            self._refused(code, member_id or "", now_ms)
            return
        self._failures = 0
        self._heard_ms = now_ms
        if isinstance(response, JoinGroupResponse):
            self._joined(response, now_ms)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response, now_ms)

    def failed(self, error: KohortError, now_ms: int) -> None:
        """The request could not be sent or got no answer: look for the coordinator, and try again."""
        if self.state in OUT:
            return
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
        elif code in _THROWN_OUT:
            self._depart(f"the coordinator answered {code.name}", now_ms)
            self._thrown_out(keep_member_id=code is ErrorCode.ILLEGAL_GENERATION)
            self._reason = f"thrown out with {code.name}"
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is State.JOINING:
                self._back_off(now_ms)
            self._prepare_join("the group rebalances")
        elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._back_off(now_ms)
            if self.state is not State.STABLE:
                self.state = State.OUTSIDE
        else:
            self.failed(BrokerError(code), now_ms)

    def _thrown_out(self, *, keep_member_id: bool) -> None:
        self.generation_id = -1
        if not keep_member_id:
            self.member_id = ""
        self.is_leader = False
        self._was_passed_over = False
        self._ownership.lose()
        self.state = State.OUTSIDE

    def _prepare_join(self, reason: str) -> None:
        """Rejoin, after the user has revoked what it can't keep."""
        if self._reason is None:  # The first reason to rejoin still counts.
            self._reason = reason[:REASON_LENGTH_MAX]
        self.state = State.OUTSIDE
        if not self.is_cooperative:
            self._ownership.give_up(self.owned)
        elif not self._ownership.must_revoke:
            self._ownership.give_up(of_other_topics(self.owned, self._topics))

    def _join(self) -> Send:
        self.state = State.JOINING
        self._joined_topics = self._topics
        self._rejoin_afterwards = None
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
        return Send(request, self._rebalance_patience_ms())

    def _rebalance_patience_ms(self) -> int:
        return max(self.settings.max_poll_interval_ms + JOIN_GRACE_MS, self.settings.request_timeout_ms)

    def _subscription(self, assignor: Assignor) -> bytes:
        user_data = None
        if assignor.user_data is not None:
            user_data = assignor.user_data(self._assigned, self._assigned_generation_id)
        return wire.encode_subscription(
            Subscription(
                topics=self._topics,
                owned=self.owned,
                generation_id=self._assigned_generation_id if self.generation_id >= 0 else -1,
                user_data=user_data,
                rack_id=self.settings.rack_id,
            )
        )

    def _joined(self, response: JoinGroupResponse, now_ms: int) -> None:
        self.member_id = response.member_id
        if 0 <= self.generation_id < response.generation_id - 1:
            self._was_passed_over = True
        self.generation_id = response.generation_id
        self.protocol_name = response.protocol_name
        self.is_leader = response.leader == response.member_id
        self._heartbeat_due_ms = now_ms + self.settings.heartbeat_interval_ms
        self._assignments = {}
        self._reason = None
        self.state = State.SYNCING
        if self.is_leader:
            self._lead(response)

    def _lead(self, response: JoinGroupResponse) -> None:
        self._subscriptions = {
            each.member_id: wire.decode_subscription(each.metadata, each.group_instance_id)
            for each in response.members
        }
        self._group_topics = frozenset(
            topic for each in self._subscriptions.values() for topic in each.topics
        )
        if response.skip_assignment:  # A static leader has returned; its earlier assignment still holds.
            self._shared_out = None
        else:
            self.state = State.ASSIGNING

    def _counts_of(self, partition_counts: Mapping[str, int]) -> Mapping[str, int]:
        """Return what this leader watches after its assignment: racks, if it has one itself.

        Source: ConsumerCoordinator.MetadataSnapshot.
        """
        found = only_topics(partition_counts, self._group_topics)
        return found if self.settings.rack_id else dict(found)

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
        return Send(request, self._rebalance_patience_ms())

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        try:
            assigned = wire.decode_assignment(response.assignment)
        except WireError as error:
            self._fail(
                BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignment is unreadable: {error}")
            )
            return
        given_up = self._take(assigned)
        self._assigned, self._assigned_generation_id = assigned, self.generation_id
        self._heartbeat_due_ms = now_ms + self.settings.heartbeat_interval_ms
        self.state = State.STABLE
        if self._rejoin_afterwards is None and self._topics != self._joined_topics:
            self._rejoin_afterwards = "the subscription has changed"
        if given_up:
            # Not by _prepare_join: the user first takes the new assignment, and commits what it revokes.
            self._reason = f"gives up {_names(given_up)}"[:REASON_LENGTH_MAX]
            self.state = State.OUTSIDE
        elif self._rejoin_afterwards is not None:
            self._prepare_join(self._rejoin_afterwards)
        elif self._partition_counts:  # They may have changed while the group was busy.
            self.partitions_changed(self._partition_counts)

    def _take(self, assigned: Owned) -> Owned:
        """Assign these partitions; return those to revoke.

        A static member that slept through a generation, or lost the answer to its join, is in the next one as
        if no generation was missed, and the broker accepts its commits. Others may have read its partitions
        and have committed more: it loses them, and looks up the committed offsets. One generation that it
        joined without an assignment is not a gap: no other member owned the partitions that it claimed.
        """
        was_passed_over = self._was_passed_over
        was_passed_over |= 0 <= self._assigned_generation_id < self.generation_id - 2
        self._was_passed_over = False
        return self._ownership.take_anew(assigned) if was_passed_over else self._ownership.take(assigned)

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

    def _go_idle(self, now_ms: int) -> Request:
        """Leave because the user does not poll; a static member just falls silent."""
        request = self._leave_request(POLL_TIMEOUT_REASON)
        is_static = self.settings.group_instance_id is not None
        self._depart(POLL_TIMEOUT_REASON, now_ms, by_poll_interval=True, silently=is_static)
        self._thrown_out(keep_member_id=False)
        self.state = State.IDLE
        return Wait(None) if is_static else Send(request, self.settings.request_timeout_ms)

    def _leave_request(self, reason: str) -> LeaveGroupRequest:
        member = MemberIdentity(
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            reason=reason[:REASON_LENGTH_MAX],
        )
        return LeaveGroupRequest(group_id=self.settings.group_id, member_id="", members=(member,))


def _names(owned: Owned) -> str:
    return ", ".join(f"{topic}-{each}" for topic, partitions in sorted(owned.items()) for each in partitions)
