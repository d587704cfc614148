"""Commits without a member."""

from __future__ import annotations

from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.attacks.innocent import TOPIC


def commit_of(group_id: str, offset: int = 1, topic: str = TOPIC) -> OffsetCommitRequest:
    """Return a commit of one partition by nobody's member."""
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group_id, topics=(OffsetCommitRequestTopic(name=topic, partitions=(place,)),)
    )
