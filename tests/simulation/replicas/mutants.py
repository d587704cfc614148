"""Breaks on purpose what keeps replicas: `python -m tests.simulation.replicas.mutants [NAME]...`."""

import sys
from functools import partial

from tests.simulation.cluster.mutants import judge
from tests.simulation.judging import judge_each
from tests.simulation.replicas.mutations import MUTANTS

MODULE = "tests.simulation.replicas"

if __name__ == "__main__":
    judge_replicas = partial(judge, module=MODULE)
    sys.exit(judge_each(MUTANTS, judge_replicas, "tests.simulation.replicas.mutants", __doc__))
