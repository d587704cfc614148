"""A member's side of a group: pure, no I/O, no clock.

`ClassicMembership` implements the classic protocol, `ConsumerMembership` (in `consumer`, imported on
demand) that of KIP-848. Two sides drive a membership. The network side calls
`next_request(now_ms)` and reports the result with `answered` or `failed`. The user's side calls
`begin_handover()` within a poll: there may be partitions to revoke (`Revoke`, `Lose`) or to assign
(`Assign`), each ended with `end_handover`. No JoinGroup is sent before the user has revoked what has to
be revoked, and heartbeats continue meanwhile. `group_protocol` chooses the protocol.
"""

from kohort.client.membership.classic import PROTOCOL_TYPE, ClassicMembership
from kohort.client.membership.membership import POLL_TIMEOUT_REASON, Departure, Membership
from kohort.client.membership.ownership import Assign, Handover, Lose, Revoke
from kohort.client.membership.requests import (
    FindCoordinator,
    HandOut,
    MemberSettings,
    NameTopics,
    Request,
    Send,
    SendHeartbeat,
    State,
    Wait,
)

__all__ = [
    "POLL_TIMEOUT_REASON",
    "PROTOCOL_TYPE",
    "Assign",
    "ClassicMembership",
    "Departure",
    "FindCoordinator",
    "HandOut",
    "Handover",
    "Lose",
    "MemberSettings",
    "Membership",
    "NameTopics",
    "Request",
    "Revoke",
    "Send",
    "SendHeartbeat",
    "State",
    "Wait",
]
