"""One broker: its parts, how they start, and how they end."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from kohort.broker.composition import listeners
from kohort.broker.composition.audit import Audit
from kohort.broker.composition.ensured_topics import EnsuredTopics
from kohort.broker.composition.folder import close_files
from kohort.broker.composition.joining import Join, member_of_cluster, parts_of
from kohort.broker.composition.machine import Machine
from kohort.broker.composition.on_demand import OnDemand
from kohort.broker.composition.request_path import RequestPath
from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.config.group_bounds import bounds
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.events import GroupEventLogger
from kohort.broker.coordination.group_events import GroupEventLog
from kohort.broker.coordination.group_machine import GroupMachine
from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.group import GroupConfig
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.handlers.data.record_checks import RecordChecks
from kohort.broker.handlers.features import has_consumer_groups, has_streams_groups, share_version
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.opening import Opening
from kohort.broker.handlers.table import HandlerTable
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.http.broker_view import BrokerView
from kohort.broker.http.health import Health
from kohort.broker.http.page_parts import PageParts
from kohort.broker.http.view import Counters, PageLimits
from kohort.broker.lag import LagWatch, LocalEnds
from kohort.broker.metadata.client_metrics import TelemetryReceiver
from kohort.broker.metadata.configs import Configs, follow_broker_config
from kohort.broker.metadata.leadership_counters import LeadershipCounters
from kohort.broker.metadata.topics import Topics
from kohort.broker.partitions import Partition, PartitionTable, ProducerIds
from kohort.broker.partitions.cleaner import LogCleaner
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.flusher import WRITERS, Flusher
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.raising_epochs import RaisingEpochs
from kohort.broker.partitions.retention import LogRetention
from kohort.broker.partitions.roles import Committed
from kohort.broker.partitions.sync_timers import SyncTimers
from kohort.broker.runtime.clock import Clock, SystemClock
from kohort.broker.runtime.descriptors import connections_that_fit
from kohort.broker.runtime.disk_space import DiskSpace
from kohort.broker.runtime.garbage import without_collections
from kohort.broker.runtime.loop import Mailbox
from kohort.broker.runtime.loop_lag import LoopLag
from kohort.broker.runtime.supervisor import Supervisor
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.addresses import Address, BrokerAddresses, advertised
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Dispatch
from kohort.broker.transport.reactor import Reactor
from kohort.storage import FileSystem, OsFileSystem
from kohort.storage.journal import Journal

if TYPE_CHECKING:
    from kohort.broker.cluster.member import ClusterMember

LOOP_SILENCE_MS_MAX = 15_000  # The loop says every two seconds that it goes round.

log = structlog.get_logger("kohort.broker")


class Broker:
    """The parts of one broker, each of which gets what it uses in its constructor. The loop's thread only."""

    def __init__(
        self,
        config: BrokerConfig,
        places: BrokerAddresses,
        nursery: trio.Nursery,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
        *,
        machine: Machine,
        between: Callable[[Dispatch], Dispatch] | None = None,
        forget_stored_settings: bool = False,
        cluster: "ClusterMember | None" = None,
    ) -> None:
        """Open the data folder, unless the member of a `cluster` has. Raises: StorageError.

        `machine` gives sockets and threads. `between` may wrap what answers requests.
        `forget_stored_settings` ignores altered broker settings.
        """
        self._between = between
        self._listeners = places.listeners
        self._shared = places.shared
        self.advertised: tuple[tuple[str, int], ...] = ()
        """Host and port for the clients of each listener, once it listens."""
        self.listening: tuple[Address, ...] = tuple(each.listen for each in places.listeners)
        self.current = CurrentConfig(config)
        self.clock: Clock = clock or SystemClock()
        self.machine = machine
        self.workers: Workers = self.machine.workers(nursery)
        self.supervisor = Supervisor(self.workers, self.clock)
        self._loop_part = self.supervisor.part("event loop")
        self._page_parts = PageParts(self.supervisor)
        self.on_beat: Callable[[], None] = lambda: None
        """Called every two seconds, as long as the loop goes round."""
        self.loop_lag = LoopLag(self.workers, self.clock.now_ms)
        self.mailbox = Mailbox(self.machine.socket_pair())
        self.timers = Timers(self.mailbox.wake)
        self.request_counters = TransportCounters()
        self.partition_counters = PartitionCounters()
        self.group_counters = GroupCounters()
        self.leadership_counters = LeadershipCounters()
        filesystem = filesystem or OsFileSystem()
        self._parts = parts_of(
            cluster,
            self.current,
            places.data,
            filesystem,
            self.leadership_counters,
            forget_stored_settings=forget_stored_settings,
        )
        self.cluster = self._parts.member
        self.node_id = config.node_id
        self.cluster_id = self._parts.cluster_id
        self.data = self._parts.data
        self.metadata = self._parts.metadata
        follow_broker_config(self.metadata, self.current, self.node_id)
        self.journal = Journal(filesystem, self.data.path)
        self._audit = Audit(self.current.config, self.clock, is_shared=bool(self._shared))
        self._hold_partitions()
        self._coordinate()
        self._look_after()
        self._answer()

    def _hold_partitions(self) -> None:
        unsynced = self._parts.unsynced()

        def flush(partition: Partition, done: Committed) -> None:
            self.flusher.request(partition, done)

        sync_timers = SyncTimers(self.timers, self.clock, flush)
        self.flusher = Flusher(
            self.mailbox,
            self.partition_counters,
            self.journal,
            self.workers.writers("flush", WRITERS),
            on_unsynced=sync_timers.written,
            may_leave_unsynced=unsynced.may_leave,
        )
        raising_epochs = RaisingEpochs(self.metadata, self.workers)
        self.partitions = PartitionTable(
            self.metadata,
            self.current,
            self.node_id,
            files=LogFiles(self.data, self.journal),
            flusher=self.flusher,
            timers=self.timers,
            clock=self.clock,
            loop=self.mailbox,
            workers=self.workers,
            may_lead=self._parts.may_lead,
            replicas=self._parts.replicas(clock=self.clock, loop=self.mailbox),
            unsynced=unsynced,
            on_lax=sync_timers.changed,
            on_lost_tail=self._parts.on_lost_tail(raising_epochs),
            on_epoch_behind=raising_epochs.is_behind,
        )
        self.producer_ids = ProducerIds(self.metadata)
        ready = self.partitions.opening.ready
        self.topics = Topics(self.metadata, self.current, ready, self._parts.place)
        self._ensured = EnsuredTopics(self.topics, self.metadata, self.current)

    def _coordinate(self) -> None:
        services = CoordinatorServices(
            self.metadata,
            self.current,
            self.partitions,
            self.flusher,
            self.timers,
            self.clock,
            self.workers,
            self._parts.others,
        )
        self.group_events = GroupEventLog(
            services,
            is_enabled=self.current.config.kohort_group_events_enable,
            ensure_topic=self._ensured.group_events,
            counters=self.group_counters,
        )
        self.event_logger = GroupEventLogger(self.group_counters, self.clock, self.group_events.note)
        self.group_shards = GroupShards(
            GroupMachine(GroupConfig.of(self.current.config, bounds(self.current.config))),
            services,
            ensure_topic=self._ensured.offsets,
            counters=self.group_counters,
            note=self.event_logger.note,
            takeovers=self._parts.takeovers(self.partitions, self.clock),
        )
        self._on_demand = OnDemand(
            services, self._ensured, self.topics, self.group_shards, counters=self.group_counters
        )
        self.transactions = self._on_demand.transactions
        self.shares = self._on_demand.shares

    def _look_after(self) -> None:
        clock, workers = self.clock, self.workers
        cleaning = self.partition_counters.cleaning
        self.local_ends = LocalEnds(self.partitions, workers)
        remote = self._parts.ends_elsewhere(clock, workers)
        self.lag = LagWatch(
            self.group_shards.groups,
            self.local_ends,
            remote,
            self.current,
            self.metadata,
            clock=clock,
            workers=workers,
        )
        self.cleaner = LogCleaner(
            self.partitions, self.data, self.current, clock=clock, counters=cleaning, workers=workers
        )
        self.retention = LogRetention(
            self.partitions, self.current, clock=clock, counters=cleaning, workers=workers
        )
        self.disk = DiskSpace(
            self.data.path,
            lambda: self.current.config.kohort_disk_free_bytes_min,
            workers,
            self.machine.disk_usage,
        )

    def _answer(self) -> None:
        self.fetch_sessions = FetchSessions(self.current.config.max_incremental_fetch_session_cache_slots)
        self.record_checks = RecordChecks(self.mailbox, self.workers)
        groups = GroupServices(
            self.group_shards,
            self.metadata,
            self.node_id,
            self.group_counters,
            self._ensured.offsets,
            self.transactions,
            self.shares if share_version(self.current.config) else None,
            self._on_demand.streams_topics() if has_streams_groups(self.current.config) else None,
            has_consumer_groups(self.current.config),
        )
        transactions = TransactionServices(self.transactions, groups, self.producer_ids)
        data = Data(
            self.partitions,
            self.flusher,
            self.fetch_sessions,
            self.record_checks,
            self.producer_ids,
            self.current,
            self.timers,
            self.clock,
            self.partition_counters,
            self.request_counters,
            transactions,
            partial(self._on_demand.permissions, transactions),
        )
        self.telemetry = TelemetryReceiver(self.metadata, self.clock.now_ms)
        administration = Administration(
            self.metadata,
            self.topics,
            Configs(self.metadata, self.current, self.node_id),
            self.current,
            self.cluster_id,
            self.node_id,
            self.data.path,
            self.workers,
            self.telemetry,
            self._parts.expel,
            self._parts.forget_life,
        )
        dispatch: Dispatch = HandlerTable(
            groups,
            data,
            administration,
            Opening(self.partitions, self.workers),
            transactions,
            sharing=partial(self._on_demand.share_services, groups, data),
            between=self._parts.between_brokers(self.local_ends, self.view),
        )
        if self._between is not None:
            dispatch = self._between(dispatch)
        self._request_path = RequestPath(
            dispatch,
            parts=self._parts,
            audit=self._audit,
            metadata=self.metadata,
            current=self.current,
            fetch_sessions=self.fetch_sessions,
            timers=self.timers,
            clock=self.clock,
            workers=self.workers,
        )
        self.reactor = Reactor(
            self._request_path.dispatch,
            self.current,
            mailbox=self.mailbox,
            timers=self.timers,
            clock=self.clock,
            workers=self.workers,
            counters=self.request_counters,
            end_round=self.flusher.start_round,
            is_to_sync=self.flusher.is_asked,
            beat=self._beat,
            connections_max=connections_that_fit(),
            permissions=self._request_path.permissions,
            is_privileged=listeners.super_users_of(self.current.config),
            poller=self.machine.poller(),
        )
        self._request_path.begin(self.reactor)

    def _beat(self) -> None:
        """Note that the loop goes round."""
        self.on_beat()
        self._loop_part.beat(LOOP_SILENCE_MS_MAX)
        self.event_logger.tell_left_out()
        self._audit.count_lost(self.request_counters)

    # -- starting and ending ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and begin to load the groups.

        Raises: OSError if the address can't be had, StorageError, ConfigError where TLS is not as it must be.
        """
        addresses = [each.listen for each in self._listeners]
        self._parts.reach_others(addresses)
        secure = listeners.secure_listeners(
            addresses,
            self.current,
            self.metadata,
            counters=self.request_counters,
            workers=self.workers,
            timers=self.timers,
            clock=self.clock,
            log=self.reactor.log,
            on_authenticated=self.reactor.entered,
            on_login=self._audit.login,
        )
        opens = {} if secure is None else secure.opens(addresses)
        with ExitStack() as unless_registered:
            socks, shared = listeners.bind_all(unless_registered, self.machine, self._listeners, self._shared)
            ports = [sock.getsockname()[1] for sock in socks]
            self.listening = tuple(
                msgspec.structs.replace(each.listen, port=port)
                for each, port in zip(self._listeners, ports, strict=True)
            )
            self.advertised = tuple(map(advertised, self._listeners, ports))
            await self._parts.register(
                listeners.broker_state(self.current.config, self.advertised), self.partitions, self.supervisor
            )
            unless_registered.pop_all()
        if secure is not None:
            await listeners.keep_salts(secure, self.metadata)
        await self._parts.open_logs(self.partitions, self.supervisor)
        self.partitions.opening.reports_lost_tails = True
        await self._parts.until_others_are_here()
        for number, sock in (*enumerate(socks), *enumerate(shared)):
            self.reactor.listen(sock, number, opens.get(number))
        self.group_shards.start()
        self._parts.begin(
            timers=self.timers,
            partitions=self.partitions,
            flusher=self.flusher,
            supervisor=self.supervisor,
            clock=self.clock,
            turns=self.reactor,
            follow_leadership=self._follow_leadership,
            follow_metadata=self._on_demand.follow_metadata,
            coordinate_transactions=self._on_demand.refresh_transactions,
        )
        for name, run in (
            ("checkpoint", partial(self.partitions.folder.checkpoint_regularly, self.current)),
            ("data folder", self.partitions.folder.watch_regularly),
            ("disk space", self.disk.run),
            ("loop lag", self.loop_lag.run),
            ("lag of groups", self.lag.run),
            ("log cleaner", self.cleaner.run),
            ("log retention", self.retention.delete_segments_regularly),
            ("deleted files", self.retention.remove_files_regularly),
            ("producer expiration", self.retention.expire_producers_regularly),
        ):
            self.supervisor.start(name, run)
        for name, task in () if secure is None else secure.tasks.items():
            self.supervisor.start(name, task)

    def _follow_leadership(self) -> None:
        """Lead, and coordinate, as the lease allows by now."""
        self.partitions.assignment.refresh()
        self.group_shards.refresh()
        self._on_demand.refresh()

    async def hand_over(self) -> None:
        """Let other brokers of the cluster lead this one's partitions."""
        await self._parts.hand_over()

    def close(self) -> None:
        """Write what is staged, close every log cleanly, and mark the folder as cleanly closed. Blocks."""
        self._parts.close()
        self._on_demand.close()
        self.group_shards.close()
        self.group_events.close()
        self.reactor.close()
        self.record_checks.close()
        self.flusher.close()
        self.mailbox.close()
        self.partitions.close()
        self._audit.close()
        close_files(self.data, self.journal, self.workers)

    def view(self) -> BrokerView:
        """Return the values for the HTTP pages."""
        config = self.current.config
        return BrokerView(
            cluster_id=self.cluster_id,
            node_id=self.node_id,
            counters=Counters(
                self.request_counters,
                self.partition_counters,
                self.group_counters,
                self.leadership_counters,
            ),
            health=Health(self.supervisor, self.loop_lag, self.disk, self.flusher, self.journal),
            limits=PageLimits(config.kohort_metrics_groups_max, config.kohort_metrics_partitions_max),
            reactor=self.reactor,
            fetch_sessions=self.fetch_sessions,
            group_shards=self.group_shards,
            partitions=self.partitions,
            metadata=self.metadata,
            lag=self.lag,
            current=self.current,
            asks=partial(self._request_path.asks, self.mailbox),
            quota_uses=self._request_path.quota_uses,
            share_partitions=self._on_demand.share_partitions,
            telemetry=self.telemetry.current,
            others=self._parts.others,
            catching_up=self._parts.catching_up(),
            looked_at=self._audit.looked_at,
            parts=self._page_parts,
        )


