"""`make budget` can fail: a request that costs more, and one that leaves something behind, are seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKLOAD = "FindCoordinator"
TIMEOUT_S = 180.0
PLANTED = """
import sys
from kohort.broker.transport.peer import Peer
from benchmarks import budget

complete, kept = Peer.complete, []

def more_than_before(peer, request, message):
    {more}
    complete(peer, request, message)

Peer.complete = more_than_before
sys.exit(budget.main(sys.argv[1:]))
"""
ENCODED_TWICE = "message.encode_parts(request.version)"
KEPT_FOR_EVER = "kept.extend([object() for _ in range(8)])"
NOTHING = "pass"


def run(more: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Measure a broker that does something more for each answer."""
    command = [sys.executable, "-c", PLANTED.format(more=more), "--only", WORKLOAD, *options]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)


@pytest.fixture(scope="module")
def budget(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it costs on this interpreter, recorded by the same broker without anything planted."""
    path = tmp_path_factory.mktemp("budget") / "budget.json"
    recorded = run(NOTHING, "--record", "--budget", str(path))
    assert recorded.returncode == 0, recorded.stderr
    return path


def test_equal_cost_is_within_the_budget(budget: Path) -> None:
    done = run(NOTHING, "--check", "--budget", str(budget))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("within the budget of")


@pytest.mark.parametrize(
    "more, seen", [(ENCODED_TWICE, "calls"), (ENCODED_TWICE, "instructions"), (KEPT_FOR_EVER, "kept_blocks")]
)
def test_higher_cost_is_named(budget: Path, more: str, seen: str) -> None:
    done = run(more, "--check", "--budget", str(budget))
    assert done.returncode == 1, done.stdout
    assert any(line.startswith(f"{WORKLOAD}: ") and f" {seen}," in line for line in done.stdout.splitlines())


def test_a_workload_without_a_budget_is_named(budget: Path, tmp_path: Path) -> None:
    every = json.loads(budget.read_text(encoding="utf-8"))
    ((python, mine),) = every.items()
    mine["Another"] = mine.pop(WORKLOAD)
    path = tmp_path / "budget.json"
    path.write_text(json.dumps({python: mine}), encoding="utf-8")
    done = run(NOTHING, "--check", "--budget", str(path))
    assert done.returncode == 1
    assert f"{WORKLOAD}: no budget is recorded" in done.stdout


def test_an_interpreter_without_a_budget_is_reported_and_not_checked(tmp_path: Path) -> None:
    done = run(NOTHING, "--check", "--budget", str(tmp_path / "none.json"))
    assert done.returncode == 0
    assert "nothing is judged" in done.stdout.splitlines()[-1]


def test_the_recorded_budget_has_every_workload() -> None:
    from benchmarks.parts.workloads import WORKLOADS

    every = json.loads((ROOT / "benchmarks" / "budget.json").read_text(encoding="utf-8"))
    names = [each.name for each in WORKLOADS]
    assert every
    assert all(list(mine) == names for mine in every.values())
