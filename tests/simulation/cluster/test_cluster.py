"""A few seeds of the cluster, and that a seed decides everything; `make sim-cluster SEEDS=200` runs more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster.mutants import judge
from tests.simulation.cluster.mutations import MUTANTS
from tests.simulation.cluster.world import FIRST_CHANGE_OF_MIND, Shape, World
from tests.simulation.mutant import REPOSITORY

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


@pytest.mark.parametrize("seed", range(1_000, 1_006))
def test_what_must_hold_in_a_cluster_holds_whatever_goes_wrong(seed: int) -> None:
    outcome = World(seed, Shape()).run()
    assert sum(outcome.injected.values()) > 10
    assert outcome.seen["leader elected"] > 5
    assert outcome.seen["produce acknowledged"] > 500
    assert outcome.checked["what was acknowledged survives"] > 500


def test_the_same_seed_gives_the_same_trace_to_the_byte(tmp_path: Path) -> None:
    traces = []
    for hash_seed in ("1", "2"):  # Another order of every set of strings.
        path = tmp_path / hash_seed
        command = [sys.executable, "-m", "tests.simulation.cluster", "--seed=3", f"--trace={path}"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, timeout=60)
        traces.append(path.read_bytes())
    assert len(traces[0]) > 10_000
    assert traces[0] == traces[1]


def test_another_seed_gives_another_trace() -> None:
    shape = Shape(faults_ms=20_000)
    assert World(3, shape).run().trace_digest != World(4, shape).run().trace_digest


def test_a_mutant_of_the_high_watermark_is_caught() -> None:
    assert judge(BY_NAME["the furthest in sync is counted"], seeds=4).rule is not None


def test_a_replica_that_leads_on_though_its_move_was_taken_back_is_caught() -> None:
    mutant = BY_NAME["a replica that is taken away again leads on"]
    assert judge(mutant, seeds=FIRST_CHANGE_OF_MIND + 1).rule == "a leader is in sync"


def test_a_change_of_the_isr_that_is_taken_for_refused_and_made_later_is_caught() -> None:
    mutant = BY_NAME["a change of the isr that is not found counts as refused, though etcd makes it later"]
    assert judge(mutant, seeds=2).rule == "who joins the in-sync replicas has all that is committed"
