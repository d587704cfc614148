"""The commands of members of share groups, of administrators, and of the broker.

Each command of a member has the metadata of its time: the core compares them with each
heartbeat, and needs no notice of changes.
"""

from collections.abc import Mapping
from typing import ClassVar
from uuid import UUID

import msgspec

from kohort.broker.group.group import SHARE
from kohort.broker.group.metadata import Metadata
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeDescribedGroup
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


class ShareGroupHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """Join, live, change the subscription, leave: ShareGroupHeartbeatResponse, at once."""

    group_type: ClassVar[str] = SHARE
    request_id: int
    message: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str
    metadata: Metadata

    def refused(self, code: ErrorCode) -> ShareGroupHeartbeatResponse:
        """Return the answer of a shard that can't be asked."""
        return heartbeat_error(code)


class ShareGroupDescribe(msgspec.Struct, frozen=True, gc=False):
    """Describe a share group: ShareGroupDescribeDescribedGroup."""

    group_type: ClassVar[str] = SHARE
    request_id: int
    group_id: str
    metadata: Metadata

    def refused(self, code: ErrorCode) -> ShareGroupDescribeDescribedGroup:
        """Return the answer of a shard that can't be asked."""
        return describe_error(self.group_id, code)


class ShareStateReady(msgspec.Struct, frozen=True):
    """The share coordinator keeps the state of these partitions from now on. Not answered."""

    group_type: ClassVar[str] = SHARE
    group_id: str
    partitions: Mapping[UUID, frozenset[int]]


class StartShareState(msgspec.Struct, frozen=True):
    """Note share partitions that an administrator has begin somewhere: an answer without partitions."""

    group_type: ClassVar[str] = SHARE
    request_id: int
    group_id: str
    partitions: Mapping[UUID, frozenset[int]]
    metadata: Metadata

    def refused(self, code: ErrorCode) -> DeleteShareGroupOffsetsResponse:
        """Return the answer of a shard that can't be asked."""
        return offsets_answer(code)


class ForgetShareState(msgspec.Struct, frozen=True):
    """Forget the share partitions of these topics, which no member reads: an answer without topics."""

    group_type: ClassVar[str] = SHARE
    request_id: int
    group_id: str
    topic_ids: frozenset[UUID]

    def refused(self, code: ErrorCode) -> DeleteShareGroupOffsetsResponse:
        """Return the answer of a shard that can't be asked."""
        return offsets_answer(code)


class ForgetDeletedTopics(msgspec.Struct, frozen=True):
    """Let every group forget its share partitions of deleted topics. Not answered."""

    group_type: ClassVar[str] = SHARE
    topic_ids: frozenset[UUID]


NOT_EMPTY = "The group is not empty."
"""With NON_EMPTY_GROUP. Kafka: Errors."""


def heartbeat_error(code: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    """Return the answer with the error for a member."""
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


def offsets_answer(code: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
    """Return how it went as a whole: the core knows nothing of single partitions."""
    return DeleteShareGroupOffsetsResponse(
        throttle_time_ms=0, error_code=code, error_message=message, responses=()
    )


def describe_error(
    group_id: str, code: ErrorCode, message: str | None = None
) -> ShareGroupDescribeDescribedGroup:
    """Return the description of a group that can't be described."""
    return ShareGroupDescribeDescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
