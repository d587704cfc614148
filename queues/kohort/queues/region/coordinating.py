"""What the coordinator of a region decides: pure, from the region's log and the time.

A region goes through these phases:

    GATHERING      -> RESETTING      all members have registered
    RESETTING      -> RUNNING        all of them have reset to this attempt, in one generation of the group
    RUNNING        -> CHECKPOINTING  the period is over, or an operator asks
    CHECKPOINTING  -> RUNNING        N contributions of N different names have come, and are merged
    RUNNING, CHECKPOINTING -> RESETTING  a member registers again
    any of the last three  -> RESETTING  a member asks; a drain or a reset takes too long; an operator asks
    any of them    -> GATHERING      the region has to have more members, or an operator has taken one out
    any of them    -> FAILED         that was one failure in a row too many, or there are too many members
    FAILED         -> RESETTING      an operator asks

A reset takes in what happens while it is under way: a process that registers then resets to the same attempt,
and nobody reads before the group has settled. So one death is one reset.

A contribution counts for one attempt: what was drained before a reset is no part of anything after it. All
contributions have to be of one generation of the consumer group, in which each partition has one owner. After
a rebalance members contribute once more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from kohort.queues.region.entries import (
    Asked,
    Command,
    Contribution,
    Member,
    Offsets,
    Phase,
    RegionState,
    Report,
    ResetRequest,
    topic_of,
)
from kohort.queues.region.view import RegionView

REFUSED_MAX = 20
RETIRED_MAX = 20
UNDER_WAY = (Phase.RESETTING, Phase.RUNNING, Phase.CHECKPOINTING)


@dataclass(frozen=True, slots=True)
class Region:
    """A region's name, the consumer group that its members are, how many they are, and its times.

    `period_ms` is 0 where only the operator asks for checkpoints. Members' states are kept in `states_topic`,
    or with a `states_url` in files that fsspec writes there: all members have to say the same.
    """

    name: str
    members: int
    index: int = 0
    period_ms: int = 10_000
    drain_timeout_ms: int = 30_000
    reset_timeout_ms: int = 60_000
    consecutive_resets_max: int = 5
    states_url: str = ""

    def __post_init__(self) -> None:
        if self.members < 1 or self.period_ms < 0 or min(self.drain_timeout_ms, self.reset_timeout_ms) < 1:
            raise ValueError("a region has a member or more, and times that are not negative")

    @property
    def group_id(self) -> str:
        """The consumer group that the members are, where they are given no other one."""
        return f"{self.name}-members"

    @property
    def log_topic(self) -> str:
        """Where members and coordinators tell each other everything."""
        return f"{self.name}__region"

    @property
    def states_topic(self) -> str:
        """Where members' states are kept, where there is no `states_url`."""
        return f"{self.name}__states"

    @property
    def coordinators_group_id(self) -> str:
        """The group whose only partition makes one of the coordinators the one that rules."""
        return f"{self.name}-coordinators"


