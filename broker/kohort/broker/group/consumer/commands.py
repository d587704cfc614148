"""The commands of members of consumer groups, and of administrators.

Each command has the metadata of its time: the core compares them with each heartbeat, and needs no
notice of changes.
"""

from collections.abc import Callable
from typing import ClassVar

import msgspec

from kohort.broker.group.group import CONSUMER
from kohort.broker.group.metadata import Metadata
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeDescribedGroup
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerGroupHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """Join, live, change the subscription, leave: ConsumerGroupHeartbeatResponse, at once.

    `member_id` is a new member id, for a request of version 0 without one.
    """

    group_type: ClassVar[str] = CONSUMER
    request_id: int
    message: ConsumerGroupHeartbeatRequest
    version: int
    member_id: str
    client_id: str
    client_host: str
    metadata: Metadata
    may_describe: Callable[[str], bool]
    """The topics that an expression may match."""

    def refused(self, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        """Return the answer of a shard that can't be asked."""
        return heartbeat_error(code)


class ConsumerGroupDescribe(msgspec.Struct, frozen=True, gc=False):
    """Describe a consumer group: ConsumerGroupDescribeDescribedGroup."""

    group_type: ClassVar[str] = CONSUMER
    request_id: int
    group_id: str
    metadata: Metadata

    def refused(self, code: ErrorCode) -> ConsumerGroupDescribeDescribedGroup:
        """Return the answer of a shard that can't be asked."""
        return describe_error(self.group_id, code)


def heartbeat_error(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Return the answer with the error for a member."""
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


def describe_error(
    group_id: str, code: ErrorCode, message: str | None = None
) -> ConsumerGroupDescribeDescribedGroup:
    """Return the description of a group that can't be described."""
    return ConsumerGroupDescribeDescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