@asynccontextmanager
async def running(
    config: BrokerConfig,
    places: BrokerAddresses,
    clock: Clock | None = None,
    filesystem: FileSystem | None = None,
    *,
    machine: Machine | None = None,
    between: Callable[[Dispatch], Dispatch] | None = None,
    forget_stored_settings: bool = False,
    join: "Join | None" = None,
) -> AsyncIterator[Broker]:
    """Serve inside the block; the broker is closed after it, when all its tasks and threads have ended.

    See `Broker`. `join` makes it a member of a cluster that the settings do not name. Raises: StorageError,
    OSError, ConfigError if the start fails.
    """
    broker: Broker | None = None
    machine = machine or Machine()
    try:
        async with (
            member_of_cluster(config, places, filesystem, machine, join) as cluster,
            trio.open_nursery() as nursery,
        ):
            with without_collections():
                broker = Broker(
                    config,
                    places,
                    nursery,
                    clock,
                    filesystem,
                    machine=machine,
                    between=between,
                    forget_stored_settings=forget_stored_settings,
                    cluster=cluster,
                )
            await broker.start()
            nursery.start_soon(broker.reactor.run)
            try:
                yield broker
                await broker.reactor.drain()
            finally:
                broker.reactor.stop()
                nursery.cancel_scope.cancel()
    finally:
        if broker is not None:
            broker.close()
