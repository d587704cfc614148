"""A group's offsets as the mirror reads and commits them, over Kafka's protocol."""

from __future__ import annotations

from typing import Protocol

from kohort.client import BrokerError, CommitFailedError, OffsetAndMetadata
from kohort.pipeline.closing import Closing
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.ingest.comparison import (
    Comparison,
    GroupBusyError,
    compare,
    require_no_members,
)
from kohort.pipeline.servers import Servers
from kohort.protocol.errors import ErrorCode

ATTEMPT_MS = 5_000


class GroupOffsets(Protocol):
    """The interface between the mirror and a group."""

    group_id: str

    def look(self, offsets: Offsets) -> Comparison:
        """Return the difference between the group and these offsets. Raises: GroupBusyError, KohortError."""
        ...

    def commit(self, offsets: Offsets, note: str) -> None:
        """Commit for the group. Raises: GroupBusyError, KohortError."""
        ...


class BrokerGroup(Closing):
    """A group on a broker; a context manager. Each call tries for ATTEMPT_MS at most."""

    def __init__(self, group_id: str, servers: Servers) -> None:
        self.group_id = group_id
        self._admin = servers.admin(default_api_timeout_ms=ATTEMPT_MS, request_timeout_ms=ATTEMPT_MS)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def look(self, offsets: Offsets) -> Comparison:
        """Return the difference between the group and these offsets. Raises: GroupBusyError, KohortError."""
        require_no_members(self.group_id, self._members())
        found = self._admin.list_group_offsets(self.group_id)
        return compare(offsets, {partition: each.offset for partition, each in found.items()})

    def commit(self, offsets: Offsets, note: str) -> None:
        """Commit without being a member, as Kafka's own tools do. Raises: GroupBusyError, KohortError."""
        values = {partition: OffsetAndMetadata(offset, note) for partition, offset in offsets.items()}
        try:
            self._admin.alter_group_offsets(self.group_id, values)
        except CommitFailedError:  # Members have joined between the look and the commit.
            raise GroupBusyError(f"group {self.group_id!r} has live members, which commit for it") from None

    def _members(self) -> int:
        try:
            return len(self._admin.describe_groups(self.group_id)[self.group_id].members)
        except BrokerError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return 0
            raise
