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

A rebalance is nothing to a member that gets the partitions back that it has read from: it reads on where it
was. It asks for a reset where one of them went to somebody else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kohort.queues.region.entries import (
    Contribution,
    MemberState,
    Offsets,
    Phase,
    RegionState,
    Report,
    ResetRequest,
    TopicIds,
    topic_of,
)
from kohort.queues.region.view import RegionView


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
class LookUp:
    """Look up the ids of these topics, and say `looked_up`."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drain:
    """Hold the processing, commit what it has done, save the state, and say `drained`."""

    sequence_id: int


Action = Wait | Poll | Stop | Restore | Seek | Propose | LookUp | Drain


class Membership:
    """A process that is a member of a region under a name. `number` counts the processes with that name."""

    def __init__(
        self,
        name: str,
        index: int,
        number: int,
        token: str,
        *,
        group_id: str = "",
        group_instance_id: str = "",
    ) -> None:
        self.name = name
        self.group_id = group_id
        self.group_instance_id = group_instance_id
        self.index = index
        self.number = number
        self.token = token
        self.state = MemberState.SUBSCRIBED
        self.attempt = 0
        self.assigned: set[str] = set()
        self.generation_id = -1
        self._unplaced: set[str] = set()
        self._released: set[str] = set()  # Read from, and revoked: they may come back.
        self._next_read: Offsets = {}  # Of partitions that were read from since the reset.
        self._topic_ids: TopicIds = {}
        self._looked_up: set[str] = set()  # Topics whose ids are those of this attempt.
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
            self.state,
            self.generation_id,
            {topic: self._topic_ids[topic] for topic in sorted(self._looked_up)},
            self.group_id,
            self.group_instance_id,
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
        if self._wanted is not None and self._wanted.attempt == region.attempt:
            return Wait()
        if region.attempt != self.attempt:
            return Restore(region.attempt, region.completed, region.saved.get(self.name))
        if self._released:
            return Wait()  # For the end of a rebalance.
        return self._look_up(region) or self._place(region) or self._work(region)

    def _look_up(self, region: RegionState) -> Action | None:
        retired = {each for each in self._looked_up if self._topic_ids[each] in region.retired_topic_ids}
        topics = {topic_of(each) for each in self.assigned}
        missing = topics - self._looked_up | topics & retired
        return LookUp(tuple(sorted(missing))) if missing else None

    def _is_known(self, region: RegionState, partition: str) -> bool:
        """Whether what the region says of a partition is of the topic that has the name now."""
        topic_id = self._topic_ids[topic_of(partition)]
        return not topic_id or region.topic_ids.get(topic_of(partition)) == topic_id

    def _place(self, region: RegionState) -> Action | None:
        unplaced = [each for each in self._unplaced if self._is_known(region, each)]
        starts = {each: self._next_read.get(each, region.start_of(each)) for each in unplaced}
        known = {each: start for each, start in starts.items() if start is not None}
        if known:
            return Seek(known)
        missing = starts.keys() - self._initial.keys()
        return Propose(tuple(sorted(missing))) if missing else None

    def _work(self, region: RegionState) -> Action:
        if region.phase is Phase.CHECKPOINTING:
            is_placed = not self._unplaced and all(self._is_known(region, each) for each in self.assigned)
            has_drained = self._has_contributed(region.sequence_id)
            return Drain(region.sequence_id) if is_placed and not has_drained else Wait()
        if region.phase is not Phase.RUNNING:
            return Wait()
        if self.state is MemberState.DRAINED:
            self.state = MemberState.POLLING
        return Poll()

    def _has_contributed(self, sequence_id: int) -> bool:
        """Whether our part of this checkpoint is of the generation that the group is in."""
        part = self._contribution
        wanted = (sequence_id, self.attempt, self.generation_id)
        return part is not None and (part.sequence_id, part.attempt, part.generation_id) == wanted

    # What the consumer tells

    @property
    def is_throttled(self) -> bool:
        """Whether there was no record yet since the reset."""
        return not self._next_read

    @property
    def is_moving(self) -> bool:
        """Whether something that we had, or have, does not stand where the region wants it yet."""
        unknown = {topic_of(each) for each in self.assigned} - self._looked_up
        return bool(self._unplaced or self._released or unknown)

    def become_assigned(self, partitions: Iterable[str]) -> None:
        """Note what has come, none of it placed yet; of what went before, all else went to others."""
        new = set(partitions)
        self.assigned |= new
        self._unplaced |= new
        lost, self._released = self._released - new, set()
        if lost:
            self.want_reset(forced=True, reason=f"{self.name} lost {', '.join(sorted(lost))}")

    def become_revoked(self, partitions: Iterable[str]) -> None:
        """Forget partitions that go, until it is told whether they come back."""
        gone = self.assigned & set(partitions)
        self.assigned -= gone
        self._unplaced -= gone
        self._released |= gone & self._next_read.keys()

    def read(self, next_offsets: Mapping[str, int]) -> None:
        """Note that records have come, up to these offsets."""
        self._next_read.update(next_offsets)
        self.state = MemberState.POLLING

    def has_read(self, partition: str) -> bool:
        """Whether records of this partition were read since the reset."""
        return partition in self._next_read

    def forget(self, partition: str) -> None:
        """Note that the topic of this partition was deleted and created again."""
        self._next_read.pop(partition, None)
        self._looked_up.discard(topic_of(partition))

    def looked_up(self, topic_ids: TopicIds) -> None:
        """Note the ids of topics; "" where the broker knows none."""
        for topic, topic_id in topic_ids.items():
            if self._topic_ids.get(topic, topic_id) != topic_id:
                self._initial = {each: at for each, at in self._initial.items() if topic_of(each) != topic}
        self._topic_ids.update(topic_ids)
        self._looked_up.update(topic_ids)

    # What was done

    def want_reset(self, *, forced: bool, reason: str) -> None:
        """Go on with nothing until the region has reset."""
        if self._wanted is None:
            self._wanted = ResetRequest(self.attempt, forced, reason)
        self.state = MemberState.RESET_PENDING

    def restore_failed(self, attempt: int, reason: str) -> None:
        """Ask for another attempt: this one's state could not be restored."""
        self._wanted = ResetRequest(attempt, forced=False, reason=reason)
        self.state = MemberState.RESET_PENDING

    def restored(self, attempt: int) -> None:
        """Begin an attempt: the queue is empty, and the state is the one of the checkpoint."""
        self.attempt = attempt
        self.state = MemberState.RESET_COMPLETE
        self._next_read.clear()
        self._released.clear()
        self._looked_up.clear()
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
        topics = {topic_of(each) for each in offsets}
        topic_ids = {
            topic: topic_id for topic, topic_id in self._topic_ids.items() if topic_id and topic in topics
        }
        self._contribution = Contribution(sequence_id, self.attempt, generation_id, offsets, saved, topic_ids)
