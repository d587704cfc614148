"""When and how racks count in handing partitions out (KIP-881)."""

from collections.abc import Mapping, Sequence, Set

from kohort.client.assignors.subscription import Partition, Racks, Subscription

MemberRacks = Mapping[str, str]
"""Racks by member id, for the members that have one."""


def racks_matter(member_racks: Set[str], racks: Sequence[frozenset[str]]) -> bool:
    """Whether racks make a difference for the assignment.

    Not if no member is in a rack with a replica, and not if every rack has a replica of everything.
    Source: AbstractPartitionAssignor.useRackAwareAssignment.
    """
    everywhere = frozenset().union(*racks)
    return not member_racks.isdisjoint(everywhere) and any(each != everywhere for each in racks)


class RackMap:
    """The members in racks with replicas, by partition; empty, and false, if racks do not matter."""

    def __init__(
        self, subscriptions: Mapping[str, Subscription], counts: Mapping[str, int], racks: Racks
    ) -> None:
        member_racks = {member_id: each.rack_id for member_id, each in subscriptions.items() if each.rack_id}
        nowhere: frozenset[str] = frozenset()
        partition_racks = {
            (topic, partition): racks[topic][partition] if partition < len(racks.get(topic, ())) else nowhere
            for topic, count in counts.items()
            for partition in range(count)
            if member_racks
        }
        matters = racks_matter(frozenset(member_racks.values()), list(partition_racks.values()))
        self.members: MemberRacks = member_racks if matters else {}
        self.partitions: Mapping[Partition, frozenset[str]] = partition_racks if matters else {}

    def __bool__(self) -> bool:
        return bool(self.members)

    def is_far(self, member_id: str, partition: Partition) -> bool:
        """Whether the member names a rack that holds no replica of the partition."""
        rack = self.members.get(member_id)
        return rack is not None and rack not in self.partitions.get(partition, ())

    def rarest_first(self, partitions: list[Partition]) -> list[Partition]:
        """Return the partitions so that those with the fewest members in their racks come first."""
        if not self:
            return partitions
        crowd: dict[str, int] = {}
        for rack in self.members.values():
            crowd[rack] = crowd.get(rack, 0) + 1
        return sorted(partitions, key=lambda each: sum(crowd.get(rack, 0) for rack in self.partitions[each]))
