"""The common records of groups with epochs. Each kind has its own types of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kohort.broker.group.decision import Record


class EpochRecords(NamedTuple):
    """The types of one kind of group's records: the keys, and the value with the epoch of the target."""

    group_epoch: type[Any]
    member: type[Any]
    target_epoch: type[Any]
    target_epoch_value: type[Any]
    target: type[Any]
    current: type[Any]

    def target_epoch_record(self, group_id: str, epoch: int, at_ms: int) -> Record:
        """Return the record of the group epoch of the target assignment, made at `at_ms` (0: unknown)."""
        value = self.target_epoch_value(assignment_epoch=epoch, assignment_timestamp=at_ms)
        return Record(self.target_epoch(group_id=group_id), value)

    def member_tombstones(self, group_id: str, member_id: str) -> Iterator[Record]:
        """Yield the tombstones of a member, in Kafka's order."""
        for key in (self.current, self.target, self.member):
            yield Record(key(group_id=group_id, member_id=member_id), None)
