"""A broker as a member of its cluster: the metadata in etcd, its registration, and its duties."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import uuid4

import msgspec
import structlog
import trio

from kohort.broker.cluster.appending import Appending
from kohort.broker.cluster.dialing import Dial, dial_plain
from kohort.broker.cluster.duties import Duties
from kohort.broker.cluster.first_broker import take_along
from kohort.broker.cluster.folder_life import FolderLife
from kohort.broker.cluster.followers import Followers
from kohort.broker.cluster.gate import Gate
from kohort.broker.cluster.in_sync_replicas import InSyncReplicas
from kohort.broker.cluster.known_brokers import client_id_of
from kohort.broker.cluster.log_starts import LogStarts
from kohort.broker.cluster.options import ClusterOptions
from kohort.broker.cluster.other_brokers import KeptConnections
from kohort.broker.cluster.peers import PeerWatch
from kohort.broker.cluster.placing import place_by_racks, place_on_one
from kohort.broker.cluster.tenure import LeasedTenure
from kohort.broker.config.current import CurrentConfig
from kohort.broker.controller import is_drained, live_brokers
from kohort.broker.etcd.calls import Calls
from kohort.broker.etcd.errors import EtcdError
from kohort.broker.metadata import BrokerState, ChangeUnknown, MetadataConflict, Snapshot
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.metadata.membership import boot_time_ms
from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.supervisor import Part, Supervisor
from kohort.broker.runtime.turns import Turns
from kohort.broker.transport.dispatch import Dispatch
from kohort.storage import DataDirectory, StorageError

CHECK_SECONDS = 0.1
RETRY_SECONDS = 1.0
SIGHT_MS_MAX = 60_000
DISK_FAILS_MS = 1_000
HAND_OVER_SECONDS_MAX = 6.0
"""A container is killed after ten seconds, and logs have to be closed as well."""

OTHERS_SECONDS_MAX = 10.0

Task = Callable[[Part], Awaitable[None]]

log = structlog.get_logger("kohort.cluster")


class Host(NamedTuple):
    """The brokers of one host, if these are the whole cluster: a supervisor restarts them."""

    addresses: Mapping[int, Sequence[tuple[str, int] | None]]
    """By node id where others reach each, listener by listener; None: where it is advertised."""


class ClusterMember:
    """The cluster's part of one broker. The loop's thread."""

    def __init__(
        self,
        store: EtcdMetadataStore,
        tenure: LeasedTenure,
        data: DataDirectory,
        life: FolderLife,
        host: Host | None = None,
    ) -> None:
        self.store = store
        self._host = host
        self.data = data
        self._tenure = tenure
        self._life = life
        self._more = trio.Event()
        self._on_change: Callable[[], None] = lambda: None
        self._broker: BrokerState | None = None  # As it was registered last.
        self._stated: BrokerState | None = None  # The same, but None while an answer is missing.
        self._stops = False
        self._lost = trio.Event()
        self._partitions: PartitionTable | None = None
        self._disk_fails = False
        self.may_lead = tenure.may_lead
        self.may_follow = tenure.may_follow
        self.check_lease = tenure.check
        self.place = place_by_racks if host is None else place_on_one
        self._listener = 0  # By which of theirs other brokers are reached.
        self._dial: Dial = dial_plain
        node_id = tenure.authority.node_id
        client_id = client_id_of(node_id, life.incarnation_id)
        self.others = KeptConnections(node_id, self._address_of, client_id)
        """How other brokers are asked about partitions that they lead."""
        tenure.on_change = self._lease_changed
        tenure.snapshot = store.snapshot
        store.watch(self._seen)

    @property
    def cluster_id(self) -> str:
        """The cluster's id as clients see it."""
        return self.store.snapshot().cluster_id

    def follow(self, on_change: Callable[[], None]) -> None:
        """Call this now, and whenever the lease allows something else."""
        self._on_change = on_change
        on_change()

    def follow_no_more(self) -> None:
        """Stop calling: the broker closes."""
        self._on_change = lambda: None

    def _seen(self, before: Snapshot, after: Snapshot) -> None:
        self._tenure.seen(after)
        self._look_again()

    def _lease_changed(self) -> None:
        self._on_change()
        self._look_again()

    def _look_again(self) -> None:
        self._more.set()
        self._more = trio.Event()

    def behind_lease(self, dispatch: Dispatch) -> Dispatch:
        """Return a dispatch that checks the lease before each request."""
        return Gate(dispatch, self._tenure.check)

    def registration(self, broker: BrokerState) -> BrokerState:
        """Return what this broker registers with."""
        self._broker = msgspec.structs.replace(
            broker,
            incarnation_id=self._life.incarnation_id,
            directories=(self._life.directory_id,),
            former_directories=self._life.former_directories,
        )
        self._stated = self._broker
        return self._broker

    def begin_life(self, *, is_short: bool) -> None:
        """Check whether the folder is complete, before others see it; see `FolderLife.begin`.

        Every log that others replicate has been opened. Raises: StorageError.
        """
        self._life.begin(is_short=is_short)
        self._tenure.authority.directory_id = self._life.directory_id

    def note_unsynced(self, has_unsynced: bool) -> None:
        """Keep on the disk whether something others count on is not synced. Blocks. Raises: StorageError."""
        self._life.note_unsynced(has_unsynced)

    def note_failed_sync(self) -> None:
        """Note on the disk that a sync of unsynced data has failed. Blocks. Raises: StorageError."""
        self._life.note_failed_sync()

    def lost_tail(self, partition: Partition) -> None:
        """Handle a reopened log that lacks records on which others may count: this broker leads nothing for
        now.

        It registers again, as after a start that finds the same: others lead, who have all records.
        """
        log.error(
            "a log has lost acknowledged records: this broker starts again, out of sync everywhere",
            topic=partition.topic,
            partition=partition.index,
            log_end_offset=partition.log.log_end_offset,
        )
        self._tenure.authority.directory_id = uuid4()  # Which no metadata know, until the folder has its own.
        self._on_change()
        self._lost.set()

    async def _begin_anew(self) -> None:
        while True:
            try:
                await trio.to_thread.run_sync(self._life.renew)
            except StorageError as error:
                log.error("the directory id of the data folder cannot be changed", error=str(error))
                await trio.sleep(RETRY_SECONDS)
            else:
                break
        self._tenure.authority.directory_id = self._life.directory_id
        if self._broker is not None:
            await self.store.membership.begin_anew(self.registration(self._broker))

    def replicate(
        self,
        partitions: PartitionTable,
        flusher: Flusher,
        supervisor: Supervisor,
        current: CurrentConfig,
        *,
        clock: Clock,
        turns: Turns,
    ) -> None:
        """Follow and lead what several brokers have, from now on."""
        replicas = partitions.replicas
        assert replicas is not None
        self.others.turns = turns
        self._partitions = partitions
        in_sync = InSyncReplicas(self.store, replicas, self._tenure.check, current, clock)
        supervisor.start("in-sync replicas", in_sync.keep)
        starts = LogStarts(partitions.folder.save_log_starts)
        supervisor.start("starts of followed logs", starts.keep)
        following = Followers(
            replicas,
            Appending(partitions, flusher, clock, turns),
            supervisor,
            current,
            starts=starts,
            address_of=self._address_of,
            identity=lambda: (self._tenure.authority.node_id, self._tenure.authority.broker_epoch),
            turns=turns,
            dial=self._dial,
        )
        supervisor.start("followers", following.run)

    def reach_others(self, listener: int, dial: Dial) -> None:
        """Reach other brokers by their listener of that number, from the start on."""
        self._listener = listener
        self._dial = self.others.dial = dial

    def _address_of(self, node_id: int) -> tuple[str, int] | None:
        broker = self.store.snapshot().broker(node_id)
        if broker is None:
            return None
        local = None if self._host is None else self._host.addresses[node_id][self._listener]
        return local or broker.address(self._listener)

    async def until_others_are_here(self) -> None:
        """Return when all brokers of this host have registered, or some seconds later.

        Partitions created from now on are spread over all of them.
        """
        if self._host is None:
            return
        with trio.move_on_after(OTHERS_SECONDS_MAX):
            while any(self.store.snapshot().broker(each) is None for each in self._host.addresses):
                await self._more.wait()

    # -- tasks ------------------------------------------------------------------------------------------

    async def keep_metadata(self, part: Part) -> None:
        """Keep the snapshot as etcd has it."""
        await self.store.follow()

    async def keep_lease(self, part: Part) -> None:
        """Renew the lease, and register again if it was lost."""
        await self.store.membership.keep()

    async def watch_lease(self, part: Part) -> None:
        """Resign in time where the lease is not renewed, whether anybody asks or not."""
        while True:
            self._tenure.check()
            self._look_at_disk()
            await trio.sleep(CHECK_SECONDS)

    def _look_at_disk(self) -> None:
        """Let others lead while a disk refuses writes: the broker continues without its leaderships."""
        if self._partitions is not None:
            fails = self._partitions.reopening.failing_logs.have_failed_for(DISK_FAILS_MS)
            if fails != self._disk_fails:
                self._disk_fails = fails
                if fails:
                    log.error(
                        "the disk accepts no writes: this broker leads only what no other broker can lead"
                    )
                else:
                    log.info("the disk accepts writes again")
                self._look_again()

    def tasks(self, current: CurrentConfig) -> tuple[tuple[str, Task], ...]:
        """Return by name the tasks of its duties, while this broker may act."""
        duties = Duties(self.store, current, self._tenure.authority)

        async def see(part: Part) -> None:
            while True:
                more = self._more
                if self._tenure.check():
                    with part.working(SIGHT_MS_MAX):
                        await self._restate(current.config.kohort_drained)
                        await self._see_once(duties)
                await more.wait()

        async def balance(part: Part) -> None:
            while True:
                await trio.sleep(current.config.leader_imbalance_check_interval_seconds)
                if current.config.auto_leader_rebalance_enable and self._tenure.check():
                    with part.working(SIGHT_MS_MAX):
                        await self._balance_once(duties)

        async def begin_anew(part: Part) -> None:
            while True:
                await self._lost.wait()
                self._lost = trio.Event()
                await self._begin_anew()

        peers = PeerWatch(
            self.store, self._tenure.authority.node_id, self.store.expel, self._dial, self._listener
        )
        others = (("other brokers", peers.run),) if self._host is None else ()
        return (
            ("cluster duties", see),
            ("preferred leaders", balance),
            ("lost tails", begin_anew),
            *others,
        )

    async def _restate(self, is_drained: bool) -> None:
        """Update whether this broker should lead in its registration: elections use that."""
        while self._broker is not None and self.store.membership.is_registered:
            registered, is_draining = self._broker, self._stops or self._disk_fails
            says = msgspec.structs.replace(registered, is_drained=is_drained, is_draining=is_draining)
            if says == self._stated:
                return
            self._stated = None  # A change with a lost answer may exist, or appear later.
            try:
                await self.store.register(says)
                # Otherwise it has registered again meanwhile, with another folder's id.
                if self._broker is registered:
                    self._stated = self._broker = says
            except StorageError as error:
                log.warning("the registration could not be changed", error=str(error))
                await trio.sleep(RETRY_SECONDS)

    async def _balance_once(self, duties: Duties) -> None:
        try:
            await duties.balance(self.store.snapshot())
        except MetadataConflict:
            log.debug("leaders have changed meanwhile: they are looked at again later")
        except (StorageError, ChangeUnknown) as error:  # The next check sees the result.
            log.warning("preferred leaders could not be elected", error=str(error))

    async def hand_over(self) -> None:
        """Return once others lead what this broker led, where others can; or after a while, with a word."""
        self._stops = True
        self._look_again()
        with trio.move_on_after(HAND_OVER_SECONDS_MAX) as patience:
            while not self._is_handed_over(self.store.snapshot()):
                await self._more.wait()
        if patience.cancelled_caught:
            log.warning("this broker stops while it still leads partitions that others could lead")

    def _is_handed_over(self, now: Snapshot) -> bool:
        node_id = self._tenure.authority.node_id
        own = now.broker(node_id)
        if own is None or not self._tenure.check():
            return True  # It leads nothing any more.
        states = (each for topic in now.topics.values() for each in topic.partitions)
        return own.is_draining and is_drained(node_id, states, live_brokers(now))

    async def _see_once(self, duties: Duties) -> None:
        """See to the newest snapshot until nothing stands against it."""
        while True:
            try:
                await duties.see_to(self.store.snapshot())
            except MetadataConflict:
                continue  # The conflicting change is in the snapshot by now.
            except (
                StorageError,
                ChangeUnknown,
            ) as error:  # A change that is made late conflicts by then.
                log.warning("the cluster's metadata could not be changed", error=str(error))
                await trio.sleep(RETRY_SECONDS)
                if self._tenure.check():
                    continue
            return


