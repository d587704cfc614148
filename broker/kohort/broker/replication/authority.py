"""Whether a broker may act, by its lease and by the leader epochs that it got since its registration.

The lease is not requested from a server here: each renewal counts from when it was sent, on a clock that a
paused process cannot stop (CLOCK_BOOTTIME), and the broker stops by itself before the lease can have expired.
"""

from collections.abc import Hashable, Iterable
from uuid import UUID

from kohort.broker.controller.facts import UNASSIGNED
from kohort.broker.metadata.partition_state import PartitionState

ACTING_SHARE = 0.9
"""A broker acts for this part of the lease's time to live, from the request of the last renewal."""


class Authority:
    """One registration of a broker: its epoch, its lease, its folder, and the leaderships of an earlier
    one."""

    def __init__(self, node_id: int, ttl_ms: int, directory_id: UUID | None = None) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        """The data folder's; None until that is known, and then nothing is compared with it."""
        self.broker_epoch = -1
        self._acts_for_ms = int(ttl_ms * ACTING_SHARE)
        self._acts_until_ms = -1
        self._inherited: dict[Hashable, int] = {}

    def registered(
        self, broker_epoch: int, asked_ms: int, states: Iterable[tuple[Hashable, PartitionState]]
    ) -> None:
        """Start a registration: `states` are those of its own revision, or of a later one.

        Leaderships of this node id in them were given to a process that is gone.
        """
        self.broker_epoch = broker_epoch
        self._inherited = {key: state.leader_epoch for key, state in states if state.leader == self.node_id}
        self.renewed(asked_ms)

    def renewed(self, asked_ms: int) -> None:
        """Note that the renewal asked for at that time was granted."""
        self._acts_until_ms = max(self._acts_until_ms, asked_ms + self._acts_for_ms)

    def lost(self) -> None:
        """Note that the lease is lost, or that another process has registered with this node id."""
        self._acts_until_ms = -1

    def may_act(self, now_ms: int) -> bool:
        """Return whether anything may be answered at all."""
        return now_ms < self._acts_until_ms

    def is_inherited(self, key: Hashable, state: PartitionState) -> bool:
        """Return whether the state's leader epoch was given to an earlier registration.

        A new election is needed.
        """
        if state.leader != self.node_id:
            return False
        return state.leader_epoch <= self._inherited.get(key, -1)

    def may_lead(self, key: Hashable, state: PartitionState, now_ms: int) -> bool:
        """Return whether this registration may lead the partition with the state's leader epoch."""
        return (
            state.leader == self.node_id
            and self.may_act(now_ms)
            and not self.is_inherited(key, state)
            and self.has_its_folder(state)
        )

    def has_its_folder(self, state: PartitionState) -> bool:
        """Return whether the state is about the current folder, and not about one that it has replaced.

        The elector may not know yet that this broker came back empty.
        """
        if self.directory_id is None or not state.directories or self.node_id not in state.replicas:
            return True
        known = state.directories[state.replicas.index(self.node_id)]
        return known in {self.directory_id, UNASSIGNED}
