"""One script on two brokers in lockstep: after each step both have answered alike, or the script ends."""

from __future__ import annotations

import enum
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import trio

from tests.differential.actor import SHORT_MS
from tests.differential.allowed import (
    ANOTHER_CLIENT,
    NO_ANSWER,
    REFUSED_AT_ONCE,
    Allowed,
    Case,
    allowed,
    without_clients,
)
from tests.differential.requests import Ask, Wait
from tests.differential.script import Script, View
from tests.differential.side import Broker, Rendered, Side

INITIAL_DELAY_MS = 600
MARGIN = 0.6
"""How much of a timer may pass before a script that races with it starts anew."""
ATTEMPTS = 30
WAIT_S = 5.0
WAIT_SLACK_S = 0.1  # How much earlier than it was seen a phase may have begun.
DESCRIBE_S = 3.0

T = TypeVar("T")


class Verdict(enum.Enum):
    """How a script ended."""

    SAME = "the same"
    DIFFERENT = "different"
    TOO_SLOW = "too slow"
    BY_CHANCE = "by chance"


@dataclass
class Difference:
    """What the two said of the same thing."""

    what: str
    ours: Rendered
    theirs: Rendered


@dataclass
class Outcome:
    """How a script ended, after how many answers."""

    seed: int
    verdict: Verdict = Verdict.SAME
    answers: int = 0
    steps: int = 0
    attempts: int = 1
    differences: list[Difference] = field(default_factory=list)
    allowed: list[Allowed] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)
    is_played_alone: bool = False

    @property
    def is_undecided(self) -> bool:
        """Whether time or a die has spoiled the script to the end."""
        return self.verdict in (Verdict.TOO_SLOW, Verdict.BY_CHANCE)


