"""A membership's settings, its states, and the requests to the network side."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING
from uuid import UUID

from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:  # Members of classic groups do without these.
    from kohort.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from kohort.protocol.messages.share_group_heartbeat import (
        ShareGroupHeartbeatRequest,
        ShareGroupHeartbeatResponse,
    )


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
    rack_id: str | None = None


class State(Enum):
    """The state of the member."""

    OUTSIDE = auto()  # Has to join; when there is a subscription, and the user has revoked what it must.
    JOINING = auto()
    ASSIGNING = auto()  # Leads, and has to hand the partitions out.
    SYNCING = auto()
    STABLE = auto()
    IDLE = auto()  # Left because the user did not poll; joins again at the next poll.
    LEFT = auto()
    FAILED = auto()  # Refused; `error` has the reason.


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look the coordinator up; report with `coordinator_found` or `failed`."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send `request` to the coordinator; report its answer with `answered`, or `failed`."""

    request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send a heartbeat of KIP-848 or KIP-932 and report its result; not of one that `leaves`."""

    request: "ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest"
    answer: "type[ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse]"
    timeout_ms: int

    @property
    def joins(self) -> bool:
        """Whether it asks to join."""
        return self.request.member_epoch == 0

    @property
    def leaves(self) -> bool:
        """Whether it is a farewell."""
        return self.request.member_epoch < 0


@dataclass(frozen=True, slots=True)
class NameTopics:
    """Find the names of the topics with these ids, and call `topics_named` with the known ones."""

    topic_ids: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class HandOut:
    """This member leads: call `hand_out` with the number of partitions of these topics."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until_ms`, or with None until something else happens."""

    until_ms: int | None


Request = FindCoordinator | Send | HandOut | Wait
"""The requests of the classic protocol."""
ConsumerRequest = FindCoordinator | SendHeartbeat | NameTopics | Wait
"""The requests of the protocol of KIP-848."""
AnyRequest = Request | ConsumerRequest
ClassicAnswer = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse
if TYPE_CHECKING:
    HeartbeatAnswer = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse
    Answer = ClassicAnswer | HeartbeatAnswer
