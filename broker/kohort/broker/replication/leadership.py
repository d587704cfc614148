"""One partition of a leader: the synced end of each follower, the committed end, the ISR.

The larger set counts while a change of the ISR is under way: until the metadata have the new
ISR, it may be the old one or the new one. Source: kafka.cluster.Partition; KIP-497, KIP-903, KIP-966.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from msgspec.structs import replace

from kohort.broker.controller import LiveBrokers, min_in_sync, with_isr
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.replication.follower_state import NEVER_MS, UNKNOWN_OFFSET, FollowerState
from kohort.broker.replication.logs import ReplicatedLog
from kohort.broker.replication.replica_fetch import (
    Diverging,
    ReplicaFetch,
    Served,
    answer_to,
    check_leader_epoch,
)
from kohort.protocol.errors import ErrorCode

NO_BROKERS: LiveBrokers = {}


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ISR that the leader asks the metadata for: one transaction.

    It requires that the partition is still as in `before`, that the leader's own registration holds, and
    that the joining brokers are registered with the broker epochs in `joining`.
    """

    before: PartitionState
    after: PartitionState
    joining: Mapping[int, int]


class Acknowledgement(Enum):
    """The result of an `acks=all` request."""

    WAITING = "it is not on the disk of every in-sync replica yet"
    COMMITTED = "it is"
    NOT_ENOUGH_REPLICAS = "it is, and by now they are fewer than min.insync.replicas"


