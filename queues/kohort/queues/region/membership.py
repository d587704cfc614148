"""What a member of a region does next: pure, from the region's log and from what the consumer tells.

    SUBSCRIBED      -> RESET_COMPLETE   the region has all its members, and ours has restored its state
    RESET_COMPLETE  -> POLLING          the first records have come
    POLLING         -> DRAINED          nothing is under way, offsets are committed, the state is saved
    RESET_COMPLETE  -> DRAINED          the same, where nothing was read since the reset
    DRAINED         -> POLLING          the region has all contributions
    POLLING, DRAINED -> RESET_PENDING   partitions went, or something failed: a reset is asked for
    any of them     -> RESET_COMPLETE   the region resets, and our state is restored

Until the first record after a reset polls are throttled: all members reset at that time, and a rebalance
that comes before that record costs nothing. What was read and not processed when a member drains stays in
its queue until DRAINED ends.

A revocation is nothing to a member that has read no record since it subscribed or reset: what comes
instead is sought to the same checkpoint.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kohort.queues.region.entries import Contribution, Offsets, Phase, RegionState, Report, ResetRequest
from kohort.queues.region.view import RegionView


class MemberState(StrEnum):
    """How a member stands; the module says what leads from one to another."""

    SUBSCRIBED = "subscribed"
    POLLING = "polling"
    DRAINED = "drained"
    RESET_PENDING = "reset pending"
    RESET_COMPLETE = "reset complete"


@dataclass(frozen=True, slots=True)
class Wait:
    """Read nothing; stay in the group."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Read and process."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End: this process is no member."""

    reason: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Drop the queue, bring the saved state back (None: the first one), and say `restored`."""

    attempt: int
    sequence_id: int
    saved: str | None


@dataclass(frozen=True, slots=True)
class Seek:
    """Seek these partitions, and say `placed`."""

    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Propose:
    """Look up where these partitions are to be read from first, and say `proposed`."""

    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """Hold the processing, commit what it has done, save the state, and say `drained`."""

    sequence_id: int


Action = Wait | Poll | Stop | Restore | Seek | Propose | Drain


class Membership:
    """A process that is a member of a region under a name. `number` counts the processes with that name."""

    def __init__(self, name: str, index: int, number: int, token: str) -> None:
        self.name = name
        self.index = index
        self.number = number
        self.token = token
        self.state = MemberState.SUBSCRIBED
        self.attempt = 0
        self.assigned: set[str] = set()
        self._unplaced: set[str] = set()
        self._has_read = False
        self._wanted: ResetRequest | None = None
        self._contribution: Contribution | None = None
        self._initial: Offsets = {}

    @property
    def report(self) -> Report:
        """What the region's log is to say of us."""
        return Report(
            self.name,
            self.index,
            self.number,
            self.token,
            self.attempt,
            self._wanted,
            self._contribution,
            dict(self._initial),
        )

    @property
    def placed_partitions(self) -> set[str]:
        """Those that may be read: the others do not stand where the region wants them yet."""
        return self.assigned - self._unplaced

    def next_action(self, view: RegionView) -> Action:
        """Return what is to be done now."""
        region, known = view.state, view.reports.get(self.name)
        if known is not None and known.token != self.token and known.number >= self.number:
            return Stop(f"there is another {self.name}")
        if region is None:
            return Wait()
        if reason := region.refused.get(self.token):
            return Stop(reason)
        member = region.members.get(self.name)
        if member is None or member.token != self.token or region.phase in (Phase.GATHERING, Phase.FAILED):
            return Wait()
        if region.attempt != self.attempt:
            return Restore(region.attempt, region.completed, region.saved.get(self.name))
        if self._wanted is not None:
            return Wait()
        return self._place(region) or self._work(region)

    def _place(self, region: RegionState) -> Action | None:
        starts = {each: region.start_of(each) for each in self._unplaced}
        known = {each: start for each, start in starts.items() if start is not None}
        if known:
            return Seek(known)
        missing = starts.keys() - self._initial.keys()
        return Propose(tuple(sorted(missing))) if missing else None

    def _work(self, region: RegionState) -> Action:
        if region.phase is Phase.CHECKPOINTING and not self._unplaced:
            is_done = (
                self._contribution is not None
                and self._contribution.sequence_id == region.sequence_id
                and self._contribution.attempt == self.attempt
            )
            return Wait() if is_done else Drain(region.sequence_id)
        if region.phase is not Phase.RUNNING:
            return Wait()
        if self.state is MemberState.DRAINED:
            self.state = MemberState.POLLING
        return Poll()

    # What the consumer tells

    @property
    def is_throttled(self) -> bool:
        """Whether there was no record yet since the reset."""
        return not self._has_read

    @property
    def has_unplaced(self) -> bool:
        """Whether something that we have does not stand where the region wants it yet."""
        return bool(self._unplaced)

    def become_assigned(self, partitions: Iterable[str]) -> None:
        """Note what we have now, none of it placed yet."""
        new = set(partitions)
        self.assigned |= new
        self._unplaced |= new

    def become_revoked(self, partitions: Iterable[str]) -> None:
        """Forget partitions that go; what was read of them is with us, and has to be undone."""
        gone = set(partitions)
        self.assigned -= gone
        self._unplaced -= gone
        if gone and self._has_read:
            self.want_reset(forced=True, reason=f"partitions of {self.name} were revoked")

    def read(self) -> None:
        """Note that records have come."""
        self._has_read = True
        self.state = MemberState.POLLING

    # What was done

    def want_reset(self, *, forced: bool, reason: str) -> None:
        """Go on with nothing until the region has reset."""
        if self._wanted is None:
            self._wanted = ResetRequest(self.attempt, forced, reason)
        self.state = MemberState.RESET_PENDING

    def restored(self, attempt: int) -> None:
        """Begin an attempt: the queue is empty, and the state is the one of the checkpoint."""
        self.attempt = attempt
        self.state = MemberState.RESET_COMPLETE
        self._has_read = False
        self._wanted = None
        self._contribution = None
        self._unplaced = set(self.assigned)

    def placed(self, partitions: Iterable[str]) -> None:
        """Note that these stand where the region wants them."""
        self._unplaced.difference_update(partitions)

    def proposed(self, offsets: Mapping[str, int]) -> None:
        """Tell where partitions may be read from that the region does not know; the first one counts."""
        self._initial.update(offsets)

    def drained(self, sequence_id: int, generation_id: int, offsets: Offsets, saved: str | None) -> None:
        """Contribute to a checkpoint what we had in that generation of the group."""
        self.state = MemberState.DRAINED
        self._contribution = Contribution(sequence_id, self.attempt, generation_id, offsets, saved)