class Duel:
    """Plays one script. `ours` is tried, `theirs` is what it shall equal."""

    def __init__(self, seed: int, group_id: str, ours: Side, theirs: Side) -> None:
        self.outcome = Outcome(seed)
        self._script = Script(seed, group_id)
        self._ours = ours
        self._theirs = theirs
        self._view = View()
        self._asks: dict[int, Ask] = {}
        self._phase_began_s = self._mortal_seen_s = time.monotonic()
        self._mortal_lives = False
        self._leader = ""
        self._ask_began_s: float | None = None
        """When the question of this step was put; None while the step waits for a timer."""

    async def play(self) -> Outcome:
        """Return how the script ended."""
        number = 0
        while self.outcome.verdict is Verdict.SAME:
            step = self._script.next(self._view)
            if step is None:
                break
            number += 1
            self.outcome.transcript.append(f"{number:3} {step.text}")
            self.outcome.steps += 1
            await self._step(number, step)
        return self.outcome

    async def _step(self, number: int, step: Ask | Wait) -> None:
        began_s = time.monotonic()
        self._ask_began_s = began_s if isinstance(step, Ask) else None
        if isinstance(step, Ask):
            answers = await self._ask(number, step)
        else:
            answers = await self._wait(step)
            began_s = time.monotonic() - WAIT_SLACK_S
        ours, theirs = answers
        self._compare_answers(number, ours, theirs)
        if self.outcome.verdict is not Verdict.SAME:
            return
        if not self._script.steps:
            return
        stands = await self._compare_groups()
        if self.outcome.verdict is not Verdict.SAME:
            return
        for each, answer in sorted(theirs.items()):
            self.outcome.transcript.append(f"      {each}: {answer}")
            self._asks[each].learn(answer)
        self._look(stands, theirs, began_s, step)

    async def _ask(self, number: int, step: Ask) -> tuple[dict[int, Rendered], dict[int, Rendered]]:
        self._asks[number] = step
        if step.actor is not None:
            step.actor.busy = number
        for side in (self._ours, self._theirs):
            await side.send(number, step.name, step.version, step.build(side), step.client_id)
        return await _both(
            lambda: self._ours.settled(number, may_wait=step.may_wait, asked=step.group_id),
            lambda: self._theirs.settled(number, may_wait=step.may_wait, asked=step.group_id),
        )

    async def _wait(self, step: Wait) -> tuple[dict[int, Rendered], dict[int, Rendered]]:
        state = self._view.state

        def over(answered: bool, group: Rendered) -> bool:
            now = _view(group)
            if step.gone is not None:
                return step.gone not in now.members
            return answered or now.state != state

        ours, theirs = await _both(
            lambda: self._ours.wait(over, WAIT_S), lambda: self._theirs.wait(over, WAIT_S)
        )
        if ours is None and theirs is None:
            self._script.steps = 0  # Nothing to wait for: another script will tell more.
        elif ours is None or theirs is None:
            self._differ("the wait ends", ours is not None, theirs is not None, is_late=False)
        return ours or {}, theirs or {}

    # Comparing.

    def _compare_answers(self, step: int, ours: dict[int, Rendered], theirs: dict[int, Rendered]) -> None:
        for number in sorted(ours.keys() | theirs.keys()):
            self.outcome.answers += 1
            mine, other = ours.get(number, NO_ANSWER), theirs.get(number, NO_ANSWER)
            if mine == other:
                self._look_for_ghost(self._asks[number], number < step, other)
                continue
            if self._is_chance(mine, other):
                self.outcome.verdict = Verdict.BY_CHANCE
                return
            ask = self._asks[number]
            known = allowed(Case(ask, number < step, mine, other, theirs))
            if known is None:
                what = f"answer to {number}: {ask.name} {ask.version}"
                self._differ(what, mine, other, is_late=self._may_be_late())
            else:
                self._allow(known, number)

    def _look_for_ghost(self, ask: Ask, is_older: bool, answer: Rendered) -> None:
        """End a script whose first join was refused: Kafka has the group from then on."""
        is_new = self._view.state == "Dead" or ask.group_id != self._theirs.group_id
        case = Case(ask, is_older, answer, answer, {})
        if is_new and REFUSED_AT_ONCE.holds(case):
            self.outcome.allowed.append(REFUSED_AT_ONCE)
            self._script.steps = 0

    def _allow(self, known: Allowed, number: int) -> None:
        self.outcome.allowed.append(known)
        self._theirs.forget(number)
        if known.ends:
            self._script.steps = 0

    async def _compare_groups(self) -> Rendered:
        until_s = time.monotonic() + DESCRIBE_S
        was_late: bool | None = None
        while True:
            ours, theirs = await _both(self._ours.describe, self._theirs.describe)
            if ours == theirs or without_clients(ours) == without_clients(theirs):
                break
            if was_late is None:
                was_late = self._may_be_late()
            if time.monotonic() > until_s:
                break
            await trio.sleep(0.01)
        self.outcome.answers += 1
        if ours != theirs:
            if without_clients(ours) == without_clients(theirs):
                self.outcome.allowed.append(ANOTHER_CLIENT)
            else:
                self._differ("the group", ours, theirs, is_late=bool(was_late))
        return theirs

    def _is_chance(self, ours: Rendered, theirs: Rendered) -> bool:
        """Return whether the two only chose other leaders, where a leader had gone.

        Kafka takes the first of a hash table by member id, so the choice is that of a die.
        """
        if not isinstance(ours, dict) or not isinstance(theirs, dict) or "leader" not in ours:
            return False
        former = self._leader
        return bool(ours["leader"] and theirs["leader"]) and (
            ours["leader"] != theirs["leader"] and former not in (ours["leader"], theirs["leader"])
        )

    def _differ(self, what: str, ours: Rendered, theirs: Rendered, *, is_late: bool) -> None:
        if is_late:
            self.outcome.verdict = Verdict.TOO_SLOW
            return
        self.outcome.verdict = Verdict.DIFFERENT
        self.outcome.differences.append(Difference(what, ours, theirs))

    # What the next step may know.

    def _look(self, stands: Rendered, answers: dict[int, Rendered], began_s: float, step: Ask | Wait) -> None:
        before, self._view = self._view, _view(stands)
        view = self._view
        view.parked = frozenset(self._theirs.parked)
        self.outcome.transcript.append(
            f"      {view.state} {sorted(view.members)} parked {sorted(view.parked)}"
        )
        was_empty = before.state in {"Empty", "Dead"}
        preparing = view.state == "PreparingRebalance"
        view.is_initial = preparing and (was_empty or before.is_initial)
        joined = [_leader(each) for each in answers.values() if _is_join(each)]
        if joined:
            self._leader = joined[-1]
        if view.state != before.state or joined or isinstance(step, Wait):
            self._phase_began_s = began_s
        self._look_at_mortal(answers, began_s, step)
        if self._races():
            self.outcome.verdict = Verdict.TOO_SLOW

    def _look_at_mortal(self, answers: dict[int, Rendered], began_s: float, step: Ask | Wait) -> None:
        mortal = self._script.mortal
        if mortal is None:
            return
        if isinstance(step, Wait) and step.gone is not None:
            self._mortal_lives = False
        heard = [number for number in answers if self._asks[number].actor is mortal]
        if heard or (isinstance(step, Ask) and step.actor is mortal):
            self._mortal_seen_s = began_s
        if any(_is_join(answers[number]) or _gives_id(answers[number]) for number in heard):
            self._mortal_lives = True

    def _may_be_late(self) -> bool:
        """Return whether a timer may have fired on one side before it got the question of this step."""
        if self._ask_began_s is None:
            return False
        asked_ms = (time.monotonic() - self._ask_began_s) * 1000
        return self._races() or asked_ms > min(INITIAL_DELAY_MS, SHORT_MS) * MARGIN

    def _races(self) -> bool:
        """Return whether a timer may by now have fired on one side and not on the other."""
        now_s, view, script = time.monotonic(), self._view, self._script
        in_phase_ms = (now_s - self._phase_began_s) * 1000
        if view.is_initial and in_phase_ms > INITIAL_DELAY_MS * MARGIN:
            return True
        rebalancing = view.state in {"PreparingRebalance", "CompletingRebalance"}
        if script.tempo == "short rebalance" and rebalancing and in_phase_ms > SHORT_MS * MARGIN:
            return True
        mortal = script.mortal
        if mortal is None or not self._mortal_lives or mortal.busy in self._theirs.parked:
            return False
        return (now_s - self._mortal_seen_s) * 1000 > SHORT_MS * MARGIN


