"""A member's side of a group: pure, no I/O, no clock.

`Membership` speaks the classic protocol. Two who serve it ask it what is owed. The network's side asks
`next_request(now_ms)` and reports what came of it with `answered` or `failed`. The user's side asks for
`begin_handover()` within a poll: there may be partitions to give up (`Revoke`, `Lose`) or to take
(`Assign`), each ended with `end_handover`. No JoinGroup goes out before the user has given up what has to
be given up, and heartbeats go on meanwhile.

Another protocol (KIP-848) is another class with the same two sides; `group_protocol` chooses.
"""

from kohort.client.membership.classic import POLL_TIMEOUT_REASON, PROTOCOL_TYPE, Departure, Membership
from kohort.client.membership.ownership import Assign, Handover, Lose, Revoke
from kohort.client.membership.requests import (
    FindCoordinator,
    HandOut,
    MemberSettings,
    Request,
    Send,
    State,
    Wait,
)

__all__ = [
    "POLL_TIMEOUT_REASON",
    "PROTOCOL_TYPE",
    "Assign",
    "Departure",
    "FindCoordinator",
    "HandOut",
    "Handover",
    "Lose",
    "MemberSettings",
    "Membership",
    "Request",
    "Revoke",
    "Send",
    "State",
    "Wait",
]
