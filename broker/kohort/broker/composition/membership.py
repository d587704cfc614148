"""The parts of a broker that is a member of a cluster, which a broker alone has others of."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.cluster.dialing import Dial, dial_plain
from kohort.broker.cluster.known_brokers import KnownBrokers
from kohort.broker.cluster.member import ClusterMember
from kohort.broker.composition.listeners import inter_broker_listener
from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.takeovers import Takeovers
from kohort.broker.handlers.between.family import Between
from kohort.broker.http.catching_up import CatchingUp
from kohort.broker.http.own_pages import OwnPages
from kohort.broker.lag import LocalEnds
from kohort.broker.lag.remote_ends import RemoteEnds
from kohort.broker.metadata import BrokerState, MetadataStore, Snapshot
from kohort.broker.metadata.leadership_counters import LeadershipCounters
from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.partitions.raising_epochs import RaisingEpochs
from kohort.broker.partitions.replicas import Replicas
from kohort.broker.partitions.unsynced import Unsynced
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Loop
from kohort.broker.runtime.supervisor import Supervisor
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.turns import Turns
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.addresses import PLAINTEXT, Address
from kohort.broker.transport.dispatch import Dispatch
from kohort.broker.transport.request import Request

if TYPE_CHECKING:
    from kohort.broker.handlers.authorization.guard import Guard
    from kohort.broker.http.broker_view import BrokerView


class Membership:
    """A member of a cluster takes its metadata from there, and acts while its lease holds.

    `composition.standalone.Standalone` has the same attributes and methods.
    """

    def __init__(
        self, member: ClusterMember, current: CurrentConfig, leadership_counters: LeadershipCounters
    ) -> None:
        self.member = member
        self._current = current
        self._node_id = current.config.node_id
        self._known_brokers: KnownBrokers | None = None
        self._catching_up: CatchingUp | None = None
        self._unwatch: Callable[[], None] = lambda: None
        self.data = member.data
        self.cluster_id = member.cluster_id
        self.metadata: MetadataStore = member.store
        self.others = member.others
        self.may_lead = member.may_lead
        self.place = member.place
        self.expel = member.store.expel
        self.forget_life = member.store.forget_life
        self.metadata.watch(partial(leadership_counters.note, self._node_id))

    def unsynced(self) -> Unsynced:
        """Return the registry of partitions with unsynced records."""
        return Unsynced(self.member.note_unsynced, self.member.note_failed_sync)

    def on_lost_tail(self, _raising: RaisingEpochs) -> Callable[[Partition], None]:
        """Return the function that is called for a log that has lost its end."""
        return self.member.lost_tail

    def replicas(self, *, clock: Clock, loop: Loop) -> Replicas:
        """Return what decides on the roles of partitions that several brokers have."""
        return Replicas(
            self._node_id,
            clock=clock,
            loop=loop,
            lag_ms_max=lambda: self._current.config.replica_lag_time_max_ms,
            may_follow=self.member.may_follow,
            check=self.member.check_lease,
            send_rate=lambda: self._current.config.leader_replication_throttled_rate,
        )

    def takeovers(self, partitions: PartitionTable, clock: Clock) -> Takeovers:
        """Return the former brokers of groups that moved here."""
        assert partitions.replicas is not None
        return Takeovers(self._node_id, clock, partitions.replicas.last_answer_ms)

    def ends_elsewhere(self, clock: Clock, workers: Workers) -> RemoteEnds:
        """Return the function for the ends of logs that other brokers lead."""
        return RemoteEnds(self.metadata, self.others, clock, workers)

    def between_brokers(self, local_ends: LocalEnds, view: Callable[[], "BrokerView"]) -> Between:
        """Return what answers other brokers of the cluster."""
        return Between(local_ends, OwnPages(view).answer)

    def behind_lease(self, dispatch: Dispatch) -> Dispatch:
        """Return what answers requests as long as the lease holds."""
        return self.member.behind_lease(dispatch)

    def reach_others(self, places: Sequence[Address]) -> None:
        """Choose the listener by which brokers reach each other, and how. Raises: ConfigError."""
        config = self._current.config
        number = inter_broker_listener(places, config)
        place = places[number]
        dial: Dial = dial_plain
        user = None
        if place.protocol != PLAINTEXT:
            from kohort.broker.cluster.secure_dialing import SecureDial  # noqa: PLC0415  # Few clusters do.

            listener = place.name or place.protocol
            secure = SecureDial(config, self._node_id, protocol=place.protocol, listener=listener)
            dial, user = secure, secure.user
        self.member.reach_others(number, dial)
        self._known_brokers = KnownBrokers(self.metadata, self._node_id, number, user)

    def is_broker(self, guard: "Guard | None", request: Request, node_id: int, epoch: int) -> bool:
        """Return whether the requester is another broker of the cluster, which is not limited."""
        if self._known_brokers is None:
            return False
        if guard is not None:
            return guard.may_act_as_broker(request)
        return self._known_brokers.knows(request, node_id, epoch)

    async def register(self, broker: BrokerState, partitions: PartitionTable, supervisor: Supervisor) -> None:
        """Register this broker, under a lease that is kept from then on."""
        self.data.records.begin_check()
        await partitions.opening.open_all()  # A registered broker may be elected: it checks its folder first.
        self.member.begin_life(is_short=partitions.opening.is_short)
        self.data.records.end_check()
        supervisor.start("cluster metadata", self.member.keep_metadata)
        await self.metadata.register(self.member.registration(broker))
        supervisor.start("lease", self.member.keep_lease)
        supervisor.start("lease watch", self.member.watch_lease)

    async def open_logs(self, partitions: PartitionTable, _supervisor: Supervisor) -> None:
        """Note what the logs have, which were opened before the registration."""
        await partitions.recover()

    async def until_others_are_here(self) -> None:
        """Return when the other brokers of this host have registered, or some seconds later."""
        await self.member.until_others_are_here()

    def begin(
        self,
        *,
        timers: Timers,
        partitions: PartitionTable,
        flusher: Flusher,
        supervisor: Supervisor,
        clock: Clock,
        turns: Turns,
        follow_leadership: Callable[[], None],
        follow_metadata: Callable[[Snapshot, Snapshot], None],
        coordinate_transactions: Callable[[], None],
    ) -> None:
        """Follow the cluster: lead and follow partitions, and do the cluster's duties."""
        timers.before_due = self.member.check_lease  # Or sessions would end while the process was paused.
        self._unwatch = self.metadata.watch(follow_metadata)
        self.member.follow(follow_leadership)
        self.member.replicate(partitions, flusher, supervisor, self._current, clock=clock, turns=turns)
        for name, run in self.member.tasks(self._current):
            supervisor.start(name, run)

    async def hand_over(self) -> None:
        """Let other brokers lead this one's partitions."""
        if self._current.config.controlled_shutdown_enable:
            await self.member.hand_over()

    def close(self) -> None:
        """Stop following the cluster."""
        self.member.follow_no_more()
        self._unwatch()

    def catching_up(self) -> CatchingUp:
        """Return the function for replicas that have not been in sync since the start, always the same
        one."""
        if self._catching_up is None:
            self._catching_up = CatchingUp(self.metadata.snapshot, self._node_id)
        return self._catching_up
