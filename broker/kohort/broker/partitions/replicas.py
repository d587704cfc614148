"""Which role this broker has in each partition that several brokers have: leader, follower, or none yet.

The pure code in `replication` decides; this module applies it to logs, the metadata and waiting requests.
"""

from collections.abc import Callable, Collection
from functools import partial

from kohort.broker.controller import LiveBrokers
from kohort.broker.controller.facts import live_brokers
from kohort.broker.metadata import NO_LEADER, PartitionState, Snapshot
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.replica_log import ReplicaLog
from kohort.broker.replication import (
    UNLIMITED,
    Diverging,
    FetchFrom,
    Following,
    Leadership,
    ReplicaFetch,
    Served,
    Throttle,
    check_follower_read,
    is_named,
    select_read_replica,
)
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Loop
from kohort.protocol.errors import ErrorCode
from kohort.storage import PartitionLog

MayFollow = Callable[[PartitionState], bool]
"""Returns whether the state is about the folder that this broker has."""

NOBODY: Collection[Partition] = ()


class Replicas:
    """The roles of this broker. All methods belong to the loop's thread but `opened`."""

    def __init__(
        self,
        node_id: int,
        *,
        clock: Clock,
        loop: Loop,
        lag_ms_max: Callable[[], int],
        may_follow: MayFollow,
        check: Callable[[], object],
        send_rate: Callable[[], int] = lambda: UNLIMITED,
    ) -> None:
        """`check` looks whether this broker may act, and has it resign where it may not.

        `send_rate` is how many bytes a second of throttled replicas followers out of sync get.
        """
        self._node_id = node_id
        self._clock = clock
        self._loop = loop
        self._lag_ms_max = lag_ms_max
        self._may_follow = may_follow
        self._check = check
        self._send_rate = send_rate
        self._sending = Throttle()
        self.taking = Throttle()
        """The bytes of throttled replicas that followers here have fetched, from all leaders."""
        self._states: dict[Partition, PartitionState] = {}
        self._to_lead: dict[Partition, None] = {}
        self._led: dict[Partition, tuple[PartitionLog, Leadership]] = {}  # Last, also if the lease is over.
        self._followed: dict[int, dict[Partition, None]] = {}
        self._leader_of: dict[Partition, int] = {}
        self._last_answers_ms: dict[int, int] = {}
        self.brokers: LiveBrokers = {}
        self.on_followed: Callable[[int], None] = lambda leader: None
        """Called where something else is to be fetched from this leader by now."""
        self.on_lag: Callable[[Partition], None] = lambda partition: None
        """Called when a follower out of sync fetches that may be in sync by now, or the reverse."""

    # -- changes of the metadata -------------------------------------------------------------------------

    def know_brokers(self, now: Snapshot) -> None:
        """Take over which brokers are alive."""
        self.brokers = live_brokers(now)
        for partition in self._to_lead:
            if partition.leadership is not None:
                partition.leadership.brokers_changed(self.brokers)
                partition.start_waits.wake(partition)

    def settle(self, partition: Partition, state: PartitionState, *, leads: bool) -> None:
        """Give the partition the role that the state says; `leads` says that this broker may lead it."""
        self._states[partition] = state
        if leads:
            self._to_lead[partition] = None
        else:
            self._to_lead.pop(partition, None)
        self._take_role(partition)

    def forget(self, partition: Partition) -> None:
        """Forget a partition that is deleted, or not on this broker any more."""
        self._states.pop(partition, None)
        self._to_lead.pop(partition, None)
        self._led.pop(partition, None)
        self._fetch_from(partition, None)

    def is_to_lead(self, partition: Partition) -> bool:
        """Whether this broker is the leader, or is about to be."""
        return partition in self._to_lead

    def opened(self, partition: Partition) -> None:
        """Note that the partition's log is open. Any thread."""
        self._loop.post(partial(self._opened, partition))

    def _opened(self, partition: Partition) -> None:
        if partition in self._states and not partition.deleted:
            self._take_role(partition)

    def _take_role(self, partition: Partition) -> None:
        state = self._states[partition]
        if partition.serving_log is None:
            if partition.offline is None:
                partition.stand_by()
            else:
                partition.suspend()
            self._fetch_from(partition, None)
        elif partition.is_behind:
            partition.stand_by()
            self._fetch_from(partition, None)
        elif partition in self._to_lead:
            self._fetch_from(partition, None)
            self._lead(partition, state)
        elif state.leader in {NO_LEADER, self._node_id} or not self._may_follow(state):
            partition.stand_by()
            self._fetch_from(partition, None)
        else:
            self._follow(partition, state)

    def _lead(self, partition: Partition, state: PartitionState) -> None:
        leadership = partition.leadership
        if leadership is None or leadership.state.leader_epoch != state.leader_epoch:
            leadership = self._leadership(partition, state)
            partition.lead(leadership)
        now_ms = self._clock.now_ms()
        leadership.min_insync_replicas = partition.config.min_insync_replicas
        leadership.brokers_changed(self.brokers)
        leadership.follow(state, now_ms)
        leadership.synced(now_ms)  # The settings may be others as well.
        partition.moved()
        partition.start_waits.wake(partition)  # The counting replicas may have changed.

    def _leadership(self, partition: Partition, state: PartitionState) -> Leadership:
        """Return a new one, or the last of this leader epoch: the lease was over, or the log had failed.

        The in-sync replicas that it has asked for may be granted yet, so they count on.
        """
        opened = partition.log
        before = self._led.get(partition)
        is_same_epoch = before is not None and before[1].state.leader_epoch == state.leader_epoch
        if before is not None and is_same_epoch and before[0] is opened:
            return before[1]
        opened.assign_epoch(state.leader_epoch)
        leadership = Leadership(
            self._node_id,
            state,
            ReplicaLog(partition, opened),
            high_watermark=min(partition.high_watermark, opened.log_end_offset),
            min_insync_replicas=partition.config.min_insync_replicas,
            lag_ms_max=self._lag_ms_max(),
            now_ms=self._clock.now_ms(),
            proposal=before[1].proposal if before is not None and is_same_epoch else None,
        )
        self._led[partition] = opened, leadership
        return leadership

    def _follow(self, partition: Partition, state: PartitionState) -> None:
        following = partition.following
        if following is not None and following.state.leader_epoch == state.leader_epoch:
            following.follow(state)
            return
        log = ReplicaLog(partition, partition.log)
        partition.follow_leader(Following(state, log, high_watermark=partition.high_watermark))
        self._fetch_from(partition, state.leader)

    def _fetch_from(self, partition: Partition, leader: int | None) -> None:
        before = self._leader_of.pop(partition, None)
        if before is not None:
            followed = self._followed[before]
            followed.pop(partition, None)
            if not followed:
                del self._followed[before]
        if leader is not None:
            self._leader_of[partition] = leader
            self._followed.setdefault(leader, {})[partition] = None
        for each in {before, leader} - {None}:
            self.on_followed(each)  # type: ignore[arg-type]  # None is taken away

    # -- followed and led partitions ---------------------------------------------------------------------

    @property
    def leaders(self) -> Collection[int]:
        """The brokers that something is to be fetched from."""
        return self._followed.keys()

    def followed(self, leader: int) -> Collection[Partition]:
        """Return the partitions to fetch from this broker."""
        return self._followed.get(leader, NOBODY)

    def note_answer(self, leader: int) -> None:
        """Note that a leader has answered a fetch."""
        self._last_answers_ms[leader] = self._clock.now_ms()

    def last_answer_ms(self, leader: int) -> int | None:
        """Return when a leader has answered last, None where it never has."""
        return self._last_answers_ms.get(leader)

    @property
    def to_lead(self) -> Collection[Partition]:
        """What this broker leads, or is about to."""
        return self._to_lead.keys()

    # -- what happens to them -----------------------------------------------------------------------------

    def synced(self, partition: Partition) -> None:
        """Note that more of the partition's log is as durable as its topic asks."""
        if partition.leadership is not None:
            self._check()
        leadership, following = partition.leadership, partition.following
        if leadership is not None:
            leadership.synced(self._clock.now_ms())
            partition.moved()
            partition.wake_replicas()
        elif following is not None:
            following.synced()
            partition.moved()

    def holds_back(self, partition: Partition, node_id: int) -> bool:
        """Return whether a follower gets nothing just now: it is not in sync, and the rate is exceeded."""
        throttled, leadership = partition.config.leader_replication_throttled_replicas, partition.leadership
        return (
            bool(throttled)
            and is_named(throttled, partition.index, self._node_id)
            and leadership is not None
            and node_id not in leadership.state.isr
            and self._sending.is_exceeded(self._send_rate(), self._clock.now_ms())
        )

    def sent(self, partition: Partition, size_bytes: int) -> None:
        """Note how much a follower gets of a partition."""
        throttled = partition.config.leader_replication_throttled_replicas
        if throttled and is_named(throttled, partition.index, self._node_id):
            self._sending.moved(size_bytes, self._send_rate(), self._clock.now_ms())

    def fetched(
        self,
        partition: Partition,
        *,
        node_id: int,
        broker_epoch: int,
        offset: int,
        last_fetched_epoch: int,
        leader_epoch: int,
        log_start_offset: int = -1,
    ) -> ErrorCode | tuple[int, int] | None:
        """Apply a follower's position; return why it can't be served from there, None where it can.

        A pair is an epoch, and where that ends here: the follower's log leaves this one.
        """
        leadership = partition.leadership
        if leadership is None:
            return partition.error_code or ErrorCode.NOT_LEADER_OR_FOLLOWER
        at = FetchFrom(offset, last_fetched_epoch, leader_epoch, log_start_offset)
        found = leadership.handle_fetch(ReplicaFetch(node_id, broker_epoch, at), self._clock.now_ms())
        partition.moved()
        if partition.start_waits:
            partition.start_waits.wake(partition)
        if node_id not in leadership.state.isr or leadership.has_lost_committed(node_id):
            self.on_lag(partition)
        if isinstance(found, Diverging):
            return found.epoch, found.end_offset
        return None if isinstance(found, Served) else found

    def check_read(self, partition: Partition, offset: int) -> ErrorCode | None:
        """Return why a consumer can't read from `offset` on, None where it can, or there is nothing yet."""
        if partition.leadership is not None:
            return partition.leadership.check_read(offset)
        if partition.following is not None:
            return check_follower_read(partition.following, offset)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def read_replica(self, partition: Partition, rack: str, offset: int) -> int | None:
        """Return the replica for a consumer in this rack to read from; None for this broker."""
        if partition.leadership is None:
            return None
        return select_read_replica(partition.leadership, self.brokers, rack, offset)
