"""Breaks on purpose what keeps replicas: `python -m tests.simulation.replicas.mutants [NAME]...`."""

import sys

from tests.simulation.cluster.mutants import break_each
from tests.simulation.replicas.mutations import MUTANTS

MODULE = "tests.simulation.replicas"
SEEDS = 60

if __name__ == "__main__":
    sys.exit(break_each(MUTANTS, MODULE, SEEDS, __doc__))
