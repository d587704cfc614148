"""The protocol of KIP-848 as one state machine: heartbeats alone, and a broker that assigns.

A heartbeat has the member's subscription and owned partitions, if changed; its answer has the
member's epoch, and a changed assignment. The user revokes partitions that are no longer in it,
takes new ones, and the next heartbeat, sent at once, confirms that: only then do others get the revoked ones.
A fenced member loses everything and rejoins, with the same id. After an error, or without an answer,
the next heartbeat has all fields again.

Source: KIP-848, KIP-1082, KIP-1092; ConsumerMembershipManager, ConsumerHeartbeatRequestManager.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from kohort.client.errors import BrokerError, KohortError, UnsupportedVersionError
from kohort.client.membership.membership import CODES, OUT, POLL_TIMEOUT_REASON, Membership
from kohort.client.membership.requests import (
    ConsumerRequest,
    FindCoordinator,
    MemberSettings,
    NameTopics,
    SendHeartbeat,
    State,
    Wait,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

if TYPE_CHECKING:
    from kohort.client.membership.requests import Answer, HeartbeatAnswer
    from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatAssignment

JOINING, LEAVING, AWAY = 0, -1, -2
"""Member epochs that ask for something; -2 is that of a static member that will be back."""

_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_GONE = frozenset({*_FENCED, ErrorCode.GROUP_ID_NOT_FOUND})
_WHERE_TO_LOOK = {
    ErrorCode.UNSUPPORTED_ASSIGNOR: "compare group_remote_assignor with its group.consumer.assignors",
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "another member of the group has this group_instance_id; if it was killed, its session has to end"
        " first: poll again"
    ),
}

ById = Mapping[UUID, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class SentHeartbeat:
    """What the coordinator knows from the last accepted heartbeat."""

    topics: tuple[str, ...]
    regex: str
    owned: ById


class ConsumerMembership(Membership):
    """One member of one consumer group; `generation_id` is its epoch.

    The caller makes `member_id`, for the lifetime of its process.
    """

    resolves_patterns = True

    def __init__(self, settings: MemberSettings, member_id: str, remote_assignor: str | None = None) -> None:
        super().__init__(settings, member_id)
        self._remote_assignor = remote_assignor
        self._topics: tuple[str, ...] = ()
        self._regex = ""
        self._had_regex = False
        self._sent: SentHeartbeat | None = None  # None: send everything.
        self._assigned: ById | None = (
            None  # The subscription at the coordinator; None before the first heartbeat.
        )
        self._names: dict[UUID, str] = {}
        self._unnamed: frozenset[UUID] = frozenset()
        self._name_after_ms = 0
        self._naming_failures = 0
        self._is_taken = False  # Whether the user knows the assignment, or will.
        self._has_to_acknowledge = False

    # Calls of the user

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics, and to no pattern; the next heartbeat, at once, sends it."""
        self._topics, self._regex = tuple(sorted(set(topics))), ""

    def subscribe_pattern(self, regex: str) -> None:
        """Subscribe to the topics whose whole name matches; the broker finds them."""
        self._topics, self._regex, self._had_regex = (), regex, True

    def rejoin(self, reason: str) -> None:
        """Do nothing: the broker alone decides when partitions move."""

    @property
    def watched_topics(self) -> frozenset[str]:
        """The topics that are subscribed or assigned."""
        return frozenset(self._topics).union(self.owned)

    def partitions_changed(self, partition_counts: Mapping[str, int]) -> None:
        """Do nothing: the broker looks after that."""

    @property
    def awaits_member_id(self) -> bool:
        """Whether it is about to become a member: a leave sent before would be ignored."""
        return self.state is State.JOINING

    def leave(self, reason: str, *, leave_group: bool | None = None) -> SendHeartbeat | None:
        """Return the heartbeat to send; a static member's is temporary, unless it has to leave.

        None for a non-member, or a dynamic one that stays until its session ends (KIP-1092).
        """
        is_member = self.generation_id >= 0 and self.state not in OUT
        self.state = State.LEFT
        is_static = self.settings.group_instance_id is not None
        if not is_member or (leave_group is False and not is_static):
            return None
        return self._leave_heartbeat(AWAY if is_static and leave_group is not True else LEAVING)

    def commit_refused(self, code: ErrorCode, generation_id: int, now_ms: int) -> bool:
        """Apply a refused commit; return whether it may count in the next epoch.

        A commit from a past epoch tells nothing about this member.
        """
        if generation_id != self.generation_id:
            return self.generation_id >= 0
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            self._heartbeat_due_ms = now_ms  # The answer to the next heartbeat has the new one.
            return True
        if code in _FENCED:
            self._fenced(code, now_ms)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self._fail(BrokerError(code))
        return False

    # Calls of the network side

    def next_request(self, now_ms: int) -> ConsumerRequest:
        """Return the next request, or how long there is nothing to do."""
        if self.state in OUT or not (self._topics or self._regex):
            return Wait(None)
        if now_ms < self._not_before_ms:
            return Wait(self._not_before_ms)
        if self.generation_id >= 0 and self._poll_interval_over(now_ms):
            return self._go_idle(now_ms)
        if not self._coordinator_known:
            return FindCoordinator()
        if self.state is State.OUTSIDE:
            return Wait(None) if self.has_handover else self._join()
        if self._unnamed and now_ms >= self._name_after_ms:
            return NameTopics(self._unnamed)
        return self._heartbeat(now_ms)

    def topics_named(self, names: Mapping[UUID, str], now_ms: int) -> None:
        """Apply the names of topics; those without a name yet are requested again."""
        self._names.update(names)
        if self._assigned is None:
            return
        unnamed = self._assigned.keys() - self._names.keys()
        self._naming_failures = self._naming_failures + 1 if unnamed else 0
        wait_ms = min(
            self.settings.retry_backoff_max_ms, self.settings.retry_backoff_ms << self._naming_failures
        )
        self._name_after_ms = now_ms + wait_ms
        is_news = len(unnamed) < len(self._unnamed)
        self._unnamed = frozenset(unnamed)
        if is_news or not self._is_taken:
            self._take()

    # Results of requests

    def answered(self, response: "Answer", now_ms: int) -> None:
        """Apply the coordinator's answer to the last heartbeat."""
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._take_response(response, now_ms)

    def _take_response(self, response: "HeartbeatAnswer", now_ms: int) -> None:
        if self.state not in (State.JOINING, State.STABLE):
            return  # A commit's answer, or the user, was quicker.
        if response.error_code:
            known = response.error_code in CODES
            code = ErrorCode(response.error_code) if known else ErrorCode.UNKNOWN_SERVER_ERROR
            self._refused(code, response.error_message, now_ms)
            return
        self._failures = 0
        self._heard_ms = now_ms
        self._heartbeat_due_ms = now_ms + max(1, response.heartbeat_interval_ms)
        self.generation_id = response.member_epoch
        self.state = State.STABLE
        if response.assignment is not None:
            self._assign(response.assignment)

    def failed(self, error: KohortError, now_ms: int) -> None:
        """The heartbeat could not be sent or got no answer: send everything to the current coordinator."""
        if self.state in OUT:
            return
        self._sent = None
        if isinstance(error, UnsupportedVersionError):
            self._fail(self._not_spoken(str(error)))
            return
        if not error.retriable:
            self._fail(error)
            return
        self._coordinator_known = False
        self._again(now_ms)

    def _refused(self, code: ErrorCode, text: str | None, now_ms: int) -> None:
        self._sent = None
        if code in _GONE and self.generation_id >= 0:
            self._fenced(code, now_ms)
        elif code in _FENCED or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._again(now_ms)
        elif code is ErrorCode.UNSUPPORTED_VERSION:
            self._fail(self._not_spoken(text or code.name))
        else:
            hint = _WHERE_TO_LOOK.get(code)
            words = "; ".join(each for each in (text, hint) if each)
            self.failed(BrokerError(code, words or None), now_ms)

    def _not_spoken(self, why: str) -> UnsupportedVersionError:
        return UnsupportedVersionError(
            f"the coordinator of group {self.settings.group_id!r} does not speak the protocol of KIP-848"
            f" ({why}): give group_protocol='classic', or have the cluster's group.version raised to 1"
        )

    def _again(self, now_ms: int) -> None:
        self._back_off(now_ms)
        if self.state is State.JOINING:
            self.state = State.OUTSIDE  # Whether the broker acted is not known; joining again settles it.

    def _fenced(self, code: ErrorCode, now_ms: int) -> None:
        self._depart(f"the coordinator answered {code.name}", now_ms)
        self._outside()

    def _outside(self) -> None:
        """Lose all partitions that the user owns."""
        self.generation_id = -1
        self._sent = None
        self._assigned = None
        self._unnamed = frozenset()
        self._has_to_acknowledge = False
        self._ownership.lose()
        self.state = State.OUTSIDE

    def _fail(self, error: KohortError) -> None:
        self._outside()
        super()._fail(error)

    # Assignments

    def _assign(self, assignment: "ConsumerGroupHeartbeatAssignment | ShareGroupHeartbeatAssignment") -> None:
        assigned = {
            each.topic_id: tuple(sorted(each.partitions))
            for each in assignment.topic_partitions
            if each.partitions
        }
        if assigned == self._assigned:
            return  # It was repeated because this member sent all its fields.
        self._assigned = assigned
        self._unnamed = frozenset(assigned.keys() - self._names.keys())
        self._name_after_ms = self._naming_failures = 0
        self._is_taken = self._has_to_acknowledge = False
        if not self._unnamed:
            self._take()

    def _take(self) -> None:
        """Assign the partitions whose topics have a name."""
        assert self._assigned is not None
        named: dict[str, tuple[int, ...]] = {
            self._names[topic_id]: partitions
            for topic_id, partitions in self._assigned.items()
            if topic_id in self._names
        }
        self._ownership.take(named)
        self._is_taken = self._has_to_acknowledge = True

    def _owned_by_id(self) -> ById:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        if self._assigned is not None:  # A recreated topic has two ids; this is the newer one.
            ids |= {self._names[each]: each for each in self._assigned if each in self._names}
        return {ids[topic]: tuple(sorted(partitions)) for topic, partitions in self.owned.items()}

    # Heartbeats

    def _join(self) -> SendHeartbeat:
        self.state = State.JOINING
        self._sent = None
        return self._send(JOINING)

    def _heartbeat(self, now_ms: int) -> ConsumerRequest:
        if not self._has_news and now_ms < self._heartbeat_due_ms:
            return Wait(min(self._heartbeat_due_ms, self._poll_due_ms(), self._naming_due_ms()))
        return self._send(self.generation_id)

    @property
    def _has_news(self) -> bool:
        """Whether a change has to be sent before the next heartbeat is due."""
        sent = self._sent
        if sent is None or (sent.topics, sent.regex) != (self._topics, self._regex):
            return True
        return self._has_to_acknowledge and not self.has_handover

    def _naming_due_ms(self) -> int:
        return self._name_after_ms if self._unnamed else self._heartbeat_due_ms

    def _send(self, epoch: int) -> SendHeartbeat:
        """Return a heartbeat with the changes since the last one; a joining member owns nothing."""
        settings, sent = self.settings, self._sent
        owned: ById = {} if epoch == JOINING else self._owned_by_id()
        acknowledges = self._has_to_acknowledge and not self.has_handover
        tells_owned = sent is None or acknowledges or owned != sent.owned
        tells_regex = self._had_regex if sent is None else self._regex != sent.regex
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=settings.group_instance_id,
            rack_id=settings.rack_id if sent is None else None,
            rebalance_timeout_ms=settings.max_poll_interval_ms if sent is None else -1,
            subscribed_topic_names=(self._topics if sent is None or self._topics != sent.topics else None),
            subscribed_topic_regex=self._regex if tells_regex else None,
            server_assignor=self._remote_assignor if sent is None else None,
            topic_partitions=_topic_partitions(owned) if tells_owned else None,
        )
        if acknowledges:
            self._has_to_acknowledge = False
        self._sent = SentHeartbeat(self._topics, self._regex, owned)
        return SendHeartbeat(request, ConsumerGroupHeartbeatResponse, settings.request_timeout_ms)

    def _go_idle(self, now_ms: int) -> SendHeartbeat:
        """Leave because the user does not poll."""
        is_static = self.settings.group_instance_id is not None
        leave_heartbeat = self._leave_heartbeat(AWAY if is_static else LEAVING)
        self._depart(POLL_TIMEOUT_REASON, now_ms, by_poll_interval=True)
        self._outside()
        self.state = State.IDLE
        return leave_heartbeat

    def _leave_heartbeat(self, epoch: int) -> SendHeartbeat:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.settings.group_instance_id,
        )
        return SendHeartbeat(request, ConsumerGroupHeartbeatResponse, self.settings.request_timeout_ms)


def _topic_partitions(owned: ById) -> tuple[ConsumerGroupHeartbeatTopicPartitions, ...]:
    return tuple(
        ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in sorted(owned.items())
    )
