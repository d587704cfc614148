"""One broker: its parts, how they start, and how they end."""

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import structlog
import trio

from kohort.broker.config import BrokerConfig, ConfigError
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
from kohort.broker.handlers.quota_switch import QuotaSwitch
from kohort.broker.handlers.table import HandlerTable
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.http.health import Health
from kohort.broker.http.view import BrokerView, Counters, PageLimits, QuotaUse
from kohort.broker.lag import EndsElsewhere, LagWatch, LocalEnds, NoneElsewhere
from kohort.broker.metadata import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    BrokerState,
    ChangeUnknown,
    EmbeddedMetadataStore,
    MetadataStore,
    Snapshot,
    TopicState,
)
from kohort.broker.metadata.configs import Configs, follow_broker_config
from kohort.broker.metadata.internal_topics import (
    group_events_topic,
    offsets_topic,
    share_state_topic,
    transactions_topic,
)
from kohort.broker.metadata.leader_epochs import raise_leader_epochs
from kohort.broker.metadata.leadership_counters import LeadershipCounters
from kohort.broker.metadata.topic_plans import place_in_turn
from kohort.broker.metadata.topics import Topics
from kohort.broker.partitions import PartitionTable, ProducerIds
from kohort.broker.partitions.cleaner import LogCleaner
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.raising_epochs import RaisingEpochs
from kohort.broker.partitions.retention import LogRetention
from kohort.broker.partitions.sync_timers import SyncTimers
from kohort.broker.partitions.unsynced import Unsynced
from kohort.broker.runtime.clock import Clock, SystemClock
from kohort.broker.runtime.descriptors import connections_that_fit, segments_that_fit
from kohort.broker.runtime.disk_space import DiskSpace
from kohort.broker.runtime.garbage import without_collections
from kohort.broker.runtime.loop import Mailbox
from kohort.broker.runtime.loop_lag import LoopLag
from kohort.broker.runtime.private_folder import keep_private
from kohort.broker.runtime.supervisor import Part, Supervisor
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import TrioWorkers, Workers
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Dispatch
from kohort.broker.transport.permissions import ALLOW_ALL, DENY_ALL
from kohort.broker.transport.places import PLAINTEXT, Address, Places, advertised, bind
from kohort.broker.transport.reactor import Reactor
from kohort.broker.transport.request import Request
from kohort.storage import DataDirectory, FileSystem, OsFileSystem, StorageError
from kohort.storage.journal import Journal
from kohort.storage.layout import log_id_of

if TYPE_CHECKING:
    from kohort.broker.audit.file import AuditFile
    from kohort.broker.audit.trail import Trail
    from kohort.broker.cluster.known_brokers import KnownBrokers
    from kohort.broker.cluster.member import ClusterMember
    from kohort.broker.coordination.internal_topics import InternalTopics
    from kohort.broker.coordination.shares import Shares
    from kohort.broker.coordination.takeovers import Takeovers
    from kohort.broker.coordination.transaction_shards import TransactionShards
    from kohort.broker.handlers.authorization.guard import Guard
    from kohort.broker.handlers.between.family import Between
    from kohort.broker.handlers.data.transactional import Permissions
    from kohort.broker.handlers.share.family import ShareServices
    from kohort.broker.http.asking import InHouse
    from kohort.broker.http.catching_up import CatchingUp
    from kohort.broker.partitions.replicas import Replicas
    from kohort.broker.transport.secure_listeners import SecureListeners

CHECKPOINT_MS_MAX = 60_000  # One that takes longer hangs in the disk.
LOOP_SILENCE_MS_MAX = 15_000  # The loop says every two seconds that it goes round.
CLOSERS = 8  # Logs that are closed at once: their syncs share what the disk does.

log = structlog.get_logger("kohort.broker")

Join = Callable[[DataDirectory], AbstractAsyncContextManager["ClusterMember"]]
"""Gives the member of a cluster that has this data folder."""


