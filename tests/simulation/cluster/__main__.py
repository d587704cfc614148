"""Runs seeds of the cluster: `python -m tests.simulation.cluster --seed 7`, or `--seeds 200`."""

import argparse
import gc
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kohort.testing.simulation.sharing_out import shared_out
from tests.simulation.books import Violation
from tests.simulation.cluster.world import Outcome, Shape, World

TRACE_LINES_TOLD = 40


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed in which something did not hold: the end of its trace, and why."""

    seed: int
    trace: str
    reason: str


def main() -> int:
    """Return 0 where everything held in every seed."""
    options = _options()
    shape = Shape(faults_ms=options.seconds * 1_000)
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    outcomes: list[Outcome] = []
    began = time.perf_counter()
    for result in _results(seeds, partial(run_seed, shape=shape, trace=options.trace), options.jobs):
        if isinstance(result, Failure):
            size = f' ARGS="--seconds {options.seconds}"' if shape.faults_ms != Shape().faults_ms else ""
            again = f"to see it again: make sim-cluster SEED={result.seed}{size}"
            sys.stderr.write(f"{result.trace}\n\n{again}\n\n{result.reason}")
            return 1
        outcomes.append(result)
    _summarise(outcomes, time.perf_counter() - began)
    return 0


def run_seed(seed: int, *, shape: Shape, trace: str | None) -> Outcome | Failure:
    """Return what came of one seed."""
    gc.disable()
    world = World(seed, shape)
    try:
        return world.run()
    except (Exception, Violation):  # noqa: BLE001 - Whatever it was: the seed is what shows it again.
        return Failure(seed, "\n".join(world.trace[-TRACE_LINES_TOLD:]), traceback.format_exc())
    finally:
        gc.enable()
        if trace is not None:
            Path(trace).write_text("\n".join(world.trace) + "\n", encoding="utf-8")


def _results(
    seeds: Sequence[int], run: "partial[Outcome | Failure]", jobs: int
) -> Iterator[Outcome | Failure]:
    if len(seeds) == 1:
        yield run(seeds[0])
        return
    for _, result in shared_out(run, seeds, jobs, items_per_process=20):
        yield result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--seeds", type=int, default=20, help="run that many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--seconds", type=int, default=90, help="of simulated time in which things go wrong")
    parser.add_argument("--trace", help="write what happened, line by line, to this file")
    return parser.parse_args()


def _summarise(outcomes: list[Outcome], seconds: float) -> None:
    tables = ("faults injected", "what was seen", "what was checked")
    for title, name in zip(tables, ("injected", "seen", "checked"), strict=True):
        counts: Counter[str] = Counter()
        for outcome in outcomes:
            counts.update(getattr(outcome, name))
        say(title)
        for each, count in sorted(counts.items(), key=lambda item: -item[1]):
            say(f"  {count:>12,}  {each}")
        say("")
    simulated = sum(outcome.simulated_ms for outcome in outcomes) / 1_000
    settled = max(outcome.settled_ms for outcome in outcomes) // 1_000
    say(f"{len(outcomes)} seeds, {simulated:,.0f} simulated seconds in {seconds:,.1f} s; the slowest cluster")
    say(f"was whole {settled} s after the last fault")
    if len(outcomes) == 1:
        say(f"the trace's SHA-256: {outcomes[0].trace_digest}")


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