@asynccontextmanager
async def joined(
    options: ClusterOptions, data: DataDirectory, node_id: int, new_id: str, boot_id: str
) -> AsyncIterator[ClusterMember]:
    """Give the cluster's member that has this data folder; it gives its lease back behind the block.

    `new_id` is the cluster's, where this is its first broker. `boot_id` names the run of the machine.
    Raises: StorageError.
    """
    from kohort.broker.etcd.client import EtcdClient  # noqa: PLC0415  # It needs httpx.

    try:
        client = EtcdClient(
            options.address.endpoints, options.credentials, call_seconds=options.request_seconds
        )
    except EtcdError as error:
        raise StorageError(str(error)) from error
    async with (
        client,
        membership(
            client,
            options.address.name,
            data,
            node_id,
            new_id,
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_ms=options.heartbeat_ms,
            boot_id=boot_id,
        ) as member,
    ):
        yield member


@asynccontextmanager
async def membership(
    calls: Calls,
    name: str,
    data: DataDirectory,
    node_id: int,
    new_id: str,
    *,
    session_timeout_ms: int,
    heartbeat_ms: int,
    boot_id: str,
    host: Host | None = None,
) -> AsyncIterator[ClusterMember]:
    """Give the member of the cluster of this name, whose metadata `calls` reach; as `joined` does.

    Raises: StorageError.
    """
    tenure = LeasedTenure(node_id, session_timeout_ms, boot_time_ms)
    store = await EtcdMetadataStore.connect(
        calls,
        name,
        data.meta.cluster_id if data.meta else new_id,
        session_timeout_ms=session_timeout_ms,
        heartbeat_ms=heartbeat_ms,
        tenure=tenure,
    )
    data.write_meta(store.snapshot().cluster_id, node_id)
    life = FolderLife(data, await store.last_life(node_id), boot_id)
    tenure.authority.directory_id = life.directory_id
    await take_along(store, data, node_id)
    try:
        yield ClusterMember(store, tenure, data, life, host)
    finally:
        if host is None:  # The supervisor of a host's brokers sees them end.
            with trio.CancelScope(shield=True):
                await store.membership.leave()
