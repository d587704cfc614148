"""The parts of a broker alone, which a member of a cluster has others of."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from kohort.broker.composition.folder import new_cluster_id, open_folder
from kohort.broker.config.current import CurrentConfig
from kohort.broker.lag import EndsElsewhere, NoneElsewhere
from kohort.broker.metadata import BrokerState, ChangeUnknown, EmbeddedMetadataStore, MetadataStore
from kohort.broker.metadata.leader_epochs import raise_leader_epochs
from kohort.broker.metadata.topic_plans import place_in_turn
from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.partitions.raising_epochs import RaisingEpochs
from kohort.broker.partitions.unsynced import Unsynced
from kohort.broker.runtime.garbage import without_collections
from kohort.broker.runtime.supervisor import Supervisor
from kohort.storage import FileSystem, StorageError

if TYPE_CHECKING:
    from kohort.broker.transport.addresses import Address
    from kohort.broker.transport.dispatch import Dispatch

log = structlog.get_logger("kohort.broker")


class Standalone:
    """A broker alone keeps its own metadata, and leads all partitions that it has.

    `composition.membership.Membership` has the same attributes and methods.
    """

    member = None
    others = None
    may_lead = None
    expel = None
    forget_life = None
    place = staticmethod(place_in_turn)

    def __init__(
        self, current: CurrentConfig, path: Path, filesystem: FileSystem, *, forget_stored_settings: bool
    ) -> None:
        """Open the data folder, and read the metadata in it. Raises: StorageError."""
        self._node_id = current.config.node_id
        self.data = open_folder(path, filesystem)
        self.cluster_id = self.data.meta.cluster_id if self.data.meta else new_cluster_id()
        self.data.write_meta(self.cluster_id, self._node_id)
        self.metadata: MetadataStore = EmbeddedMetadataStore.open(
            filesystem,
            self.data.path,
            cluster_id=self.cluster_id,
            node_id=self._node_id,
            forget_broker_settings=forget_stored_settings,
        )

    def unsynced(self) -> Unsynced:
        """Return the registry of partitions with unsynced records."""
        return Unsynced()

    def on_lost_tail(self, raising: RaisingEpochs) -> Callable[[Partition], None]:
        """Return the function that is called for a log that has lost its end."""
        return raising.lost_tail

    def replicas(self, **_parts: Any) -> None:
        """Return no roles: no partition has replicas elsewhere."""

    def takeovers(self, *_parts: object) -> None:
        """Return nothing: no other broker's groups are taken over."""

    def ends_elsewhere(self, *_parts: object) -> EndsElsewhere:
        """Return the function for the ends of logs that other brokers lead."""
        return NoneElsewhere()

    def between_brokers(self, *_parts: object) -> None:
        """Return nothing: no other broker asks."""

    def behind_lease(self, dispatch: "Dispatch") -> "Dispatch":
        """Return what answers requests: no lease can run out."""
        return dispatch

    def reach_others(self, places: Sequence["Address"]) -> None:
        """Do nothing: there is no other broker."""

    def is_broker(self, *_request: object) -> bool:
        """Return whether another broker of the cluster asks."""
        return False

    async def register(self, broker: BrokerState, *_parts: object) -> None:
        """Publish this broker's address to clients."""
        await self.metadata.register(broker)

    async def open_logs(self, partitions: PartitionTable, supervisor: Supervisor) -> None:
        """Have the logs opened that must be checked; after an unclean stop under new leader epochs, later.

        Until the log of a partition is open, its first request waits for it alone.
        """
        if self.data.is_clean:
            await partitions.recover()
            return
        await self._raise_all_leader_epochs()  # The ends of logs may be gone.
        supervisor.start("log recovery", partitions.recover)

    async def _raise_all_leader_epochs(self) -> None:
        """Raise the epoch of every partition at once; a full disk must not keep the broker from starting."""
        try:
            with without_collections():  # A single broker waits only for its disk here.
                await raise_leader_epochs(self.metadata, self._node_id, lambda topic_id, index: True)
        except (StorageError, ChangeUnknown) as error:
            log.critical("leader epochs cannot be raised after an unclean stop", error=str(error))

    async def until_others_are_here(self) -> None:
        """Return at once: there is no other broker."""

    def begin(self, *, coordinate_transactions: Callable[[], None], **_parts: Any) -> None:
        """Load the transactions in the folder."""
        coordinate_transactions()

    async def hand_over(self) -> None:
        """Return at once: no other broker can lead."""

    def close(self) -> None:
        """Do nothing: nothing follows the cluster."""

    def catching_up(self) -> None:
        """Return nothing: no replica has to catch up."""
