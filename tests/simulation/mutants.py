"""Breaks the broker on purpose, one change at a time: `python -m tests.simulation.mutants [NAME]...`.

Each mutant is a copy of the source in which a function or two are changed. The scenarios and the simulation
run against it in processes of their own; at least one of them has to fail, or it would not have seen the bug.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.mutant import REPOSITORY, ROOMS, Mutant
from tests.simulation.mutations import MUTANTS

SEEDS = 40
SEEDS_TO_CONFIRM = 6  # Where a scenario has seen it already.
SIZES = ("--members", "60", "--groups", "6", "--seconds", "300")
TRANSACTIONAL = ("--members", "6", "--groups", "1", "--seconds", "120", "--transactions")
SHARING = ("--members", "6", "--groups", "1", "--seconds", "120", "--sharing")
PATIENCE_SECONDS = 240
PATIENCE_WITH_TRANSACTIONS_SECONDS = 900  # A seed takes longer, and fewer end early.
QUICK = (
    "tests/scenarios",
    "tests/simulation/test_consumer_groups.py",
    "tests/simulation/test_streams_groups.py",
)
"""What sees most mutants of the cores by itself: conversations, and members of newer groups by seed."""
FAILED_SCENARIO = re.compile(r"FAILED .*\[(\w+)\]")
ERROR = re.compile(r"[\w.]+(Violation|Error)\b")
FAILED_SEED = re.compile(r"SEED=(\d+)")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who saw the mutant; None where nobody did."""

    scenario: str | None
    seed: str | None
    rule: str | None
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether anybody did."""
        return self.scenario is not None or self.rule is not None


@contextmanager
def mutated(mutant: Mutant | None) -> Iterator[dict[str, str]]:
    """Yield the environment of a process that runs the mutant; with None an unchanged copy."""
    with tempfile.TemporaryDirectory() as name:
        for room in ROOMS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / room, Path(name) / room, ignore=ignored)
        if mutant is not None:
            for path, source in mutant.apply(Path(name)).items():
                path.write_text(source, encoding="utf-8")
        folders = os.pathsep.join(str(Path(name) / room) for room in ROOMS)
        yield os.environ | {"PYTHONPATH": folders, "PYTHONDONTWRITEBYTECODE": "1"}


def judge(mutant: Mutant | None, seeds: int = SEEDS) -> Verdict:
    """Return who sees the mutant: a scenario, a seed of the simulation, both or none."""
    began = time.perf_counter()
    with mutated(mutant) as environment:
        if mutant is not None and (mutant.is_of_transactions or mutant.is_of_sharing):
            sizes = SHARING if mutant.is_of_sharing else TRANSACTIONAL
            return _verdict(None, _run_beside(sizes, seeds, mutant.first_seed, environment), began)
        played = run(["pytest", "-q", "-p", "no:cacheprovider", *QUICK], environment)
        scenario = FAILED_SCENARIO.search(played.stdout)
        if scenario is not None:
            seeds = min(seeds, SEEDS_TO_CONFIRM)
        simulated = run(["tests.simulation", "--seeds", str(seeds), *SIZES], environment)
        if not simulated.returncode and scenario is None:
            first = 0 if mutant is None else mutant.first_seed
            sizes = (*SIZES, "--bad-disk", "--first", str(first))
            simulated = run(["tests.simulation", "--seeds", str(seeds), *sizes], environment)
        for sizes in (TRANSACTIONAL, SHARING):
            if not simulated.returncode and mutant is None:
                simulated = _run_beside(sizes, seeds, 0, environment)
    return _verdict(scenario[1] if scenario else None, simulated, began)


def _run_beside(
    sizes: Sequence[str], seeds: int, first: int, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Return what came of seeds with transactions, or with share groups beside them."""
    command = ["tests.simulation", "--seeds", str(seeds), *sizes, "--first", str(first)]
    return run(command, environment, PATIENCE_WITH_TRANSACTIONS_SECONDS)


def _verdict(scenario: str | None, simulated: subprocess.CompletedProcess[str], began: float) -> Verdict:
    """Return what a run of the simulation, and a scenario before it, say."""
    seed = FAILED_SEED.search(simulated.stderr)
    told = None
    if simulated.returncode:
        lines = [each for each in simulated.stderr.splitlines() if ERROR.match(each)]
        told = lines[-1].partition("Violation: ")[2].partition(":")[0] or lines[-1] if lines else "an error"
    return Verdict(
        scenario,
        seed[1] if seed else None,
        told,
        time.perf_counter() - began,
    )


def run(
    module: Sequence[str], environment: dict[str, str], patience_seconds: float = PATIENCE_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Return what came of running a module; one that never ends counts as failed."""
    command = [sys.executable, "-m", *module]
    try:
        return subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience_seconds,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "Violation: it comes to an end: it did not")


def main() -> int:
    """Return 0 where every mutant is caught, and the source as it is not."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    names = parser.parse_args().names
    chosen = [each for each in MUTANTS if not names or each.name in names]
    healthy = judge(None)
    if healthy.caught:
        say(f"the source as it is fails: {healthy}")
        return 1
    say(f"{'mutant':<46}{'scenario':<42}simulation")
    escaped = 0
    for mutant in chosen:
        verdict = judge(mutant)
        escaped += not verdict.caught
        by_seed = f"seed {verdict.seed}: {verdict.rule}" if verdict.rule else "-"
        say(f"{mutant.name:<46}{verdict.scenario or '-':<42}{by_seed}")
    say(f"\n{len(chosen) - escaped} of {len(chosen)} mutants caught")
    return 1 if escaped else 0


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
