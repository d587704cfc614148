"""A member's side of a group: pure, no I/O, no clock.

`ClassicMembership` speaks the classic protocol, `ConsumerMembership` (in `consumer`, imported where it is
wished for) that of KIP-848. Two who serve a membership ask it what is owed. The network's side asks
`next_request(now_ms)` and reports what came of it with `answered` or `failed`. The user's side asks for
`begin_handover()` within a poll: there may be partitions to give up (`Revoke`, `Lose`) or to take
(`Assign`), each ended with `end_handover`. No JoinGroup goes out before the user has given up what has to
be given up, and heartbeats go on meanwhile. `group_protocol` chooses which of the two it is.
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