class Coordinating:
    """Decides for a region as long as the newest claim has this token."""

    def __init__(self, region: Region, token: str) -> None:
        self.region = region
        self.token = token
        self._since_ms: int | None = None
        self._known: tuple[Phase, int, int] | None = None

    def decide(self, view: RegionView, now_ms: int, wall_ms: int) -> RegionState | None:
        """Return the state to be written next, or None if there is nothing to be changed.

        `now_ms` is of a clock that never goes back, `wall_ms` counts from 1970.
        It is asked again once that state was read: nothing is decided on what is not in the log.
        """
        if view.claimed_by != self.token:
            return None  # Not there yet, or no longer: somebody else rules.
        before = view.state or RegionState(view.epoch)
        self._keep_time(before, now_ms)
        after = self._after(replace(before, epoch=view.epoch), view, now_ms)
        if after.completed != before.completed:
            after = replace(after, completed_at_ms=wall_ms)
        return None if after == view.state else after

    def _keep_time(self, state: RegionState, now_ms: int) -> None:
        """Note when this phase began, as far as this coordinator has seen it."""
        known = (state.phase, state.attempt, state.sequence_id)
        if known != self._known:
            self._known, self._since_ms = known, now_ms

    def _after(self, state: RegionState, view: RegionView, now_ms: int) -> RegionState:
        state = self._let_all_in(replace(state, size=self.region.members), view.everybody)
        reports = members_reports(state, view.reports)
        state = keep_initial(keep_topic_ids(state, reports), reports)
        for command in sorted(view.commands.values(), key=lambda each: each.number):
            if command.number > state.command:
                state = self._obey(state, command)
        if state.phase in UNDER_WAY and (wanted := reset_wanted(state, reports)):
            state = self._reset(state, wanted.reason, forced=wanted.forced)
        return self._go_on(self._count_members(state), reports, now_ms)

    def _let_all_in(self, state: RegionState, reports: Sequence[Report]) -> RegionState:
        """Know members' processes, and answer the newest of all others: why is kept for these alone."""
        others = [each for each in reports if not is_member(state, each)][-REFUSED_MAX:]
        tokens = {each.token for each in others}
        refused = {token: reason for token, reason in state.refused.items() if token in tokens}
        state = state if len(refused) == len(state.refused) else replace(state, refused=refused)
        for report in others:
            state = self._let_in(state, report)
        return state

    def _let_in(self, state: RegionState, report: Report) -> RegionState:
        """Know a member's newest process, or say why it is none of ours."""
        known = state.members.get(report.name)
        if report.token in state.refused:
            return state
        if report.index != self.region.index:
            return refuse(state, report, f"region index {report.index}, and not {self.region.index}")
        if known is None and len(state.members) >= self.region.members:
            return refuse(state, report, f"the region has its {self.region.members} members")
        if known is not None and report.number <= known.number:
            return refuse(state, report, f"there is another {report.name}")
        members = {**state.members, report.name: Member(report.number, report.token)}
        state = replace(state, members=members)
        if state.phase in (Phase.RUNNING, Phase.CHECKPOINTING):
            return self._reset(state, f"{report.name} registered again", forced=False)
        return state  # Where a reset is under way it has to take part in that.

    def _obey(self, state: RegionState, command: Command) -> RegionState:
        obeyed = replace(state, command=command.number)
        match command.asked:
            case Asked.RESTART:
                return self._restart(obeyed, command.without)
            case Asked.RESET if state.phase is not Phase.GATHERING:
                return self._reset(obeyed, "an operator asked", forced=True)
            case Asked.CHECKPOINT if state.phase is Phase.RUNNING:
                return begin_checkpoint(obeyed)
            case Asked.CHECKPOINT if state.phase in UNDER_WAY:
                return state  # Soon.
        return obeyed

    def _restart(self, state: RegionState, without: str) -> RegionState:
        """Forget all checkpoints, and a member whose process is to be none any more."""
        members = dict(state.members)
        refused = dict(state.refused)
        if gone := members.pop(without, None):
            refused[gone.token] = f"an operator has taken {without} out"
        state = replace(state, members=members, refused=refused, offsets={}, saved={}, completed_at_ms=0)
        if state.phase is Phase.GATHERING:
            return state
        return self._reset(state, "an operator asked for a restart", forced=True)

    def _count_members(self, state: RegionState) -> RegionState:
        """Wait for members where the region has to have more of them; do nothing with too many."""
        missing = self.region.members - len(state.members)
        if state.phase not in UNDER_WAY or not missing:
            return state
        if missing > 0:
            return replace(state, phase=Phase.GATHERING, attempt=state.attempt + 1, reason="")
        names = ", ".join(sorted(state.members))
        reason = f"the region has to have {self.region.members} member(s), and these are members: {names}"
        return replace(state, phase=Phase.FAILED, attempt=state.attempt + 1, reason=reason)

    def _reset(self, state: RegionState, reason: str, *, forced: bool) -> RegionState:
        failures = 0 if forced else state.consecutive_resets + 1
        failed = failures > self.region.consecutive_resets_max
        return replace(
            state,
            phase=Phase.FAILED if failed else Phase.RESETTING,
            attempt=state.attempt + 1,
            consecutive_resets=failures,
            reason=reason,
        )

    def _go_on(self, state: RegionState, reports: Sequence[Report], now_ms: int) -> RegionState:
        assert self._since_ms is not None
        waited_ms = now_ms - self._since_ms
        is_same = (state.phase, state.attempt, state.sequence_id) == self._known
        match state.phase:
            case Phase.GATHERING if len(state.members) == self.region.members:
                return replace(
                    state, phase=Phase.RESETTING, attempt=state.attempt + 1, reason="all are there"
                )
            case Phase.RESETTING:
                return self._end_reset(
                    state, reports, is_late=is_same and waited_ms >= self.region.reset_timeout_ms
                )
            case Phase.RUNNING if is_same and self.region.period_ms and waited_ms >= self.region.period_ms:
                return begin_checkpoint(state)
            case Phase.CHECKPOINTING:
                return self._collect(
                    state, reports, is_late=is_same and waited_ms >= self.region.drain_timeout_ms
                )
        return state

    def _end_reset(self, state: RegionState, reports: Sequence[Report], *, is_late: bool) -> RegionState:
        there = {each.name for each in reports if each.attempt == state.attempt}
        generations = {each.generation_id for each in reports}
        if len(there) == self.region.members and len(generations) == 1 and min(generations) >= 0:
            return replace(state, phase=Phase.RUNNING)
        if not is_late:
            return state
        seconds = self.region.reset_timeout_ms / 1000
        missing = ", ".join(sorted(state.members.keys() - there))
        reason = (
            f"{missing} did not reset"
            if missing
            else f"group {group_of(self.region, reports)} did not settle"
        )
        return self._reset(state, f"{reason} within {seconds:g} s", forced=False)

    def _collect(self, state: RegionState, reports: Sequence[Report], *, is_late: bool) -> RegionState:
        parts = contributions(state, reports)
        merged = merge(list(parts.values())) if len(parts) == self.region.members else None
        if merged is None:
            return self._give_up_checkpoint(state, parts) if is_late else state
        return replace(
            state,
            phase=Phase.RUNNING,
            completed=state.sequence_id,
            offsets={**state.offsets, **merged},
            saved={name: part.saved for name, part in parts.items()},
            consecutive_resets=0,
        )

    def _give_up_checkpoint(self, state: RegionState, parts: Mapping[str, Contribution]) -> RegionState:
        """Put a checkpoint off in whose time the group did not settle; otherwise a drain has failed."""
        missing = ", ".join(sorted(state.members.keys() - parts.keys()))
        seconds = self.region.drain_timeout_ms / 1000
        if not missing:
            why = f"the group did not settle within {seconds:g} s"
            reason = f"checkpoint {state.sequence_id} was put off: {why}"
            return replace(state, phase=Phase.RUNNING, reason=reason)
        return self._reset(state, f"{missing} did not drain within {seconds:g} s", forced=False)


