"""Breaks replication, fencing, election on purpose: `python -m tests.simulation.cluster.mutants [NAME]...`.

Each mutant is a copy of the source in which a function or two are changed; the cluster's simulation has to
fail.
"""

import sys

from tests.simulation.cluster.mutations import MUTANTS
from tests.simulation.judging import Verdict, judge_each, mutated, run, verdict_of
from tests.simulation.mutant import Mutant

MODULE = "tests.simulation.cluster"
SEEDS = 60
PATIENCE_SECONDS = 900


def judge(mutant: Mutant | None, seeds: int = SEEDS, module: str = MODULE) -> Verdict:
    """Return what a simulation says of the mutant; with None of the source as it is. Raises: Undecided."""
    first = 0 if mutant is None else mutant.first_seed
    command = [module, "--first", str(first), "--seeds", str(seeds)]
    with mutated(mutant) as environment:
        return verdict_of(run(command, environment, PATIENCE_SECONDS))


if __name__ == "__main__":
    sys.exit(judge_each(MUTANTS, judge, "tests.simulation.cluster.mutants", __doc__))
