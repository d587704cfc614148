"""One partition in the metadata: its replicas, its leader, and its epochs.

Source: org.apache.kafka.metadata.PartitionRegistration; KIP-455 (adding and removing), KIP-966 (elr).
"""

from uuid import UUID

import msgspec

NO_LEADER = -1


class PartitionState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The agreed state of one partition; any change of it raises `partition_epoch`.

    `replicas` are node ids, the preferred leader first, and include `adding` and `removing` during a
    reassignment. `isr` and `elr` have no node in common. `directories` has the directory id of each
    replica, in their order, or is empty if none is known. Fields that a single broker never has come last, so
    that its file leaves it out. Make one by the names of its fields.
    """

    index: int
    leader: int
    """The node id of the leader, or `NO_LEADER`."""
    leader_epoch: int
    """Raised whenever the leader changes, or is gone."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """The in-sync replicas; acknowledged records are on the disk of each."""
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    """Eligible to lead: left an ISR below min.insync.replicas, yet with all that was committed."""
    last_known_elr: tuple[int, ...] = ()
    """Former eligible replicas that restarted uncleanly; an unclean election would consider them first."""
    directories: tuple[UUID, ...] = ()


def offline_replicas(state: PartitionState, live: frozenset[int]) -> tuple[int, ...]:
    """Return the replicas that are on none of the live brokers."""
    if live.issuperset(state.replicas):
        return ()
    return tuple(node_id for node_id in state.replicas if node_id not in live)
