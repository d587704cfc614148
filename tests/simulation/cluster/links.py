"""The links between brokers, clients and etcd: each direction for itself delays, loses, or is cut."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.schedule import Action, Schedule

ETCD = "etcd"
LATENCY_MS_MAX = 4
LOST_SHARE = 0.002


class Links:
    """Messages from name to name. They may overtake each other, and get lost."""

    def __init__(self, schedule: Schedule, random: Random) -> None:
        self._schedule = schedule
        self._random = random
        self._cut: dict[tuple[str, str], int] = {}  # Until when.
        self._slow: dict[tuple[str, str], tuple[int, int]] = {}  # Until when, and by how much.
        self.calm = False

    def send(self, source: str, target: str, arrive: Action) -> None:
        """Let it arrive a while later, or never."""
        now_ms = self._schedule.time_ms
        if self._cut.get((source, target), 0) > now_ms:
            return
        random = self._random.random()
        if random < LOST_SHARE and not self.calm:
            return
        until_ms, extra_ms = self._slow.get((source, target), (0, 0))
        delay_ms = 1 + int(random * LATENCY_MS_MAX) + (int(extra_ms * random) if until_ms > now_ms else 0)
        self._schedule.after(delay_ms, arrive)

    def cut(self, source: str, target: str, duration_ms: int) -> None:
        """Let nothing through in this direction for so long."""
        self._cut[source, target] = self._schedule.time_ms + duration_ms

    def slow(self, source: str, target: str, duration_ms: int, extra_ms: int) -> None:
        """Delay what goes in this direction for so long."""
        self._slow[source, target] = (self._schedule.time_ms + duration_ms, extra_ms)

    def heal(self) -> None:
        """Let everything through from now on."""
        self._cut.clear()
        self._slow.clear()
        self.calm = True


class Process:
    """Something that runs, may be paused, and dies: what it was to do then is done late, or never."""

    def __init__(self, name: str, schedule: Schedule, links: Links) -> None:
        self.name = name
        self.schedule = schedule
        self.links = links
        self.alive = True
        self._paused_until_ms = 0
        self._held: list[Action] = []

    def run(self, action: Action) -> None:
        """Do it now; once the pause is over; or never, where the process is dead."""
        if not self.alive:
            return
        if self._paused_until_ms > self.schedule.time_ms:
            self._held.append(action)
        else:
            action()

    def after(self, delay_ms: int, action: Action) -> None:
        """Do it when so much time has passed."""
        self.schedule.after(delay_ms, lambda: self.run(action))

    def pause(self, duration_ms: int) -> None:
        """Stop, as SIGSTOP would have it: clocks go on, messages wait."""
        self._paused_until_ms = self.schedule.time_ms + duration_ms
        self.schedule.after(duration_ms, self._resume)

    def _resume(self) -> None:
        if self._paused_until_ms > self.schedule.time_ms:
            return
        held, self._held = self._held, []
        for action in held:
            self.run(action)

    def call(
        self,
        target: str,
        serve: Callable[[Callable[[Any], None]], None],
        on_answer: Callable[[Any], None],
        timeout_ms: int,
    ) -> None:
        """Have `serve` run over there, which is given what sends the answer; None comes where none does."""
        is_done = False

        def finish(answer: Any) -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                on_answer(answer)

        def reply(answer: Any) -> None:
            self.links.send(target, self.name, lambda: self.run(lambda: finish(answer)))

        self.links.send(self.name, target, lambda: serve(reply))
        self.after(timeout_ms, lambda: finish(None))
