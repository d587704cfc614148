"""Random walks over a region's coordinators and members: each ends in a state that leads on.

Members, coordinators and strangers come and go, partitions move, entries of the log are late or there twice,
compaction takes old ones, drains and restores fail, states are lost, operators ask for anything. When the
faults end the region goes on by itself, or `kohort region status` prints the commands by which
it does. The test does what these say, until all records are in a checkpoint, each once.

KOHORT_TEST_WALKS seeds (200 unless told).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import pytest
from msgspec.structs import replace as replace_struct

from kohort.cli.region_commands import status_lines
from kohort.queues.region.asking import RegionStatus
from kohort.queues.region.coordinating import Coordinating, Region, members_reports
from kohort.queues.region.entries import (
    Asked,
    Command,
    Entry,
    MemberState,
    Phase,
    RegionState,
    Report,
    ResetRequest,
)
from kohort.queues.region.membership import Membership
from kohort.queues.region.test_any_history import PARTITIONS, Coordinator, Participant, Process, World, states
from kohort.queues.region.view import RegionView, next_command

SEEDS = int(os.environ.get("KOHORT_TEST_WALKS", "200"))
REGION = Region(
    "sums",
    members=3,
    period_ms=150,
    drain_timeout_ms=400,
    reset_timeout_ms=600,
    consecutive_resets_max=2,
)
NAMES = "abcd"
STEPS_MAX = 1_200
QUIET_MS = 6_000  # Each wait has its end within that: three attempts, a drain in each, and again.
ROUND_MS = 10
COMMANDS_MAX = 12
COMMAND = re.compile(r"kohort region (?P<verb>\w+) sums(?P<arguments>.*)")


class Member(Process):
    """A member that may stand still, and whose states may be lost."""

    asleep_until_ms = 0

    def step(self) -> None:
        if self.world.now_ms >= self.asleep_until_ms:
            super().step()

    def restore(self, attempt: int, sequence_id: int, saved: str | None) -> None:
        assert isinstance(self.world, Walk)
        if saved is not None and saved not in self.world.saved:
            self.core.restore_failed(attempt, f"{self.name} did not restore its state: no state at {saved}")
        elif self.world.has_faults and self.world.random.random() < 0.05:
            self.core.restore_failed(attempt, f"{self.name} did not restore its state within 15 s")
        else:
            super().restore(attempt, sequence_id, saved)


class Walk(World):
    """A region to which anything happens, until `settle`."""

    def __init__(self, seed: int) -> None:
        self.has_faults = self.has_coordinator = True
        self.living: list[Member] = []
        self.group: set[Member] = set()  # Those of the last rebalance.
        self.commands: Counter[str] = Counter()
        self.phases: Counter[Phase] = Counter()
        super().__init__(seed, replace(REGION, period_ms=150 if seed % 4 else 0))

    def open(self) -> None:
        for name in NAMES[: self.random.choice((2, 3, 3, 3))]:
            self.start(name)
        self.coordinator = Coordinator(self)
        self.rebalance()

    def write(self, entry: Entry) -> int:
        """Write it, at times twice."""
        offset = super().write(entry)
        if self.has_faults and self.random.random() < 0.02:
            super().write(entry)
        return offset

    def check(self, state: RegionState) -> None:
        if all(each is None or each in self.saved for each in state.saved.values()):
            super().check(state)

    # What may happen

    def start(self, name: str, index: int = 0) -> None:
        self.living.append(Member(self, name, index))

    def rebalance(self) -> None:
        self.generation_id += 1
        self.group = {each for each in self.living if not each.is_stopped}
        group = sorted(self.group, key=lambda each: each.core.token)
        self.owners = {each: self.random.choice(group) for each in PARTITIONS} if group else {}

    def fault(self) -> None:
        happens = self.random.choices(tuple(FAULTS), tuple(FAULTS.values()))[0]
        happens(self)

    def kill_a_process(self) -> None:
        if self.living:
            victim = self.random.choice(self.living)
            self.living.remove(victim)
            if self.random.random() < 0.7:
                self.start(victim.name)

    def start_a_process(self) -> None:
        """Start a member, a second one of its name, a stranger, or one with another index."""
        if len(self.living) < 8:
            self.start(self.random.choice([*NAMES, "x", "y"]), self.random.choice((0, 0, 0, 5)))

    def start_a_coordinator(self) -> None:
        if self.has_faults and self.random.random() < 0.1:
            self.region = replace(self.region, members=self.random.choice((2, 3, 4)))
        self.coordinator = Coordinator(self)
        self.has_coordinator = True

    def kill_the_coordinator(self) -> None:
        self.has_coordinator = False

    def put_a_process_to_sleep(self) -> None:
        if self.living:
            self.random.choice(self.living).asleep_until_ms = self.now_ms + self.random.randint(100, 1_500)

    def lose_a_state(self) -> None:
        if self.saved:
            del self.saved[self.random.choice(list(self.saved))]

    def compact(self) -> None:
        """Leave the newest entry of each key alone; offsets stay."""
        newest = {entry[0]: offset for offset, entry in enumerate(self.log) if entry}
        for offset, entry in enumerate(self.log):
            if entry and newest[entry[0]] != offset:
                self.log[offset] = None

    def ask(self) -> None:
        asked = self.random.choices(list(Asked), (4, 2, 1))[0]
        without = self.random.choice(["", *NAMES]) if asked is Asked.RESTART else ""
        self.write(next_command(self.judge, asked, without))

    def run(self) -> None:
        for step in range(self.random.randint(100, STEPS_MAX)):
            self.now_ms += self.random.randint(0, ROUND_MS)
            if self.random.random() < 0.04:
                self.fault()
            for partition, most in PARTITIONS.items():
                self.ends[partition] = max(self.ends[partition], min(most, step // 20))
            self.step(self.everybody())

    def everybody(self) -> list[Participant]:
        return [*self.living, *([self.coordinator] if self.has_coordinator else ())]

    def step(self, everybody: list[Participant]) -> None:
        if everybody:
            super().step(everybody)

    # The end

    def settle(self) -> None:
        """Do what the status says until the region is through with all records."""
        self.has_faults = False
        self.ends = dict(PARTITIONS)
        lines: list[str] = []
        for _ in range(COMMANDS_MAX):
            before = self.judge.state
            self.be_quiet()
            if self.is_through():
                return
            lines = status_lines("sums", self.status())
            self.assert_named(lines)
            assert not (self.is_resetting(before) and self.has_coordinator), (
                f"a reset without an end: {lines}"
            )
            commands = [found for line in lines if (found := COMMAND.search(line))]
            if not commands and not self.region.period_ms:
                self.do("checkpoint", "")  # As the region wants it that has no period.
            elif not commands:
                assert self.judge.state != before, f"neither goes on nor says how: {lines}"
            for each in commands:
                if self.do(each["verb"], each["arguments"].strip()):
                    break
        raise AssertionError(f"stuck after {COMMANDS_MAX} commands: {self.commands} {lines}")

    def be_quiet(self) -> None:
        """Let the time pass in which each wait ends; the group settles by itself."""
        until_ms = self.now_ms + QUIET_MS
        while self.now_ms < until_ms and not self.is_through():
            self.now_ms += ROUND_MS
            newest = {each.name: each for each in self.living if not each.is_stopped}
            self.living = list(newest.values())
            if self.group != set(self.living):
                self.rebalance()
            for each in self.everybody():
                super().step([each])

    def is_resetting(self, before: RegionState | None) -> bool:
        """Return whether this attempt has not ended since then."""
        state = self.judge.state
        return (
            state is not None
            and before is not None
            and state.phase is Phase.RESETTING
            and state.attempt == before.attempt
        )

    def status(self) -> RegionStatus:
        state, view = self.judge.state, self.judge
        reports = list(view.reports.values()) if state is None else members_reports(state, view.reports)
        living = {each.core.token for each in self.living}
        here = {each.name for each in reports if each.token in living}
        absent = tuple(sorted(set(state.members) - here)) if state else ()
        return RegionStatus(state, {each.name: each for each in reports}, int(self.has_coordinator), absent)

    def assert_named(self, lines: list[str]) -> None:
        state = self.judge.state
        if state is None:
            assert lines, "no word of a region that nobody rules"
            return
        self.phases[state.phase] += 1
        assert any(line.startswith(f"{state.phase} in attempt {state.attempt}: ") for line in lines), lines
        for member in state.members:
            told = next(line for line in lines if line.startswith(f"member {member}: "))
            assert any(each in told for each in (*MemberState, "no report")), told

    def do(self, verb: str, arguments: str) -> bool:
        """Do what a command does; return whether the next status says something else then."""
        state = self.judge.state
        match verb, arguments.split():
            case "coordinate", ["--members", _]:
                self.start_a_coordinator()
            case "run", ["MEMBER", "..."]:
                known = state.members if state else {}
                self.start(next(each for each in NAMES if each not in known))
            case "run", [name, "..."]:
                self.start(name)
                return False  # The others that are absent are started, too.
            case "checkpoint", []:
                self.write(next_command(self.judge, Asked.CHECKPOINT))
            case "reset", [] if state and "no state at" in state.reason:
                return False  # States are lost: the next line is for that.
            case "reset", []:
                self.write(next_command(self.judge, Asked.RESET))
            case "reset", ["--to-beginning"]:
                self.write(next_command(self.judge, Asked.RESTART))
            case "reset", ["--to-beginning", "--without", "MEMBER"]:
                assert state is not None
                self.write(next_command(self.judge, Asked.RESTART, max(state.members)))
            case _:
                raise AssertionError(f"no such command: {verb} {arguments}")
        self.commands[f"{verb} {arguments}"] += 1
        return True


FAULTS: dict[Callable[[Walk], None], int] = {
    Walk.kill_a_process: 8,
    Walk.start_a_process: 4,
    Walk.start_a_coordinator: 6,
    Walk.kill_the_coordinator: 2,
    Walk.put_a_process_to_sleep: 6,
    Walk.rebalance: 8,
    Walk.lose_a_state: 2,
    Walk.compact: 2,
    Walk.ask: 5,
}


def walk(seed: int) -> Walk:
    """Return a walk that has come to its end."""
    found = Walk(seed)
    found.run()
    found.settle()
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_walk_ends_where_the_status_says_how_it_goes_on(seed: int) -> None:
    walk(seed)


def test_the_walks_have_everything_in_them() -> None:
    walks = [walk(seed) for seed in range(60)]
    commands, phases, reasons = Counter[str](), Counter[Phase](), ""
    for each in walks:
        commands.update(each.commands)
        phases.update(each.phases)
        reasons += " ".join(state.reason for state in states(each))
        reasons += " ".join(reason for state in states(each) for reason in state.refused.values())
    assert {each.split()[0] for each in commands} == {"checkpoint", "coordinate", "reset", "run"}
    assert {each for each in commands if each.startswith("reset")} == {
        "reset ",
        "reset --to-beginning",
        "reset --to-beginning --without MEMBER",
    }
    assert {Phase.GATHERING, Phase.RUNNING, Phase.FAILED} <= phases.keys()
    for reason in (
        "registered again",
        "lost flights",
        "save raised",
        "did not drain within 0.4 s",
        "did not reset within 0.6 s",
        "did not restore its state within",
        "no state at",
        "an operator asked for a restart",
        "has to have",
        "region index 5",
        "has its 3 members",
        "taken b out",
    ):
        assert reason in reasons, reason


def wait_for_ever(
    core: Coordinating, state: RegionState, reports: Sequence[Report], *, is_late: bool
) -> RegionState:
    return END_RESET(core, state, reports, is_late=False)


def obey_no_reset(core: Coordinating, state: RegionState, command: Command) -> RegionState:
    if command.asked is Asked.RESET and state.phase is Phase.FAILED:
        return replace_struct(state, command=command.number)
    return OBEY(core, state, command)


def restart_at_the_checkpoint(core: Coordinating, state: RegionState, without: str) -> RegionState:
    return core._reset(state, "an operator asked for a restart", forced=True)


def go_by_the_first_claim(
    core: Coordinating, view: RegionView, now_ms: int, wall_ms: int
) -> RegionState | None:
    epoch = EPOCHS.setdefault(core, view.epoch)
    return DECIDE(core, view, now_ms, wall_ms) if view.epoch == epoch else None


def restored_and_still_asking(core: Membership, attempt: int) -> None:
    wanted = core._wanted
    RESTORED(core, attempt)
    core._wanted = wanted and ResetRequest(attempt, wanted.forced, wanted.reason)


DECIDE, OBEY, END_RESET, RESTORED = (
    Coordinating.decide,
    Coordinating._obey,
    Coordinating._end_reset,
    Membership.restored,
)
EPOCHS: WeakKeyDictionary[Coordinating, int] = WeakKeyDictionary()
MUTANTS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "a reset has no time-out": (Coordinating, "_end_reset", wait_for_ever),
    "a region that has failed obeys no reset": (Coordinating, "_obey", obey_no_reset),
    "a restart goes back to the checkpoint": (Coordinating, "_restart", restart_at_the_checkpoint),
    "a claim that is there twice is somebody else's": (Coordinating, "decide", go_by_the_first_claim),
    "a member that has reset asks for a reset still": (Membership, "restored", restored_and_still_asking),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    for seed in range(100):
        try:
            walk(seed)
        except (AssertionError, StopIteration):
            return
    pytest.fail(f"{name}: 100 walks did not notice")
