"""A member of a share group, as the log has it."""

import msgspec

from kohort.broker.group.epochs.partitions import Partitions

JOINING = 0
"""The epoch with which a member joins."""
LEAVING = -1
"""The epoch with which a member goes."""


class ShareMember(msgspec.Struct, frozen=True, kw_only=True):
    """Who a member is, what it wants to read, what it has (Kafka: ShareGroupMember).

    Partitions are shared, so that nobody waits for anybody: a member has what the target gives it as soon as
    it has come to the target's epoch.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    epoch: int = JOINING
    previous_epoch: int = JOINING
    assigned: Partitions = {}

    @property
    def metadata_bytes(self) -> int:
        """About how much is kept of what the member has brought."""
        return sum(map(len, self.topic_names)) + 8 * len(self.topic_names)
