"""Breaks the broker on purpose, one change at a time: `python -m tests.simulation.mutants [NAME]...`.

Each mutant is a copy of the source in which a function or two are changed. The scenarios and the simulation
run against it in processes of their own; at least one of them has to fail, or it would not have seen the bug.
"""

import re
import sys
from collections.abc import Sequence
from subprocess import CompletedProcess

from tests.simulation.judging import Verdict, judge_each, mutated, run, verdict_of
from tests.simulation.mutant import Mutant
from tests.simulation.mutations import MUTANTS

SEEDS = 40
SEEDS_TO_CONFIRM = 6  # Where a scenario has seen it already.
SIZES = ("--members", "60", "--groups", "6", "--seconds", "300")
TRANSACTIONAL = ("--members", "6", "--groups", "1", "--seconds", "120", "--transactions")
SHARING = ("--members", "6", "--groups", "1", "--seconds", "120", "--sharing")
PATIENCE_SECONDS = 900
QUICK = (
    "tests/scenarios",
    "tests/simulation/test_consumer_groups.py",
    "tests/simulation/test_streams_groups.py",
)
"""What sees most mutants of the cores by itself: conversations, and members of newer groups by seed."""
OF_THE_DISK = ("kohort.storage.", "kohort.broker.partitions.")
FAILED_SCENARIO = re.compile(r"FAILED .*\[(\w+)\]")


def judge(mutant: Mutant | None, seeds: int = SEEDS) -> Verdict:
    """Return who sees the mutant: a scenario, a seed of the simulation, both or none. Raises: Undecided."""
    with mutated(mutant) as environment:
        if mutant is not None and (mutant.is_of_transactions or mutant.is_of_sharing):
            sizes = SHARING if mutant.is_of_sharing else TRANSACTIONAL
            return verdict_of(_simulate(sizes, seeds, mutant.first_seed, environment))
        scenario = _play(mutant, environment)
        if scenario is not None:
            seeds = min(seeds, SEEDS_TO_CONFIRM)
        simulated = _simulate(SIZES, seeds, 0, environment)
        if not simulated.returncode and scenario is None:
            first = 0 if mutant is None else mutant.first_seed
            simulated = _simulate((*SIZES, "--bad-disk"), seeds, first, environment)
        for sizes in (TRANSACTIONAL, SHARING):
            if not simulated.returncode and mutant is None:
                simulated = _simulate(sizes, seeds, 0, environment)
    return verdict_of(simulated, scenario)


def _play(mutant: Mutant | None, environment: dict[str, str]) -> str | None:
    """Return the first quick test that sees the mutant, None where none does. Raises: Undecided.

    They play with the cores alone, and have nothing of the disk.
    """
    if mutant is not None and all(edit.module.startswith(OF_THE_DISK) for edit in mutant.edits):
        return None
    played = run(["pytest", "-q", "-x", "-p", "no:cacheprovider", *QUICK], environment, PATIENCE_SECONDS)
    failed = FAILED_SCENARIO.search(played.stdout)
    return failed[1] if failed else None


def _simulate(
    sizes: Sequence[str], seeds: int, first: int, environment: dict[str, str]
) -> CompletedProcess[str]:
    """Return the result of this many seeds of the simulation. Raises: Undecided."""
    command = ["tests.simulation", "--seeds", str(seeds), *sizes, "--first", str(first)]
    return run(command, environment, PATIENCE_SECONDS)


if __name__ == "__main__":
    sys.exit(judge_each(MUTANTS, judge, "tests.simulation.mutants", __doc__))
