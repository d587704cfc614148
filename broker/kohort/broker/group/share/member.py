"""A member of a share group, as the log has it."""

import msgspec

from kohort.broker.group.epochs.members import JOINING
from kohort.broker.group.epochs.partitions import Partitions


class ShareMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member, its subscription, its assignment (Kafka: ShareGroupMember).

    Partitions are shared, so that no member waits for another: a member has its target assignment as soon as
    it has reached the target's epoch.
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
        """About how many bytes the member's metadata takes."""
        return sum(map(len, self.topic_names)) + 8 * len(self.topic_names)

    @property
    def instance_id(self) -> None:
        """Share groups have no static members."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """No member has to revoke anything."""
        return 0

    @property
    def is_revoking(self) -> bool:
        """No member has to revoke anything."""
        return False

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return whether the member has come to the target of that epoch."""
        return self.epoch == assignment_epoch