class Leadership:
    """A partition under one leader epoch. A new leader epoch is a new one of these.

    `high_watermark` is what consumers, coordinators and `acks=all` may see, and only grows.
    """

    def __init__(
        self,
        node_id: int,
        state: PartitionState,
        log: ReplicatedLog,
        *,
        high_watermark: int,
        min_insync_replicas: int,
        lag_ms_max: int,
        now_ms: int,
        proposal: Proposal | None = None,
    ) -> None:
        """Start to lead: the log has the state's leader epoch.

        `proposal` is what another one of this leader epoch has asked for: it may be made yet.
        """
        assert state.leader == node_id, state
        self.node_id = node_id
        self.state = state
        self.log = log
        self.high_watermark = high_watermark
        self.epoch_start_offset = log.log_end_offset
        self.min_insync_replicas = min_insync_replicas
        self.proposal = proposal
        self._forget_decided_proposal()
        self._lag_ms_max = lag_ms_max
        self._brokers = NO_BROKERS
        self._followers: dict[int, FollowerState] = {}
        self._know_replicas(now_ms)
        self._advance(now_ms)

    def _know_replicas(self, now_ms: int) -> None:
        """Keep a state for every replica except this one, and none for removed ones."""
        known = self._followers
        self._followers = {
            each: known.get(each) or FollowerState(now_ms if each in self.state.isr else NEVER_MS)
            for each in self.state.replicas
            if each != self.node_id
        }

    # -- what others say --------------------------------------------------------------------------------

    def synced(self, now_ms: int) -> bool:
        """Return whether more is committed, now that more of this broker's own log is on the disk."""
        return self._advance(now_ms)

    def handle_fetch(self, fetch: ReplicaFetch, now_ms: int) -> Served | Diverging | ErrorCode:
        """Return the answer to a follower; if its log agrees, its fetch offset counts from now on.

        `high_watermark` may have grown: its waiters have to be checked.
        """
        error_code = check_leader_epoch(self.state.leader_epoch, fetch.at.leader_epoch)
        if error_code is not None:
            return error_code
        follower = self._followers.get(fetch.node_id)
        if follower is None or fetch.broker_epoch < follower.broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        refused = answer_to(fetch.at, self.log)
        if refused is not None:
            return refused
        follower.fetched(fetch.broker_epoch, fetch.at.offset, self.log.log_end_offset, now_ms)
        follower.begins_at(fetch.at.log_start_offset)
        self._advance(now_ms)
        return Served(self.log.log_end_offset, self.high_watermark, self.log.log_start_offset)

    def brokers_changed(self, brokers: LiveBrokers) -> None:
        """Take over which brokers are alive, their broker epochs, and which are draining."""
        self._brokers = brokers

    def follow(self, state: PartitionState, now_ms: int) -> bool:
        """Apply the current metadata, of the same leader epoch; return whether more is committed."""
        assert state.leader_epoch == self.state.leader_epoch, (state, self.state)
        if state.partition_epoch <= self.state.partition_epoch:
            return False
        self.state = state
        self._forget_decided_proposal()
        self._know_replicas(now_ms)
        return self._advance(now_ms)

    def _forget_decided_proposal(self) -> None:
        if self.proposal is not None and self.state.partition_epoch >= self.proposal.after.partition_epoch:
            self.proposal = None

    # -- the in-sync replicas ---------------------------------------------------------------------------

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The current ISR together with the proposed one: all members of either count."""
        isr = self.state.isr
        if self.proposal is None:
            return isr
        return isr + tuple(each for each in self.proposal.after.isr if each not in isr)

    def propose(self, now_ms: int) -> Proposal | None:
        """Return the ISR that is to be asked for now; None where it is right, or one is under way.

        A proposal stays until `follow` has its result, or `refused` was called. If its
        answer was lost it is sent again unchanged: at most one of the two can succeed.
        """
        if self.proposal is not None:
            return None
        end_offset = self.log.log_end_offset
        kept = [
            each
            for each in self.state.isr
            if each == self.node_id
            or not (
                self.has_lost_committed(each)
                or self._followers[each].lags(end_offset, now_ms, self._lag_ms_max)
            )
        ]
        lost = [each for each in (*self.state.isr, *self.state.elr) if self.has_lost_committed(each)]
        joining = {
            each: follower.broker_epoch
            for each, follower in self._followers.items()
            if each not in self.state.isr
            and follower.is_heard_of(now_ms, self._lag_ms_max)
            and self._may_join(each, follower)
        }
        if not joining and not lost and len(kept) == len(self.state.isr):
            return None
        isr = tuple(each for each in self.state.replicas if each in kept or each in joining)
        after = with_isr(self._with_directories(joining), isr, self.min_insync_replicas, lost=lost)
        after = replace(after, partition_epoch=self.state.partition_epoch + 1)
        self.proposal = Proposal(self.state, after, joining)
        return self.proposal

    def has_lost_committed(self, node_id: int) -> bool:
        """Return whether a follower lacks committed records: its disk has lost synced data.

        Everything committed was confirmed by all in the ISR, and by eligible replicas outside. A follower
        that restarts below that may not lead; it leaves until it has caught up, and is not eligible
        meanwhile.
        """
        follower = self._followers.get(node_id)
        if follower is None or node_id not in (*self.state.isr, *self.state.elr):
            return False
        return UNKNOWN_OFFSET < follower.synced_end_offset < self.high_watermark

    def refused(self) -> None:
        """Note that the metadata took the proposal for certain not, and never will."""
        self.proposal = None

    def _may_join(self, node_id: int, follower: FollowerState) -> bool:
        """Return whether the follower has all that is committed, and all from before this leader epoch."""
        has_all = follower.synced_end_offset >= max(self.high_watermark, self.epoch_start_offset)
        return has_all and self._is_eligible(node_id, follower)

    def _is_eligible(self, node_id: int, follower: FollowerState) -> bool:
        """Return whether its fetches came from the currently registered process (KIP-903)."""
        broker = self._brokers.get(node_id)
        return broker is not None and broker.broker_epoch == follower.broker_epoch and not broker.is_draining

    def _with_directories(self, joining: Mapping[int, int]) -> PartitionState:
        state = self.state
        if not state.directories:
            return state
        directories = tuple(
            self._brokers[each].directory_id if each in joining else directory
            for each, directory in zip(state.replicas, state.directories, strict=True)
        )
        return replace(state, directories=directories)

    # -- committed records --------------------------------------------------------------------------------

    @property
    def has_enough_replicas(self) -> bool:
        """Whether the ISR is large enough for `acks=all`."""
        return len(self.state.isr) >= min_in_sync(self.state, self.min_insync_replicas)

    def check_enough_replicas(self) -> ErrorCode | None:
        """Return what an `acks=all` produce is refused with before anything is appended."""
        return None if self.has_enough_replicas else ErrorCode.NOT_ENOUGH_REPLICAS

    def acknowledgement(self, end_offset: int) -> Acknowledgement:
        """Return the result for a request whose records end there."""
        if self.high_watermark < end_offset:
            return Acknowledgement.WAITING
        return Acknowledgement.COMMITTED if self.has_enough_replicas else Acknowledgement.NOT_ENOUGH_REPLICAS

    @property
    def latest_offset(self) -> int | None:
        """The end for consumers; None while an earlier leader may have shown them more (KIP-207)."""
        return self.high_watermark if self.high_watermark >= self.epoch_start_offset else None

    def check_read(self, offset: int) -> ErrorCode | None:
        """Return why a consumer can't read from `offset` on; None where it can, or there is nothing yet."""
        if offset < self.log.log_start_offset or offset > self.log.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset > self.high_watermark and self.latest_offset is None:
            return ErrorCode.OFFSET_NOT_AVAILABLE
        return None

    def synced_end_offset(self, node_id: int) -> int:
        """Return how far a replica's disk is known to be, -1 where nothing is known."""
        if node_id == self.node_id:
            return self.log.flushed_offset
        return self._followers[node_id].synced_end_offset

    @property
    def low_watermark(self) -> int:
        """Before which offset nothing can come back: every replica begins there or behind that may lead next.

        Missing brokers do not count, unless they are in sync, nor do those of an earlier version,
        which never report their log start. Source: Partition.lowWatermarkIfLeader.
        """
        counted = {*self.maximal_isr, *self.state.elr, *self._brokers}
        starts = [each.log_start_offset for node_id, each in self._followers.items() if node_id in counted]
        return min([self.log.log_start_offset, *starts])

    def _advance(self, now_ms: int) -> bool:
        """Commit the records that all counting replicas have; return whether the high watermark has moved.

        It does not move while the ISR is too small, or while a replica outside is eligible to lead (KIP-966).
        Those about to join are waited for: else they would never reach a leader that has no other.
        """
        if self.state.elr or not self.has_enough_replicas:
            return False
        counted = self.maximal_isr
        committed = min(self.synced_end_offset(each) for each in counted)
        for node_id, follower in self._followers.items():
            if node_id not in counted and self._is_about_to_join(node_id, follower, now_ms):
                committed = min(committed, follower.synced_end_offset)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def _is_about_to_join(self, node_id: int, follower: FollowerState, now_ms: int) -> bool:
        return now_ms - follower.caught_up_ms <= self._lag_ms_max and self._is_eligible(node_id, follower)
