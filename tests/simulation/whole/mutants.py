"""Breaks whole brokers on purpose: `python -m tests.simulation.whole.mutants [NAME]...`."""

import sys

from tests.simulation.judging import Verdict, judge_each, mutated, run, verdict_of
from tests.simulation.mutant import Mutant
from tests.simulation.whole.mutations import MUTANTS, WholeMutant

SEEDS = 10
ACT_FAULTS_SECONDS = 5  # Before an act that shows a mutant by itself.
PATIENCE_SECONDS = 1_500


def judge(mutant: Mutant | None, seeds: int = SEEDS) -> Verdict:
    """Return what the simulation says of the mutant; with None of the source as it is. Raises: Undecided."""
    command = ["tests.simulation.whole", "--seeds", str(seeds)]
    command += ["--scenario", mutant.scenario if isinstance(mutant, WholeMutant) else "three"]
    if mutant is not None:
        command += ["--first", str(mutant.first_seed)]
    if isinstance(mutant, WholeMutant) and mutant.act is not None:
        command += ["--act", mutant.act, "--seconds", str(ACT_FAULTS_SECONDS)]
    with mutated(mutant) as environment:
        return verdict_of(run(command, environment, PATIENCE_SECONDS))


if __name__ == "__main__":
    sys.exit(judge_each(MUTANTS, judge, "tests.simulation.whole.mutants", __doc__))
