"""Keeps each carrier's mean delays in the memory of three members, while they are killed again and again.

    python examples/flights/mean_delays.py [--kills 10] [--seed 7] [--states URL]

The members are a consistent region: they checkpoint together each second, and reset together when one of
them dies. What they have lost with their memory they read once more, and what they had read too far they
forget. So the means are exact at the end. Exit status 0 if that is so. Nobody is killed before there is a
checkpoint behind the last death: each time there is something to go back to.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from math import isclose
from pathlib import Path

if __name__ == "__main__":  # Run as a file: its siblings are found from the repository's root.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import trio

from examples.flights import topic
from examples.flights.broker_process import BrokerProcess
from examples.flights.dataset import FLIGHTS, Flight, delays_in_data_frame, read_flights
from examples.flights.ledger import CarrierTally
from examples.flights.mean_delays_member import COORDINATOR, MEMBERS, RoleProcess, decode, region_of, take
from kohort.client import KohortError
from kohort.queues.region import RegionState, checkpointed_states, region_state

LIFE_SECONDS = (0.5, 4.0)
TOO_LONG_SECONDS = 300.0
ROLES = (*MEMBERS, COORDINATOR)


class Run:
    """The broker, a coordinator, and the members."""

    def __init__(self, folder: Path, kills: int, dice: random.Random, states_url: str) -> None:
        self._folder = folder
        self._kills = kills
        self._dice = dice
        self._broker = BrokerProcess(folder)
        self._states_url = states_url
        self._processes: dict[str, RoleProcess] = {}

    def run(self) -> bool:
        """Return whether the means are those of the file."""
        self._broker.start()
        bootstrap = self._broker.bootstrap
        topic.create(bootstrap)
        topic.load(bootstrap, read_flights(), lambda some: None)
        say(f"{FLIGHTS:,} flights are in the topic")
        for role in ROLES:
            self._begin(role)
        completed = 0
        for kill in range(self._kills):
            completed = self._wait_for_a_checkpoint(completed).completed
            time.sleep(self._dice.uniform(*LIFE_SECONDS))
            self._kill_somebody(kill)
        state = self._wait_until_all_is_counted()
        say(f"{state.completed:,} checkpoints, {state.attempt - 1:,} resets")
        return self._check()

    def close(self) -> None:
        """End every process that is still there, whatever happened."""
        for process in self._processes.values():
            process.kill()
        self._broker.stop()

    def _begin(self, role: str) -> None:
        self._processes[role] = RoleProcess(role, self._broker.bootstrap, self._states_url, self._folder)

    def _kill_somebody(self, kill: int) -> None:
        victim = self._dice.choice([*ROLES, "the broker"])
        state = self._state()
        counted = sum(state.offsets.values()) if state is not None else 0
        say(f"kill {kill + 1}: {victim}; {counted:,} flights are in the last checkpoint")
        if victim == "the broker":
            self._broker.kill()
            self._broker.start()
        else:
            self._processes[victim].kill()
            self._begin(victim)

    def _wait_for_a_checkpoint(self, before: int) -> RegionState:
        """Return a state with flights in a checkpoint that is newer than this one."""
        return self._wait(
            lambda state: state.completed > before and any(state.offsets.values()),
            "a checkpoint with flights",
        )

    def _wait_until_all_is_counted(self) -> RegionState:
        return self._wait(lambda state: sum(state.offsets.values()) == FLIGHTS, "everything counted")

    def _wait(self, holds: Callable[[RegionState], bool], what: str) -> RegionState:
        """Return the first state that this holds for. Raises: TimeoutError."""
        deadline_s = time.monotonic() + TOO_LONG_SECONDS
        while time.monotonic() < deadline_s:
            for process in self._processes.values():
                process.check()
            state = self._state()
            if state is not None and holds(state):
                return state
            time.sleep(0.2)
        raise TimeoutError(f"no {what} within {TOO_LONG_SECONDS:.0f} s")

    def _state(self) -> RegionState | None:
        """Return the region's state; None while nobody can tell."""
        region = region_of(self._states_url)
        try:
            return trio.run(lambda: region_state(region, bootstrap_servers=self._broker.bootstrap))
        except KohortError:
            return None

    def _check(self) -> bool:
        """Compare what the members have in the last checkpoint with the file that it came from."""
        region = region_of(self._states_url)
        states = trio.run(lambda: checkpointed_states(region, bootstrap_servers=self._broker.bootstrap))
        parts = {name: decode(state) for name, state in sorted(states.items())}
        for name, part in parts.items():
            flights = sum(each.flights for each in part.values())
            say(f"member {name} has {flights:,} flights of {len(part)} carriers")
        found = merged(parts.values())
        for carrier, each in sorted(found.items()):
            means = f"{each.departure.value:6.2f}  {each.arrival.value:6.2f} min"
            say(f"{carrier}  {each.flights:>7,} flights  {means}")
        is_exact = found == tallies(read_flights()) and agrees_with_data_frame(found)
        say("the means are exact" if is_exact else "the means are WRONG")
        return is_exact


def tallies(flights: Iterable[Flight]) -> dict[str, CarrierTally]:
    """Return what the flights come to, counted one after the other."""
    found: dict[str, CarrierTally] = {}
    for flight in flights:
        take(found, flight)
    return found


def merged(parts: Iterable[Mapping[str, CarrierTally]]) -> dict[str, CarrierTally]:
    """Return what the members have together."""
    found: dict[str, CarrierTally] = {}
    for part in parts:
        for carrier, each in part.items():
            tally = found.setdefault(carrier, CarrierTally())
            tally.flights += each.flights
            for mine, other in ((tally.departure, each.departure), (tally.arrival, each.arrival)):
                mine.total += other.total
                mine.values += other.values
    return found


def agrees_with_data_frame(found: Mapping[str, CarrierTally]) -> bool:
    """Return whether pandas finds the same means in the file."""
    truth = delays_in_data_frame()
    return found.keys() == truth.keys() and all(
        each.flights == truth[carrier].flights
        and isclose(each.departure.value, truth[carrier].departure, rel_tol=1e-9)
        and isclose(each.arrival.value, truth[carrier].arrival, rel_tol=1e-9)
        for carrier, each in found.items()
    )


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Return the exit status."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10, help="how often somebody is killed (10)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="who, and when")
    parser.add_argument(
        "--states", metavar="URL", default="", help="keep states there, as file:///tmp/states"
    )
    options = parser.parse_args()
    say(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="kohort-mean-delays-") as folder:
        run = Run(Path(folder), options.kills, random.Random(options.seed), options.states)
        try:
            return 0 if run.run() else 1
        finally:
            run.close()


if __name__ == "__main__":
    sys.exit(main())