def _view(group: Rendered) -> View:
    assert isinstance(group, dict)
    (described,) = group["groups"]
    return View(
        state=described["group_state"],
        members=frozenset(each["member_id"] for each in described["members"]),
    )


def _is_join(answer: Rendered) -> bool:
    return isinstance(answer, dict) and bool(answer.get("leader")) and answer["error_code"] == 0


def _leader(answer: Rendered) -> str:
    assert isinstance(answer, dict)
    return str(answer["leader"])


def _gives_id(answer: Rendered) -> bool:
    return isinstance(answer, dict) and answer.get("error_code") == 79


async def _both(ours: Callable[[], Awaitable[T]], theirs: Callable[[], Awaitable[T]]) -> tuple[T, T]:
    found: dict[str, T] = {}

    async def put(name: str, ask: Callable[[], Awaitable[T]]) -> None:
        found[name] = await ask()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(put, "ours", ours)
        nursery.start_soon(put, "theirs", theirs)
    return found["ours"], found["theirs"]


async def play(seed: int, ours: Broker, theirs: Broker, run: str) -> Outcome:
    """Return how the script of that seed ended; again and again while time or a die spoils it."""
    for attempt in range(ATTEMPTS):
        group_id = f"group-{run}-{seed}-{attempt}"
        sides = [Side(each, group_id, await each.connection()) for each in (ours, theirs)]
        try:
            outcome = await Duel(seed, group_id, *sides).play()
        finally:
            for side in sides:
                side.close()
        outcome.attempts = attempt + 1
        if outcome.verdict in {Verdict.SAME, Verdict.DIFFERENT}:
            break
    return outcome
