"""`benchmarks/trail.py`: a request's functions are counted in their order, and the page has them all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks import trail
from benchmarks.trail import Entry

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120.0
WALK = (
    Entry(0, "reactor", "Reactor._round", ""),
    Entry(1, "clock", "now_ms", "reactor"),
    Entry(1, "reactor", "Reactor._serve", "reactor"),
    Entry(2, "handler", "handle", "reactor"),
    Entry(3, "clock", "now_ms", "handler"),
    Entry(2, "handler", "answer", "reactor"),
)


def run(*options: str) -> str:
    """Return what a process prints that follows requests."""
    command = [sys.executable, "benchmarks/trail.py", *options]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_trail_of_a_heartbeat_goes_from_the_reactor_to_the_core_and_back() -> None:
    walk = [line.strip() for line in run("--trail", "Heartbeat").splitlines()]
    assert walk[0] == "transport.reactor.Reactor._round"
    assert sum(line.startswith("group.") for line in walk) > 0
    assert 20 < len(walk) < 40
    assert "| Heartbeat | " + trail.DESCRIBED["Heartbeat"] + f" | {len(walk)} |" in run("--only", "Heartbeat")


def test_a_produce_to_three_brokers_has_the_fetches_of_both_followers_in_it() -> None:
    walk = [line.strip() for line in run("--trail", trail.REPLICATED).splitlines()]
    assert walk[0] == "transport.reactor.Reactor._round"
    assert sum(line.endswith("handlers.data.fetch.handle") for line in walk) >= 2


def test_module_changes_and_possible_savings_are_counted() -> None:
    assert trail.changes([each.module for each in WALK]) == 5
    assert trail.modules(WALK) == {"reactor", "clock", "handler"}
    assert trail.saved_in_caller(WALK)["clock"] == 4
    assert trail.saved_together(WALK) == {
        ("clock", "reactor"): 2,
        ("clock", "handler"): 2,
        ("handler", "reactor"): 1,
    }


def test_rounds_without_a_request_are_removed() -> None:
    other = (Entry(0, "reactor", "Reactor._round", ""), Entry(1, "loop", "drain", "reactor"))
    assert trail.of_requests((*other, *WALK, *other)) == WALK


def test_the_page_has_every_request() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text.partition("<!-- trail: written by benchmarks/trail.py -->")[2].partition(
        "<!-- trail: end -->"
    )[0]
    rows = [line.split("|")[1].strip() for line in part.splitlines() if line.startswith("|")]
    assert rows[2:] == list(trail.DESCRIBED)