class Broker:
    """The parts of one broker, each given in its constructor what it uses; none of them knows this class.

    Everything in it belongs to the loop's thread.
    """

    def __init__(
        self,
        config: BrokerConfig,
        places: Places,
        nursery: trio.Nursery,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
        *,
        between: Callable[[Dispatch], Dispatch] | None = None,
        forget_stored_settings: bool = False,
        cluster: "ClusterMember | None" = None,
    ) -> None:
        """Open the data folder. Raises: StorageError, among others where another broker has it.

        A member of a `cluster` has opened it already. `between` may put somebody between the transport and
        those who answer, to look on or to interfere. With `forget_stored_settings` what was altered of this
        broker's configuration does not count any more.
        """
        self._between = between
        self.cluster = cluster
        self._listeners = places.listeners
        self._shared = places.shared
        self.advertised: tuple[tuple[str, int], ...] = ()
        """Host and port for the clients of each listener, once it listens."""
        self.listening: tuple[Address, ...] = tuple(each.listen for each in places.listeners)
        self.current = CurrentConfig(config)
        self.clock: Clock = clock or SystemClock()
        self.workers: Workers = TrioWorkers(nursery)
        self.supervisor = Supervisor(self.workers, self.clock)
        self._loop_part = self.supervisor.part("event loop")
        self.on_beat: Callable[[], None] = lambda: None
        """Called every two seconds, as long as the loop goes round."""
        self.loop_lag = LoopLag(self.workers, self.clock.now_ms)
        self.mailbox = Mailbox()
        self.timers = Timers(self.mailbox.wake)
        self.request_counters = TransportCounters()
        self.partition_counters = PartitionCounters()
        self.group_counters = GroupCounters()
        self.leadership_counters = LeadershipCounters()
        self._guard: Guard | None = None
        self._audit_file: AuditFile | None = None
        self._trail: Trail | None = None
        self._known_brokers: KnownBrokers | None = None
        if cluster is None:
            self._open(places.data, filesystem or OsFileSystem(), forget_stored_settings)
        else:
            self._join(cluster, filesystem or OsFileSystem())
        self._begin_audit()
        self._hold_partitions()
        self._coordinate()
        self._look_after()
        self._answer()

    def _open(self, path: Path, filesystem: FileSystem, forget_stored_settings: bool) -> None:
        """Take the data folder, and read what the cluster is. Raises: StorageError, ConfigError."""
        self.data = open_folder(path, filesystem)
        self.node_id = self.current.config.node_id
        self.cluster_id = self.data.meta.cluster_id if self.data.meta else new_cluster_id()
        self.data.write_meta(self.cluster_id, self.node_id)
        self.metadata: MetadataStore = EmbeddedMetadataStore.open(
            filesystem,
            self.data.path,
            cluster_id=self.cluster_id,
            node_id=self.node_id,
            forget_broker_settings=forget_stored_settings,
        )
        follow_broker_config(self.metadata, self.current, self.node_id)
        self.journal = Journal(filesystem, self.data.path)

    def _join(self, cluster: "ClusterMember", filesystem: FileSystem) -> None:
        """Take what the cluster is from its metadata. Raises: StorageError, ConfigError."""
        self.data = cluster.data
        self.node_id = self.current.config.node_id
        self.cluster_id = cluster.cluster_id
        self.metadata = cluster.store
        self.metadata.watch(partial(self.leadership_counters.note, self.node_id))
        follow_broker_config(self.metadata, self.current, self.node_id)
        self.journal = Journal(filesystem, self.data.path)

    def _hold_partitions(self) -> None:
        self.flusher = Flusher(self.mailbox, self.partition_counters, self.journal)
        sync_timers = SyncTimers(self.timers, self.clock, self.flusher)
        self.flusher.on_unsynced = sync_timers.written
        member = self.cluster
        unsynced = Unsynced() if member is None else Unsynced(member.note_unsynced, member.note_failed_sync)
        self.flusher.may_leave_unsynced = unsynced.may_leave
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
            may_lead=None if self.cluster is None else self.cluster.may_lead,
            replicas=None if self.cluster is None else self._replicas(self.cluster),
            unsynced=unsynced,
            on_lax=sync_timers.changed,
            on_lost_tail=raising_epochs.lost_tail if member is None else member.lost_tail,
            on_epoch_behind=raising_epochs.is_behind,
        )
        self.producer_ids = ProducerIds(self.metadata)
        place = place_in_turn if self.cluster is None else self.cluster.place
        self.topics = Topics(self.metadata, self.current, self.partitions.opening.ready, place)
        self._making_offsets_topic = trio.Lock()

    def _replicas(self, cluster: "ClusterMember") -> "Replicas":
        """Return who gives partitions that several brokers have their roles."""
        from kohort.broker.partitions.replicas import Replicas  # noqa: PLC0415  # A broker alone has none.

        return Replicas(
            self.node_id,
            clock=self.clock,
            loop=self.mailbox,
            lag_ms_max=lambda: self.current.config.replica_lag_time_max_ms,
            may_follow=cluster.may_follow,
            check=cluster.check_lease,
            send_rate=lambda: self.current.config.leader_replication_throttled_rate,
        )

    def _coordinate(self) -> None:
        self._coordinator_services = services = CoordinatorServices(
            self.metadata,
            self.current,
            self.partitions,
            self.flusher,
            self.timers,
            self.clock,
            self.workers,
            None if self.cluster is None else self.cluster.others,
        )
        self.group_events = GroupEventLog(
            services,
            is_enabled=self.current.config.kohort_group_events_enable,
            ensure_topic=self._ensure_group_events_topic,
            counters=self.group_counters,
        )
        self._event_logger = GroupEventLogger(self.group_counters, self.clock, self.group_events.note)
        self.group_shards = GroupShards(
            GroupMachine(GroupConfig.of(self.current.config, bounds(self.current.config))),
            services,
            ensure_topic=self._ensure_offsets_topic,
            counters=self.group_counters,
            note=self._event_logger.note,
            takeovers=self._takeovers(),
        )

        self._transactions: TransactionShards | None = None
        self._permissions: Permissions | None = None
        self._shares: Shares | None = None
        self._quota_uses: Callable[[int], Iterable[QuotaUse]] | None = None
        self._unwatch_transactions: Callable[[], None] = lambda: None

    def _takeovers(self) -> "Takeovers | None":
        if self.partitions.replicas is None:
            return None
        from kohort.broker.coordination.takeovers import Takeovers  # noqa: PLC0415  # A broker alone has none.

        return Takeovers(self.node_id, self.clock, self.partitions.replicas.heard_ms)

    def transactions(self) -> "TransactionShards":
        """Return the shards of transactions, made at first use: most brokers have none."""
        if self._transactions is None:
            from kohort.broker.coordination.transactions import transaction_shards  # noqa: PLC0415

            self._transactions = transaction_shards(
                self._coordinator_services, self.group_shards, ensure_topic=self._ensure_transactions_topic
            )
        return self._transactions

    def shares(self) -> "Shares":
        """Return what share groups take, made at first use: most brokers have none."""
        if self._shares is None:
            from kohort.broker.coordination.shares import make_shares  # noqa: PLC0415

            self._shares = make_shares(
                self._coordinator_services,
                self.group_shards,
                ensure_topic=self._ensure_share_state_topic,
                ensure=self.topics.ensure,
                counters=self.group_counters,
            )
        return self._shares

    def _look_after(self) -> None:
        clock, workers = self.clock, self.workers
        cleaning = self.partition_counters.cleaning
        self.local_ends = LocalEnds(self.partitions, workers)
        remote: EndsElsewhere = NoneElsewhere()
        if self.cluster is not None:
            from kohort.broker.lag.remote_ends import RemoteEnds  # noqa: PLC0415  # Only a cluster pays for it.

            remote = RemoteEnds(self.metadata, self.cluster.others, clock, workers)
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

        self._catching_up: CatchingUp | None = None
        self.disk = DiskSpace(self.data.path, lambda: self.current.config.kohort_disk_free_bytes_min, workers)

    def _answer(self) -> None:
        self.fetch_sessions = FetchSessions(self.current.config.max_incremental_fetch_session_cache_slots)
        self.record_checks = RecordChecks(self.mailbox, self.workers)
        groups = GroupServices(
            self.group_shards,
            self.metadata,
            self.node_id,
            self.group_counters,
            self._ensure_offsets_topic,
            self.transactions,
            self.shares if share_version(self.current.config) else None,
            self._internal_topics(),
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
            partial(self._permissions_for, transactions),
        )
        administration = Administration(
            self.metadata,
            self.topics,
            Configs(self.metadata, self.current, self.node_id),
            self.current,
            self.cluster_id,
            self.node_id,
            self.data.path,
            self.workers,
            None if self.cluster is None else self.cluster.store.expel,
            None if self.cluster is None else self.cluster.store.forget_life,
        )
        dispatch: Dispatch = HandlerTable(
            groups,
            data,
            administration,
            Opening(self.partitions, self.workers),
            transactions,
            sharing=partial(self._sharing, groups, data),
            between=None if self.cluster is None else self._between_brokers(),
        )
        if self._between is not None:
            dispatch = self._between(dispatch)
        is_judged = self.current.config.authorizer_class_name or self._trail is not None
        guarded = self._guarded(dispatch) if is_judged else dispatch
        if self.cluster is not None:
            dispatch, guarded = map(self.cluster.behind_lease, (dispatch, guarded))
        dispatch, guarded = map(self._audited, (dispatch, guarded))
        self._dispatch = dispatch  # Of whom no user is asked for.
        quotas = QuotaSwitch(guarded, self.metadata, self._metered)
        self.reactor = Reactor(
            quotas,
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
            permissions=DENY_ALL if is_judged else ALLOW_ALL,
            is_privileged=super_users_of(self.current.config),
        )
        quotas.begin(self.reactor.handlers.rebind)

    def _metered(self, dispatch: Dispatch) -> Dispatch:
        """Return what measures clients before those who answer are asked, and how often they connect."""
        from kohort.broker.handlers.quotas.metering import Metering  # noqa: PLC0415  # Most brokers need none.

        metering = Metering(
            dispatch,
            self.metadata,
            self.current,
            timers=self.timers,
            clock=self.clock,
            workers=self.workers,
            is_broker=self._is_broker,
        )
        self.reactor.admit_by(metering.connection_wait_ms)
        self.reactor.note_turn = metering.note_turn
        self._quota_uses = metering.uses
        return metering

    def _is_broker(self, request: Request, node_id: int, epoch: int) -> bool:
        """Return whether another broker of the cluster asks, which may take what it needs."""
        if self._known_brokers is None:
            return False
        if self._guard is not None:
            return self._guard.lets_act_as_broker(request)
        return self._known_brokers.knows(request, node_id, epoch)

    def _guarded(self, dispatch: Dispatch) -> Dispatch:
        """Return what looks who asks before those who answer are asked."""
        from kohort.broker.handlers.authorization.following import guarded  # noqa: PLC0415  # Most have none.

        found = guarded(
            dispatch, self.metadata, self.fetch_sessions, self.current, self.clock, trail=self._trail
        )
        if self.current.config.authorizer_class_name:
            self._guard = found
        return found

    def _begin_audit(self) -> None:
        """Keep who does what, where the settings name a file for it. Raises: OSError."""
        config = self.current.config
        if config.kohort_audit_log_file is None:
            return
        from kohort.broker.audit.trail import open_trail  # noqa: PLC0415  # Most brokers keep none.

        path = config.kohort_audit_log_file
        self._audit_file, self._trail = open_trail(
            f"{path}-{self.node_id}"
            if self._shared
            else path,  # Workers turn their files over by themselves.
            size_bytes_max=config.kohort_audit_log_max_bytes,
            files_max=config.kohort_audit_log_files_max,
            clock=self.clock,
        )

    def _audited(self, dispatch: Dispatch) -> Dispatch:
        """Return what tells of changes before they are made."""
        if self._trail is None:
            return dispatch
        from kohort.broker.handlers.auditing import Auditing  # noqa: PLC0415  # As above.

        return Auditing(dispatch, self._trail)

    def _sharing(self, groups: GroupServices, data: Data) -> "ShareServices":
        """Return what questions about share groups are put to, made with the first of them."""
        from kohort.broker.handlers.share.family import ShareServices  # noqa: PLC0415

        return ShareServices(groups, data, self.shares, self.current)

    def _between_brokers(self) -> "Between":
        """Return what questions of other brokers of the cluster are put to."""
        from kohort.broker.handlers.between.family import Between  # noqa: PLC0415  # A broker alone has none.
        from kohort.broker.http.own_pages import OwnPages  # noqa: PLC0415

        return Between(self.local_ends, OwnPages(self.view).answer)

    def _internal_topics(self) -> "InternalTopics | None":
        """Return what makes the topics of streams groups, where there are any."""
        if not has_streams_groups(self.current.config):
            return None
        from kohort.broker.coordination.internal_topics import InternalTopics  # noqa: PLC0415

        return InternalTopics(self.topics, self.group_shards, self.workers, self.clock)

    def _permissions_for(self, transactions: TransactionServices) -> "Permissions":
        """Return who says what transactional producers may write, made at first use."""
        if self._permissions is None:
            from kohort.broker.handlers.data.transactional import Permissions  # noqa: PLC0415

            self._permissions = Permissions(transactions)
        return self._permissions

    def _beat(self) -> None:
        """Note that the loop goes round."""
        self.on_beat()
        self._loop_part.beat(LOOP_SILENCE_MS_MAX)
        self._event_logger.tell_left_out()
        if self._audit_file is not None:
            self.request_counters.audit_lines_lost = self._audit_file.lost

    async def _ensure_offsets_topic(self) -> TopicState:
        """Return `__consumer_offsets`, made unless it is there. Raises: ApiError if it can't be."""
        present = self.metadata.snapshot().topics.get(OFFSETS_TOPIC)
        if present is not None and not self._making_offsets_topic.locked():
            return present  # A lock lets one in at each turn of the loop: fifty shards would queue for it.
        async with self._making_offsets_topic:
            return await self.topics.ensure(offsets_topic(self.current.config))

    async def _ensure_transactions_topic(self) -> TopicState:
        """Return `__transaction_state`, made unless it is there. Raises: ApiError if it can't be."""
        present = self.metadata.snapshot().topics.get(TRANSACTIONS_TOPIC)
        if present is not None and not self._making_offsets_topic.locked():
            return present
        async with self._making_offsets_topic:
            return await self.topics.ensure(transactions_topic(self.current.config))

    async def _ensure_share_state_topic(self) -> TopicState:
        """Return `__share_group_state`, made unless it is there. Raises: ApiError if it can't be."""
        present = self.metadata.snapshot().topics.get(SHARE_STATE_TOPIC)
        if present is not None and not self._making_offsets_topic.locked():
            return present
        async with self._making_offsets_topic:
            return await self.topics.ensure(share_state_topic(self.current.config))

    async def _ensure_group_events_topic(self) -> TopicState:
        """Return `__group_events`, made unless it is there. Raises: ApiError if it can't be."""
        return await self.topics.ensure(group_events_topic(self.current.config))

    # -- starting and ending ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and begin to load the groups.

        Raises: OSError if the address can't be had, StorageError, ConfigError where TLS is not as it must be.
        """
        secure = self._secure_listeners()
        opens = {} if secure is None else secure.opens([each.listen for each in self._listeners])
        with ExitStack() as unless_registered:
            is_one_of_several = bool(self._shared)
            socks, shared = (
                [unless_registered.enter_context(bind(each, is_shared=is_one_of_several)) for each in places]
                for places in ([each.listen for each in self._listeners], self._shared)
            )
            ports = [sock.getsockname()[1] for sock in socks]
            self.listening = tuple(
                msgspec.structs.replace(each.listen, port=port)
                for each, port in zip(self._listeners, ports, strict=True)
            )
            self.advertised = tuple(map(advertised, self._listeners, ports))
            await self._register()
            unless_registered.pop_all()
        if secure is not None:
            await self._keep_salts(secure)
        if self.cluster is None:
            if not self.data.is_clean:
                await self._raise_all_leader_epochs()  # The ends of logs may be gone.
            await self.partitions.opening.open_all()
        self.partitions.opening.report_lost_tails()
        if not self.data.is_clean:
            await self._checkpoint()  # What was scanned now need not be scanned again.
        offline = {
            log_id_of(each.topic_id, each.index) for each in self.partitions if each.offline is not None
        }
        self.journal.forget(but=offline)
        if self.cluster is not None:
            await self.cluster.until_others_are_here()
        for number, sock in (*enumerate(socks), *enumerate(shared)):
            self.reactor.listen(sock, number, opens.get(number))
        self.group_shards.start()
        if self.cluster is None:
            self._coordinate_transactions()
        else:
            self.timers.before_due = self.cluster.check_lease  # Or sessions would end while it was paused.
            self._unwatch_transactions = self.metadata.watch(self._follow_transactions)
            self.cluster.follow(self._follow_leadership)
            self.cluster.replicate(
                self.partitions,
                self.flusher,
                self.supervisor,
                self.current,
                clock=self.clock,
                turns=self.reactor,
            )
            for name, run in self.cluster.tasks(self.current):
                self.supervisor.start(name, run)
        for name, run in (
            ("checkpoint", self._checkpoint_regularly),
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

    async def _keep_salts(self, listeners: "SecureListeners") -> None:
        """Have all brokers answer alike of users that there are not; a full disk keeps no broker down."""
        if not listeners.users.is_used:
            return
        from kohort.broker.metadata.scram_users import salt_secret  # noqa: PLC0415  # Few brokers have users.

        try:
            listeners.users.keep(await salt_secret(self.metadata))
        except StorageError as error:
            log.error("strangers may learn which users there are until the next start", error=str(error))

    def _secure_listeners(self) -> "SecureListeners | None":
        """Return who stands at listeners, None where all of them speak PLAINTEXT. Raises: ConfigError."""
        places = [each.listen for each in self._listeners]
        if self.cluster is not None:
            self._reach_others(self.cluster, places)
        if not is_secure(places, self.current.config):
            return None
        from kohort.broker.metadata.scram_users import Iterations, credential  # noqa: PLC0415
        from kohort.broker.transport.sasl.mechanisms import UserStore  # noqa: PLC0415
        from kohort.broker.transport.secure_listeners import SecureListeners  # noqa: PLC0415  # Most brokers have none.

        counted, snapshot = Iterations(), self.metadata.snapshot
        return SecureListeners(
            self.current,
            UserStore(
                lambda user, mechanism: credential(snapshot(), user, mechanism),
                lambda mechanism: counted.of(snapshot(), mechanism),
            ),
            counters=self.request_counters,
            workers=self.workers,
            timers=self.timers,
            clock=self.clock,
            log=self.reactor.log,
            entered=self.reactor.entered,
            told=(lambda *_: None) if self._trail is None else self._trail.login,
        )

    def _reach_others(self, cluster: "ClusterMember", places: Sequence[Address]) -> None:
        """Say by which listener brokers reach each other, and how. Raises: ConfigError."""
        from kohort.broker.cluster.known_brokers import KnownBrokers  # noqa: PLC0415  # A broker alone has none.

        config = self.current.config
        number = inter_broker_listener(places, config)
        place = places[number]
        if place.protocol == PLAINTEXT:
            from kohort.broker.cluster.dialing import dial_plain  # noqa: PLC0415  # A broker alone has none.

            cluster.reach_others(number, dial_plain)
            self._known_brokers = KnownBrokers(self.metadata, self.node_id, number, None)
            return
        from kohort.broker.cluster.secure_dialing import SecureDial  # noqa: PLC0415  # Few clusters do.

        listener = place.name or place.protocol
        dial = SecureDial(config, self.node_id, protocol=place.protocol, listener=listener)
        cluster.reach_others(number, dial)
        self._known_brokers = KnownBrokers(self.metadata, self.node_id, number, dial.user)

    async def _register(self) -> None:
        """Let others know this broker; in a cluster under a lease, which is kept from then on."""
        config = self.current.config
        (host, port), *others = self.advertised
        broker = BrokerState(
            self.node_id,
            host,
            port,
            config.broker_rack,
            is_drained=config.kohort_drained,
            more_addresses=tuple(others),
        )
        if self.cluster is None:
            await self.metadata.register(broker)
            return
        await (
            self.partitions.opening.open_all()
        )  # Whoever registers may be elected, so it looks first what it has.
        self.cluster.begin_life(is_short=self.partitions.opening.is_short)
        self.supervisor.start("cluster metadata", self.cluster.keep_metadata)
        await self.metadata.register(self.cluster.registration(broker))
        self.supervisor.start("lease", self.cluster.keep_lease)
        self.supervisor.start("lease watch", self.cluster.watch_lease)

    def _follow_leadership(self) -> None:
        """Lead, and coordinate, what the lease allows by now."""
        self.partitions.assignment.refresh()
        self.group_shards.refresh()
        self._coordinate_transactions()
        self._coordinate_shares()

    def _coordinate_shares(self) -> None:
        """Take up, and drop, what share groups have done as its partitions get other leaders."""
        if self._shares is not None:
            self._shares.partitions.refresh()

    def _coordinate_transactions(self) -> None:
        """Take up, and drop, transactional ids as their partitions get other leaders.

        What was prepared is carried out, and what is open may time out, whether anybody asks or not.
        """
        if TRANSACTIONS_TOPIC in self.metadata.snapshot().topics:
            self.transactions().refresh()

    def _follow_transactions(self, before: Snapshot, after: Snapshot) -> None:
        if before.topics.get(TRANSACTIONS_TOPIC) is not after.topics.get(TRANSACTIONS_TOPIC):
            self._coordinate_transactions()

    async def _checkpoint_regularly(self, part: Part) -> None:
        """Keep on disk from where each log is to be scanned after a crash."""
        while True:
            await trio.sleep(self.current.config.log_flush_offset_checkpoint_interval_ms / 1000)
            with part.working(CHECKPOINT_MS_MAX):
                await self._checkpoint()

    async def _raise_all_leader_epochs(self) -> None:
        """Raise the epoch of every partition at once; a disk that is full must not keep the broker down."""
        try:
            with without_collections():  # A broker alone waits for its disk here, and for nobody.
                await raise_leader_epochs(self.metadata, self.node_id, lambda topic_id, index: True)
        except (StorageError, ChangeUnknown) as error:
            log.critical("leader epochs cannot be raised after an unclean stop", error=str(error))

    async def _checkpoint(self) -> None:
        try:
            await self.partitions.folder.save_log_starts()
            await self.partitions.folder.note_resting_logs()
        except StorageError as error:
            log.error("the checkpoint of the logs failed", error=str(error))

    async def hand_over(self) -> None:
        """Let others of the cluster lead what this broker leads."""
        if self.cluster is not None and self.current.config.controlled_shutdown_enable:
            await self.cluster.hand_over()

    def close(self) -> None:
        """Write what is staged, close every log cleanly, and mark the folder as cleanly closed. Blocks."""
        if self.cluster is not None:
            self.cluster.follow_no_more()
        self._unwatch_transactions()
        if self._transactions is not None:
            self._transactions.close()
        if self._shares is not None:
            self._shares.close()
        self.group_shards.close()
        self.group_events.close()
        self.reactor.close()
        self.record_checks.close()
        self.flusher.close()
        self.mailbox.close()
        self.partitions.close()
        if self._audit_file is not None:
            self._audit_file.close()
        close_files(self.data, self.journal)

    def view(self) -> BrokerView:
        """Return what the HTTP pages look at."""
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
            asks=self._asks,
            quota_uses=lambda most: () if self._quota_uses is None else self._quota_uses(most),
            share_partitions=lambda: None if self._shares is None else self._shares.partitions,
            others=None if self.cluster is None else self.cluster.others,
            catching_up=self._replicas_catch_up(),
            looked_at=self._looked_at,
        )

    def _looked_at(self, topic: str, user: str, host: str) -> None:
        """Have the audit log tell who looks at records by HTTP."""
        if self._trail is not None:
            principal = f"Http:{user or 'ANONYMOUS'}"
            self._trail.used(principal, host, "http", "READ", f"TOPIC:{topic}", allowed=True)

    def _replicas_catch_up(self) -> "CatchingUp | None":
        """Return what tells which replicas have not been in sync since the start, the same each time."""
        if self.cluster is None:
            return None
        if self._catching_up is None:
            from kohort.broker.http.catching_up import CatchingUp  # noqa: PLC0415  # A broker alone has none.

            self._catching_up = CatchingUp(self.metadata.snapshot, self.node_id)
        return self._catching_up

    def _asks(self) -> "InHouse":
        """Return what asks this broker, as a Kafka client would."""
        from kohort.broker.http.asking import InHouse  # noqa: PLC0415  # Where the page may write.

        # Who may ask by HTTP is another question: see kohort.http.
        return InHouse(self._dispatch, self.mailbox, self.workers)


@asynccontextmanager
async def running(
    config: BrokerConfig,
    places: Places,
    clock: Clock | None = None,
    filesystem: FileSystem | None = None,
    *,
    between: Callable[[Dispatch], Dispatch] | None = None,
    forget_stored_settings: bool = False,
    join: "Join | None" = None,
) -> AsyncIterator[Broker]:
    """Serve within the block; closed behind it, once every task and thread of the broker has ended.

    `between`, `forget_stored_settings`: see `Broker`. `join` makes it a member of a cluster that the settings
    do not name. Raises: StorageError, OSError where the start fails;
    ConfigError where the cluster that the settings name can't be.
    """
    broker: Broker | None = None
    try:
        async with (
            member_of_cluster(config, places, filesystem, join) as cluster,
            trio.open_nursery() as nursery,
        ):
            with without_collections():
                broker = Broker(
                    config,
                    places,
                    nursery,
                    clock,
                    filesystem,
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


@asynccontextmanager
async def member_of_cluster(
    config: BrokerConfig, places: Places, filesystem: FileSystem | None, join: "Join | None" = None
) -> AsyncIterator["ClusterMember | None"]:
    """Give the member of the cluster that `join` or the settings name, None for a broker alone.

    Raises: StorageError, ConfigError.
    """
    if join is not None:
        async with join(open_folder(places.data, filesystem or OsFileSystem())) as member:
            yield member
        return
    if config.kohort_cluster is None:
        yield None
        return
    try:
        from kohort.broker.cluster.member import joined  # noqa: PLC0415  # A broker alone does not pay for it.
        from kohort.broker.cluster.options import cluster_options  # noqa: PLC0415
        from kohort.broker.etcd import client  # noqa: F401, PLC0415  # It is what needs httpx.
    except ModuleNotFoundError as missing:
        if missing.name != "httpx":
            raise
        raise ConfigError('a cluster needs httpx: pip install "kohort[cluster]"') from None
    options = cluster_options(config)
    assert options is not None
    data = open_folder(places.data, filesystem or OsFileSystem())
    async with joined(options, data, config.node_id, new_cluster_id()) as member:
        yield member


def super_users_of(config: BrokerConfig) -> Callable[[str], bool]:
    """Return what tells who may do everything."""
    if not config.super_users:
        return lambda _: False
    from kohort.broker.authorization.authorizer import super_users  # noqa: PLC0415  # Most brokers have none.

    return frozenset(super_users(config.super_users)).__contains__


def open_folder(path: Path, files: FileSystem) -> DataDirectory:
    """Return the data folder, locked, and closed to other users. Raises: StorageError."""
    keep_private(files, path)
    return DataDirectory.open(path, files, segments_max=segments_that_fit())


def close_files(data: DataDirectory, journal: Journal) -> None:
    """Close every log, and only then let the journal go: until a log is synced, it is in the journal alone.

    Raises: StorageError where a log failed; the journal is kept for the next start.
    """
    with ThreadPoolExecutor(CLOSERS, "log-closer") as closers:
        data.close(when_sound=journal.close, close_all=closers.map)


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's form: a UUID as 22 characters of base64."""
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()


def inter_broker_listener(places: Sequence[Address], config: BrokerConfig) -> int:
    """Return the number of the listener by which brokers reach each other. Raises: ConfigError."""
    wanted = config.inter_broker_listener_name
    names = [each.name or each.protocol for each in places]
    if wanted is not None:
        if wanted.upper() not in names:
            raise ConfigError(
                f"inter.broker.listener.name={wanted}: no listener is called so; there are {', '.join(names)}"
            )
        return names.index(wanted.upper())
    protocols = [each.protocol for each in places]
    if config.security_inter_broker_protocol not in protocols:
        raise ConfigError(
            f"brokers speak {config.security_inter_broker_protocol} to each other, and no listener does: "
            "security.inter.broker.protocol or inter.broker.listener.name"
        )
    return protocols.index(config.security_inter_broker_protocol)


def is_secure(listeners: Sequence[Address], config: BrokerConfig) -> bool:
    """Return whether anything but plaintext is asked for."""
    return config.kohort_listener_settings is not None or any(
        each.protocol != PLAINTEXT for each in listeners
    )
