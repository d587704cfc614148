"""A few seeds, and that a seed decides everything; `make sim SEEDS=200` runs more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.books import Violation
from tests.simulation.world import Shape, World

REPOSITORY = Path(__file__).parents[2]
SMALL = Shape(members=40, groups=5, faults_ms=230_000)
TRANSACTIONAL = Shape(members=8, groups=2, faults_ms=150_000, transactional_ids=4)
SHARING = Shape(members=6, groups=1, faults_ms=120_000, transactional_ids=5, share_members=6)


@pytest.mark.requirement("R9", "R15", "R18", "R20")
@pytest.mark.parametrize("seed", range(6))
def test_all_invariants_hold_under_all_faults(seed: int) -> None:
    outcome = World(seed, SMALL).run()
    assert sum(outcome.injected.values()) > 10
    assert outcome.checked["no partition has two owners in one generation"] > 100


@pytest.mark.parametrize("seed", range(4))
def test_transactions_are_all_or_nothing_whatever_goes_wrong(seed: int) -> None:
    outcome = World(seed, TRANSACTIONAL).run()
    assert outcome.checked["only what is committed is shown"] > 500
    assert outcome.checked["each number is committed once"] > 50
    assert outcome.checked["offsets that are pending are not seen"] > 20
    assert outcome.checked["who is no member commits nothing in a transaction"] > 20


@pytest.mark.requirement("R32")
@pytest.mark.parametrize("seed", range(4))
def test_share_groups_keep_their_guarantees_under_all_faults(seed: int) -> None:
    outcome = World(seed, SHARING).run()
    assert outcome.checked["no record is two members' at once"] > 1_000
    assert outcome.checked["what is acknowledged was nobody else's meanwhile"] > 1_000
    assert outcome.checked["each delivery counts"] > 100
    assert outcome.checked["no record is lost"] > 1_000
    assert outcome.checked["what is given up has its dead letter"] > 500


@pytest.mark.requirement("R10")
def test_a_hundred_members_come_to_rest() -> None:
    assert World(7, Shape()).run().checked["every partition has one owner"] == Shape().groups


def test_the_same_seed_gives_the_same_trace_to_the_byte(tmp_path: Path) -> None:
    traces = []
    for hash_seed in ("1", "2"):  # Another order of every set of strings.
        path = tmp_path / hash_seed
        command = [sys.executable, "-m", "tests.simulation", "--seed=3", "--seconds=100", f"--trace={path}"]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, timeout=60)
        traces.append(path.read_bytes())
    assert len(traces[0]) > 100_000
    assert traces[0] == traces[1]


def test_another_seed_gives_another_trace() -> None:
    assert World(3, SMALL).run().trace_digest != World(4, SMALL).run().trace_digest


def test_a_broken_promise_is_told_with_its_rule() -> None:
    world = World(1, SMALL)
    with pytest.raises(Violation, match=r"^members fly: all of them$"):
        world.books.expect("members fly", holds=False, detail=lambda: "all of them")
