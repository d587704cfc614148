"""The commands of members of streams groups, and of administrators.

Each command of a member has the metadata of its time: the core compares them with each
heartbeat, and needs no notice of changes.
"""

from typing import ClassVar

import msgspec

from kohort.broker.group.group import STREAMS
from kohort.broker.group.metadata import Metadata
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.streams_group_describe import StreamsGroupDescribeDescribedGroup
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


class StreamsGroupHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """Join, live, say which tasks one has, leave: StreamsGroupHeartbeatResponse, at once."""

    group_type: ClassVar[str] = STREAMS
    request_id: int
    message: StreamsGroupHeartbeatRequest
    version: int
    client_id: str
    client_host: str
    metadata: Metadata

    def refused(self, code: ErrorCode) -> StreamsGroupHeartbeatResponse:
        """Return the answer of a shard that can't be asked."""
        return heartbeat_error(code)


class StreamsGroupDescribe(msgspec.Struct, frozen=True, gc=False):
    """Describe a streams group: StreamsGroupDescribeDescribedGroup."""

    group_type: ClassVar[str] = STREAMS
    request_id: int
    group_id: str
    asks_description: bool = False
    """Whether the description of the topology is wanted, too, which is not stored here (KIP-1331)."""

    def refused(self, code: ErrorCode) -> StreamsGroupDescribeDescribedGroup:
        """Return the answer of a shard that can't be asked."""
        return describe_error(self.group_id, code)


def heartbeat_error(code: ErrorCode, message: str | None = None) -> StreamsGroupHeartbeatResponse:
    """Return the answer with the error for a member."""
    return StreamsGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=code,
        error_message=message,
        member_id="",
        member_epoch=0,
        heartbeat_interval_ms=0,
        task_offset_interval_ms=0,
        status=(),
        endpoint_information_epoch=0,
    )


def describe_error(
    group_id: str, code: ErrorCode, message: str | None = None
) -> StreamsGroupDescribeDescribedGroup:
    """Return the description of a group that can't be described."""
    return StreamsGroupDescribeDescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=(),
    )
