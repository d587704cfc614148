"""One broker: its parts, how they start, and how they end."""

import socket
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import structlog
import trio

from kohort.broker.config import BrokerConfig
from kohort.broker.group import GroupConfig
from kohort.broker.lag import LagWatch
from kohort.broker.metadata import OFFSETS_TOPIC, BrokerState, EmbeddedMetadataStore, MetadataStore
from kohort.broker.metadata.configs import follow_broker_config
from kohort.broker.metadata.topics import ensure_offsets_topic
from kohort.broker.partitions import FetchSessions, PartitionTable, ProducerIds
from kohort.broker.partitions.cleaner import LogCleaner
from kohort.broker.partitions.retention import LogRetention
from kohort.broker.runtime.clock import Clock, SystemClock
from kohort.broker.runtime.coordinators import Coordinators
from kohort.broker.runtime.counters import BrokerCounters
from kohort.broker.runtime.descriptors import segments_that_fit
from kohort.broker.runtime.flusher import Flusher
from kohort.broker.runtime.group_events import GroupEventLog
from kohort.broker.runtime.reactor import Reactor
from kohort.broker.runtime.sync_timers import SyncTimers
from kohort.broker.runtime.timers import Timers
from kohort.storage import DataDirectory, FileSystem, OsFileSystem, StorageError
from kohort.storage.journal import Journal

CLOSERS = 8  # Logs that are closed at once: their syncs share what the disk does.

log = structlog.get_logger("kohort.broker")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a broker listens, what it tells clients to connect to, and where its data is."""

    listen: Address
    data: Path
    advertise: Address | None = None


class Broker:
    """What the handlers work with. Everything in it belongs to the loop's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        places: Places,
        nursery: trio.Nursery,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
    ) -> None:
        """Open the data folder. Raises: StorageError, among others where another broker has it."""
        self._nursery = nursery
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.filesystem: FileSystem = filesystem or OsFileSystem()
        self.data = DataDirectory.open(places.data, self.filesystem, segments_max=segments_that_fit())
        self.node_id = config.node_id
        self.cluster_id = self.data.meta.cluster_id if self.data.meta else new_cluster_id()
        self.data.write_meta(self.cluster_id, self.node_id)
        self.counters = BrokerCounters()
        self.timers = Timers(self._timer_set)
        self.metadata: MetadataStore = EmbeddedMetadataStore.open(
            self.filesystem, self.data.path, cluster_id=self.cluster_id, node_id=self.node_id
        )
        follow_broker_config(self)
        self.group_config: GroupConfig = group_config(self.config)
        self.reactor = Reactor(self, nursery)
        self.journal = Journal(self.filesystem, self.data.path)
        self.flusher = Flusher(self.reactor, self.counters, self.journal)
        self.flusher.on_unsynced = SyncTimers(self.timers, self.clock, self.flusher).written
        self.partitions = PartitionTable(self)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self.producer_ids = ProducerIds(self.metadata)
        self.coordinators = Coordinators(self, nursery)
        self.group_events = GroupEventLog(self, nursery)
        self.lag = LagWatch(self)
        self.cleaner = LogCleaner(self)
        self.retention = LogRetention(self)
        self._listen = places.listen
        self._advertise = places.advertise
        self.advertised: tuple[str, int] = (places.listen.host, places.listen.port)
        self.listening: Address = places.listen
        self._offsets_topic = trio.Lock()

    def _timer_set(self) -> None:
        self.reactor.wake()

    # -- starting and ending ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and begin to load the groups. Raises: OSError if the address can't be had, StorageError."""
        sock = bind(self._listen)
        self.listening = Address(self._listen.host, sock.getsockname()[1])
        if self._advertise is None:
            self.advertised = (reachable_host(self._listen.host), self.listening.port)
        else:
            self.advertised = (self._advertise.host, self._advertise.port or self.listening.port)
        await self.metadata.register(BrokerState(self.node_id, *self.advertised))
        await self.partitions.open_all()
        if not self.data.is_clean:
            await self._checkpoint()  # What was scanned now need not be scanned again.
        offline = {(each.topic_id, each.index) for each in self.partitions if each.offline is not None}
        self.journal.forget(but=offline)
        self.reactor.listen(sock)
        self.coordinators.start()
        self._nursery.start_soon(self._checkpoint_regularly)
        self._nursery.start_soon(self.lag.run)
        self._nursery.start_soon(self.cleaner.run)
        self._nursery.start_soon(self.retention.run)

    async def _checkpoint_regularly(self) -> None:
        """Keep on disk from where each log is to be scanned after a crash."""
        while True:
            await trio.sleep(self.config.log_flush_offset_checkpoint_interval_ms / 1000)
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        try:
            await self.partitions.save_log_starts()
        except StorageError as error:
            log.error("the checkpoint of the logs failed", error=str(error))

    def close(self) -> None:
        """Write what is staged, close every log cleanly, and mark the folder as cleanly closed. Blocks."""
        self.coordinators.close()
        self.group_events.close()
        self.reactor.close()
        self.flusher.close()
        self.partitions.close()
        close_files(self.data, self.journal)

    # -- for the handlers -----------------------------------------------------------------------------------

    async def ensure_offsets_topic(self) -> None:
        """Create `__consumer_offsets` unless it is there. Raises: ApiError if it can't be."""
        if OFFSETS_TOPIC not in self.metadata.snapshot().topics:
            async with self._offsets_topic:
                await ensure_offsets_topic(self)


@asynccontextmanager
async def running(
    config: BrokerConfig, places: Places, clock: Clock | None = None, filesystem: FileSystem | None = None
) -> AsyncIterator[Broker]:
    """Serve within the block; closed behind it, once every task and thread of the broker has ended.

    Raises: StorageError, OSError where the start fails.
    """
    broker: Broker | None = None
    try:
        async with trio.open_nursery() as nursery:
            broker = Broker(config, places, nursery, clock, filesystem)
            await broker.start()
            nursery.start_soon(broker.reactor.run)
            try:
                yield broker
            finally:
                broker.reactor.stop()
                nursery.cancel_scope.cancel()
    finally:
        if broker is not None:
            broker.close()


def group_config(config: BrokerConfig) -> GroupConfig:
    """Return the part of the configuration that the group core knows."""
    known = {name: getattr(config, name) for name in GroupConfig.__struct_fields__ if hasattr(config, name)}
    return GroupConfig(**known)


def close_files(data: DataDirectory, journal: Journal) -> None:
    """Close every log, and only then let the journal go: until a log is synced, it is in the journal alone.

    Raises: StorageError where a log failed; the journal is kept for the next start.
    """
    with ThreadPoolExecutor(CLOSERS, "log-closer") as closers:
        data.close(when_sound=journal.close, close_all=closers.map)


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's form: a UUID as 22 characters of base64."""
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()


def bind(address: Address) -> socket.socket:
    """Return a bound socket that does not block. Raises: OSError that names the address."""
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind(resolved)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise OSError(f"cannot listen on {address}: {error.strerror}") from error
    return sock


def reachable_host(host: str) -> str:
    """Return what clients can connect to where a broker listens on `host`."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host