def members_reports(state: RegionState, reports: Mapping[str, Report]) -> list[Report]:
    """Return the reports of those who are members, and not of processes that had their names before."""
    return [report for _, report in sorted(reports.items()) if is_member(state, report)]


def group_of(region: Region, reports: Sequence[Report]) -> str:
    """Return the consumer group that the members are, as they say."""
    return next((each.group_id for each in reports if each.group_id), region.group_id)


def is_member(state: RegionState, report: Report) -> bool:
    """Return whether it is of the process that is the member of that name."""
    member = state.members.get(report.name)
    return member is not None and member.token == report.token


def reset_wanted(state: RegionState, reports: Sequence[Report]) -> ResetRequest | None:
    """Return a member's wish for a reset of the attempt that is under way; a failure before a forced one."""
    found = [each.wanted for each in reports if each.wanted and each.wanted.attempt == state.attempt]
    return min(found, key=lambda each: each.forced, default=None)


def keep_topic_ids(state: RegionState, reports: Sequence[Report]) -> RegionState:
    """Keep the id of each topic; what is known of a topic that had the same name before is dropped.

    Members hear of a new topic one after the other: an id that was retired does not come back.
    """
    for report in reports:
        for topic, topic_id in report.topic_ids.items():
            known = state.topic_ids.get(topic)
            if topic_id in ("", known) or topic_id in state.retired_topic_ids:
                continue
            if known is not None:
                state = drop_topic(state, topic, known)
            state = replace(state, topic_ids={**state.topic_ids, topic: topic_id})
    return state


def drop_topic(state: RegionState, topic: str, topic_id: str) -> RegionState:
    """Forget the offsets of a topic that was deleted."""
    retired = (*state.retired_topic_ids, topic_id)[-RETIRED_MAX:]
    return replace(
        state,
        offsets={each: at for each, at in state.offsets.items() if topic_of(each) != topic},
        initial={each: at for each, at in state.initial.items() if topic_of(each) != topic},
        retired_topic_ids=retired,
    )


def keep_initial(state: RegionState, reports: Sequence[Report]) -> RegionState:
    """Keep where a partition is read from first: what came first stays, so that each reset begins there."""
    initial = dict(state.initial)
    for report in reports:
        for partition, offset in report.initial.items():
            topic = topic_of(partition)
            if (report.topic_ids.get(topic) or None) == state.topic_ids.get(topic):
                initial.setdefault(partition, offset)
    return state if len(initial) == len(state.initial) else replace(state, initial=initial)


def contributions(state: RegionState, reports: Sequence[Report]) -> dict[str, Contribution]:
    """Return what members have given to the checkpoint that is being collected, by their names."""
    return {
        each.name: part
        for each in reports
        if (part := each.contribution) is not None
        and part.attempt == state.attempt
        and part.sequence_id == state.sequence_id
        and all(state.topic_ids.get(topic) == topic_id for topic, topic_id in part.topic_ids.items())
    }


def merge(parts: Sequence[Contribution]) -> Offsets | None:
    """Return the next offsets of all partitions; None if they were not drained in one generation."""
    if len({each.generation_id for each in parts}) != 1:
        return None
    merged: Offsets = {}
    for each in parts:
        if merged.keys() & each.offsets.keys():
            return None
        merged.update(each.offsets)
    return merged


def begin_checkpoint(state: RegionState) -> RegionState:
    """Ask for a checkpoint with a number that was never used."""
    return replace(state, phase=Phase.CHECKPOINTING, sequence_id=state.sequence_id + 1)


def refuse(state: RegionState, report: Report, reason: str) -> RegionState:
    """Tell a process that it is no member."""
    return replace(state, refused={**state.refused, report.token: reason})
