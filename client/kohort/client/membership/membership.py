"""The common part of all group protocols: the user's calls, and their time limits."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from kohort.client.assignors import Owned
from kohort.client.errors import KohortError
from kohort.client.membership.ownership import Handover, Ownership
from kohort.client.membership.requests import AnyRequest, MemberSettings, SendHeartbeat, State
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.leave_group import LeaveGroupRequest

if TYPE_CHECKING:
    from kohort.client.membership.requests import Answer

POLL_TIMEOUT_REASON = "consumer poll timeout has expired."

CODES = frozenset(ErrorCode)
OUT = (State.IDLE, State.LEFT, State.FAILED)  # A tuple: a comparison with three values needs no hash.
_FOR_GOOD = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INVALID_CONFIG, ErrorCode.UNSUPPORTED_VERSION})


@dataclass(frozen=True, slots=True)
class Departure:
    """The time at which the member left without a call of the user, or was fenced."""

    reason: str
    at_ms: int
    silent_ms: int
    """How long the coordinator had not answered by then."""
    by_poll_interval: bool = False
    silently: bool = False
    """Whether no leave was sent: a static member only stops its heartbeats."""


class Membership(ABC):
    """One member of one group, from its first join to its leaving."""

    resolves_patterns = False
    """Whether the broker resolves patterns."""

    def __init__(self, settings: MemberSettings, member_id: str = "") -> None:
        self.settings = settings
        self.state = State.OUTSIDE
        self.member_id = member_id
        self.generation_id = -1  # Or the member's epoch: the epoch of its commits. -1 for a non-member.
        self.error: KohortError | None = None
        self.departure: Departure | None = None  # Until it was reported to the user, who sets None.
        self._ownership = Ownership()
        self._coordinator_known = False
        self._not_before_ms = 0
        self._failures = 0
        self._heartbeat_due_ms = 0
        self._heard_ms = 0
        self._last_poll_ms: int | None = None  # None while the user is inside a poll.

    # Calls of the user

    @abstractmethod
    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics."""

    def subscribe_pattern(self, regex: str) -> None:
        """Subscribe to the topics that the broker finds for this expression, if it `resolves_patterns`."""
        raise AssertionError(f"{regex}: this protocol knows topics by their names alone")

    @abstractmethod
    def rejoin(self, reason: str) -> None:
        """Let the group rebalance, for a reason that the broker's operator will see."""

    def poll_begins(self) -> bool:
        """A poll begins: return whether the member had left because of missing polls, and rejoins."""
        self._last_poll_ms = None
        if self.state is not State.IDLE:
            return False
        self.state = State.OUTSIDE
        return True

    def poll_ends(self, now_ms: int) -> None:
        """The user has got records and works on them: the poll interval runs."""
        self._last_poll_ms = now_ms

    def take_error(self) -> KohortError | None:
        """Return the coordinator's error, once; a fenced member's error stays.

        After any other error the next poll rejoins.
        """
        error = self.error
        if error is not None and error.code not in _FOR_GOOD:
            self.error = None
            self.state = State.OUTSIDE
        return error

    @property
    def owned(self) -> Owned:
        """The partitions that the user believes to own."""
        return self._ownership.owned

    @property
    def lost(self) -> Owned:
        """Lost partitions that the user may not know yet: commits for them don't count."""
        return self._ownership.lost

    @property
    def has_handover(self) -> bool:
        """Whether the user's side has something to do; cheap, and from any thread."""
        return not self._ownership.is_settled

    @property
    def handover(self) -> Handover | None:
        """The next handover for the user's side."""
        return self._ownership.next

    def begin_handover(self) -> Handover | None:
        """Return the current handover for the user's side; the same again until it is ended."""
        return self._ownership.begin()

    def end_handover(self) -> None:
        """The user's side has done what `begin_handover` returned."""
        self._ownership.end()

    @property
    @abstractmethod
    def watched_topics(self) -> frozenset[str]:
        """The topics whose partitions matter to this member."""

    @abstractmethod
    def partitions_changed(self, partition_counts: Mapping[str, int]) -> None:
        """Apply the numbers of partitions of topics."""

    @property
    @abstractmethod
    def awaits_member_id(self) -> bool:
        """Whether the coordinator is about to give it an id that it then has to give back."""

    @abstractmethod
    def leave(
        self, reason: str, *, leave_group: bool | None = None
    ) -> LeaveGroupRequest | SendHeartbeat | None:
        """Return the leave request, None for a non-member, or a static one that stays.

        `leave_group` lets a static member leave for good, or another stay until its session ends (KIP-1092).
        """

    @abstractmethod
    def commit_refused(self, code: ErrorCode, generation_id: int, now_ms: int) -> bool:
        """Apply a refused commit; return whether it may count later.

        A commit from a past generation tells nothing about this member.
        """

    # Calls of the network side

    @abstractmethod
    def next_request(self, now_ms: int) -> AnyRequest:
        """Return the next request, or how long there is nothing to do."""

    def coordinator_found(self) -> None:
        """The coordinator is known and can be asked."""
        self._coordinator_known = True

    def topics_named(self, names: Mapping[UUID, str], now_ms: int) -> None:
        """Apply the names of topics, after `NameTopics`."""
        raise AssertionError(f"{names}: this protocol names topics itself")

    # Results of requests

    @abstractmethod
    def answered(self, response: "Answer", now_ms: int) -> None:
        """Apply the coordinator's answer to the last request."""

    @abstractmethod
    def failed(self, error: KohortError, now_ms: int) -> None:
        """The request could not be sent or got no answer: look for the coordinator, and try again."""

    # For implementations of a protocol

    def _depart(
        self, reason: str, now_ms: int, *, by_poll_interval: bool = False, silently: bool = False
    ) -> None:
        if self.generation_id >= 0:
            self.departure = Departure(reason, now_ms, now_ms - self._heard_ms, by_poll_interval, silently)

    def _fail(self, error: KohortError) -> None:
        self.error = error
        self.generation_id = -1
        self._ownership.lose()
        self.state = State.FAILED

    def _poll_due_ms(self) -> int:
        began_ms = self._last_poll_ms
        return self._heartbeat_due_ms if began_ms is None else began_ms + self.settings.max_poll_interval_ms

    def _poll_interval_over(self, now_ms: int) -> bool:
        return self._last_poll_ms is not None and now_ms >= self._poll_due_ms()

    def _back_off(self, now_ms: int) -> None:
        wait_ms = min(
            self.settings.retry_backoff_max_ms, self.settings.retry_backoff_ms << min(self._failures, 20)
        )
        self._failures += 1
        self._not_before_ms = now_ms + wait_ms
