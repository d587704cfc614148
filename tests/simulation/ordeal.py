"""What chance alone seldom brings together: new topics, and short lives of the broker behind one another.

It comes last in each seed, with a random of its own: whatever went wrong before stays what it was.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from kohort.testing.simulation.disk import VirtualDisk
from tests.simulation.records import Records
from tests.simulation.schedule import Schedule
from tests.simulation.server import Server

ROUNDS = 3
LIVES_MAX = 3
MAKES_MS_MAX = 1_500
PAUSE_MS_MAX = 2_000
SYNCS_MAX = 20
SERVES_MS_MAX = 60_000
SETTLES_MS = 5_000
LOOK_MS = 10


class World(Protocol):
    """What this has to do with."""

    schedule: Schedule
    disk: VirtualDisk
    records: Records
    server: Server | None

    def kill_broker(self) -> None:
        """Let the broker's process die; it is started again."""
        ...

    def cut_power(self) -> None:
        """Let the broker's machine die; it is started again."""
        ...

    def restart_broker(self) -> None:
        """Stop the broker cleanly, and start it again."""
        ...

    def cut_power_while_stopping(self) -> None:
        """Let the broker's machine die while the broker stops."""
        ...


class Ordeal:
    """Some rounds: topics are made again and written to, and the broker comes to an end again and again."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._ends: list[Callable[[], None]] = [
            world.kill_broker,
            world.kill_broker,
            world.cut_power,
            world.cut_power,
            world.restart_broker,
            world.cut_power_while_stopping,
        ]

    def run(self) -> None:
        """Go through all rounds, and look after each what is left. Raises: Violation."""
        dice, records = self._random, self._world.records
        for _ in range(ROUNDS):
            records.begin_anew()
            self._pass(dice.randrange(MAKES_MS_MAX))
            for _ in range(dice.randrange(4)):
                records.produce_to_all()
                self._pass(dice.randrange(50))
            if dice.random() < 0.5:
                self._world.disk.fail_sync(dice.randrange(SYNCS_MAX))
            for _ in range(dice.randint(1, LIVES_MAX)):
                self._pass(int(dice.random() ** 2 * PAUSE_MS_MAX))
                dice.choice(self._ends)()
                self._await_the_broker()
            self._world.disk.heal()
            self._pass(SETTLES_MS)
            records.check_all()

    def _pass(self, duration_ms: int) -> None:
        schedule = self._world.schedule
        schedule.run_until(schedule.time_ms + duration_ms)

    def _await_the_broker(self) -> None:
        """Return once the broker serves."""
        deadline_ms = self._world.schedule.time_ms + SERVES_MS_MAX
        while self._world.server is None or not self._world.server.serving:
            assert self._world.schedule.time_ms < deadline_ms, "the broker does not come back"
            self._pass(LOOK_MS)
