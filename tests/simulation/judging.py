"""Runs simulations and tests against a mutant, and says of many mutants which of them were caught."""

import argparse
import compileall
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.simulation.mutant import REPOSITORY, ROOMS, Mutant

ERROR = re.compile(r"[\w.]+(Violation|Error)\b")
RULE = re.compile(r"Violation: ([^:]+)")
NOT_REACHED = re.compile(r"[\w.]*NotReached: (.+)|(no run of \w+ came so far that .+)")
FAILED_SEED = re.compile(r"SEED=(\d+)")
COLUMN = 60


class Undecided(Exception):
    """A run was not done in time: the machine is busy, or the mutant never comes to an end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who saw the mutant, a scenario, a seed of the simulation, or both, and by which rule.

    `not_reached` is what a run waited for in vain, or what no run came to: then no rule was violated.
    """

    scenario: str | None
    seed: str | None
    rule: str | None
    not_reached: str | None = None

    @property
    def caught(self) -> bool:
        """Whether a scenario or a seed saw it."""
        return self.scenario is not None or self.rule is not None

    @property
    def has_failed(self) -> bool:
        """Whether anything has failed, be it that runs have not come far enough."""
        return self.caught or self.not_reached is not None

    def __str__(self) -> str:
        seen = [] if self.scenario is None else [f"scenario {self.scenario}"]
        if self.rule is not None:
            seen.append(f"seed {self.seed}: {self.rule}")
        if self.not_reached is not None:
            where = "" if self.seed is None else f"seed {self.seed}: "
            seen.append(f"{where}NOT REACHED: {self.not_reached}")
        return "; ".join(seen) or "ESCAPED"


Judge = Callable[[Mutant | None], Verdict]
"""Judges one mutant; with None the source as it is. Raises: Undecided."""


@contextmanager
def mutated(mutant: Mutant | None) -> Iterator[dict[str, str]]:
    """Yield the environment of a process that runs the mutant; with None an unchanged copy.

    The copy has the compiled modules, too: Python compiles only what the mutant changes.
    """
    _compile_source()
    with tempfile.TemporaryDirectory() as name:
        for room in ROOMS:
            shutil.copytree(REPOSITORY / room, Path(name) / room)
        if mutant is not None:
            for path, source in mutant.apply(Path(name)).items():
                path.write_text(source, encoding="utf-8")
                for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
                    compiled.unlink()
        folders = os.pathsep.join(str(Path(name) / room) for room in ROOMS)
        yield os.environ | {"PYTHONPATH": folders}


@cache
def _compile_source() -> None:
    """Compile every module that has changed."""
    for room in ROOMS:
        compileall.compile_dir(REPOSITORY / room, quiet=2)


def run(
    module: Sequence[str], environment: dict[str, str], patience_seconds: float
) -> subprocess.CompletedProcess[str]:
    """Return the result of running a module. Raises: Undecided."""
    command = [sys.executable, "-m", *module]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=patience_seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # With the processes that run its seeds.
            if isinstance(error, subprocess.TimeoutExpired):
                raise Undecided(f"{' '.join(module)} took longer than {patience_seconds:.0f} s") from error
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def verdict_of(simulated: subprocess.CompletedProcess[str], scenario: str | None = None) -> Verdict:
    """Return what a run of a simulation, and a scenario before it, say."""
    if not simulated.returncode:
        return Verdict(scenario, None, None)
    seed = FAILED_SEED.search(simulated.stderr)
    lines = simulated.stderr.splitlines()
    errors = [each for each in lines if ERROR.match(each)]
    not_reached = [found[1] or found[2] for found in map(NOT_REACHED.match, lines) if found]
    if not_reached and not errors:
        return Verdict(scenario, seed[1] if seed else None, None, "; ".join(not_reached))
    told = errors[-1] if errors else "an error"
    rule = RULE.search(told)
    return Verdict(scenario, seed[1] if seed else None, rule[1] if rule else told)


def judge_each(mutants: Sequence[Mutant], judge: Judge, module: str, description: str | None) -> int:
    """Return 0 where every mutant is caught, and the source as it is has not failed.

    A mutant under which runs stand still, but violate no rule, is not caught. Undecided mutants are
    judged once more at the end.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("names", nargs="*", help="only these")
    names = parser.parse_args().names
    if unknown := set(names) - {mutant.name for mutant in mutants}:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    try:
        healthy = judge(None)
    except Undecided as error:
        say(f"the source as it is was not judged: {error}")
        return 1
    if healthy.has_failed:
        say(f"the source as it is fails: {healthy}")
        return 1
    chosen = [mutant for mutant in mutants if not names or mutant.name in names]
    verdicts, undecided = _judge_all(chosen, judge)
    late_verdicts, undecided = _judge_all(undecided, judge)
    verdicts += late_verdicts
    caught = sum(each.caught for each in verdicts)
    not_reached = sum(each.has_failed for each in verdicts) - caught
    escaped = len(verdicts) - caught - not_reached
    say(
        f"\n{caught} of {len(chosen)} mutants caught, {not_reached} not reached, "
        f"{escaped} escaped, {len(undecided)} undecided"
    )
    return 0 if caught == len(chosen) else 1


def _judge_all(mutants: Sequence[Mutant], judge: Judge) -> tuple[list[Verdict], list[Mutant]]:
    """Print the verdict of each mutant. Return the verdicts, and the undecided mutants."""
    verdicts, undecided = list[Verdict](), list[Mutant]()
    for mutant in mutants:
        try:
            verdict = judge(mutant)
        except Undecided as error:
            undecided.append(mutant)
            say(f"{mutant.name:<{COLUMN}}UNDECIDED: {error}")
        else:
            verdicts.append(verdict)
            say(f"{mutant.name:<{COLUMN}}{verdict}")
    return verdicts, undecided


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
