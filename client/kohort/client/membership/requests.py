"""What a membership is told at its making, where it stands, and what it asks the network's side to do."""

from dataclasses import dataclass
from enum import Enum, auto

from kohort.protocol.messages import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest


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
    """Where the member stands."""

    OUTSIDE = (
        auto()
    )  # Has to join; as soon as there is a subscription, and the user has given up what it must.
    JOINING = auto()
    ASSIGNING = auto()  # Leads, and has to hand the partitions out.
    SYNCING = auto()
    STABLE = auto()
    IDLE = auto()  # Left because the user did not poll; joins again at the next poll.
    LEFT = auto()
    FAILED = auto()  # Refused; `error` says why.


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
