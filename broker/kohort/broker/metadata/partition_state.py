"""One partition as the cluster knows it: who holds it, who leads it, and under which epochs.

Source: org.apache.kafka.metadata.PartitionRegistration; KIP-455 (adding and removing), KIP-966 (elr).
"""

from uuid import UUID

import msgspec

NO_LEADER = -1


class PartitionState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is agreed of one partition; any change of it raises `partition_epoch`.

    `replicas` are node ids, the preferred leader first, and hold those of `adding` and `removing` while a
    reassignment goes on. `isr` and `elr` have no node in common. `directories` has the directory id of each
    replica, in their order, or is empty where none was told. What a broker alone never has comes last, so
    that its file leaves it out. Make one by the names of its fields.
    """

    index: int
    leader: int
    """The node id of the leader, or `NO_LEADER`."""
    leader_epoch: int
    """Raised whenever somebody leads anew, or nobody any more."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """The in-sync replicas; acknowledged records are on the disk of each."""
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    """Eligible to lead: left an ISR below min.insync.replicas, yet with all that was committed."""
    last_known_elr: tuple[int, ...] = ()
    """Who was eligible and then restarted uncleanly; an unclean election would look here first."""
    directories: tuple[UUID, ...] = ()


def offline_replicas(state: PartitionState, live: frozenset[int]) -> tuple[int, ...]:
    """Return the replicas that are on none of the live brokers."""
    if live.issuperset(state.replicas):
        return ()
    return tuple(node_id for node_id in state.replicas if node_id not in live)
