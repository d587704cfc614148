"""A member of a group that lives on a bare connection."""

from __future__ import annotations

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.attacks.wire import Line

REBALANCE_MS = 1_000
SESSION_MS = 60_000


def joining(
    group_id: str,
    member_id: str = "",
    instance_id: str | None = None,
    metadata: bytes = b"",
    rebalance_ms: int = REBALANCE_MS,
) -> JoinGroupRequest:
    """Return a request to join a group; it ends a rebalance that waits for others after a second."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


class Member:
    """One member, in the generation that it joined last."""

    def __init__(
        self, line: Line, group_id: str, metadata: bytes = b"", rebalance_ms: int = REBALANCE_MS
    ) -> None:
        self.line = line
        self.group_id = group_id
        self.metadata = metadata
        self.rebalance_ms = rebalance_ms
        self.joined = JoinGroupResponse(
            error_code=-1, protocol_name=None, leader="", member_id="", members=()
        )

    def join(self, client_id: str | None = None) -> int:
        """Join the next generation; return the error code."""
        while True:
            request = joining(
                self.group_id,
                self.joined.member_id,
                metadata=self.metadata,
                rebalance_ms=self.rebalance_ms,
            )
            self.joined = self.line.ask(request, JoinGroupResponse, 5, client_id)
            if self.joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                return self.joined.error_code

    def sync(self, assignment: bytes = b"") -> int:
        """Get the assignment, which a leader hands out to itself alone; return the error code."""
        shares = (SyncGroupRequestAssignment(member_id=self.joined.member_id, assignment=assignment),)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.joined.generation_id,
            member_id=self.joined.member_id,
            assignments=shares if self.joined.leader == self.joined.member_id else (),
        )
        return self.line.ask(request, SyncGroupResponse, 3).error_code

    def beat(self) -> int:
        """Say that it lives; return the error code."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.joined.generation_id,
            member_id=self.joined.member_id,
        )
        return self.line.ask(request, HeartbeatResponse, 3).error_code
