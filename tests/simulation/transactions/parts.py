"""The broker's parts for records and transactions, as `Broker` puts them together, in one life of a server.

Real are the handlers of records and transactions, the coordinators of transactions, and who writes markers.
A stand-in gives producer ids: it never gives one twice, as the metadata would not.
"""

from operator import attrgetter
from typing import TYPE_CHECKING, cast

from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.transaction_shards import TransactionShard, TransactionShards
from kohort.broker.coordination.transactions import transaction_shards
from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.handlers.data.record_checks import RecordChecks
from kohort.broker.handlers.data.transactional import Permissions
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.partitions import ProducerIds
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.transport.counters import TransportCounters
from tests.simulation.schedule import Pause

if TYPE_CHECKING:
    from tests.simulation.server import Server

FETCH_SESSIONS = 10
INLINE_LOAD_BYTES = 4 * 1024


class VirtualProducerIds:
    """Ids by the metadata, which outlive each life of the broker; asking for one takes a while."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    async def next(self) -> int:
        """Return an id that nobody has had."""
        await Pause(self._server.work_ms())
        return self._server.metadata.next_producer_id()


class TransactionParts:
    """What one life of the broker has for records and transactions."""

    def __init__(self, server: "Server", groups: GroupServices, current: CurrentConfig) -> None:
        self.groups = groups
        self.shards = self._new_shards(server)
        self.transactions = TransactionServices(
            self.use, groups, cast(ProducerIds, VirtualProducerIds(server))
        )
        permissions = Permissions(self.transactions)
        self.data = Data(
            server.partitions,
            server.flusher,
            FetchSessions(FETCH_SESSIONS),
            RecordChecks(server, server.workers),
            self.transactions.producer_ids,
            current,
            server.timers,
            server.schedule,
            PartitionCounters(),
            TransportCounters(),
            self.transactions,
            lambda: permissions,
        )

    def _new_shards(self, server: "Server") -> TransactionShards:
        shards = transaction_shards(
            server.coordinator_services, self.groups.shards, ensure_topic=server._offsets_topic_is_there
        )
        shards.inline_load_bytes = INLINE_LOAD_BYTES
        return shards

    def use(self) -> TransactionShards:
        """Return the coordinators, which are there from the start."""
        return self.shards

    def all_shards(self) -> list[TransactionShard]:
        """Return every shard that there is, by its partition."""
        return sorted(self.shards, key=attrgetter("index"))
