"""Runs seeds: `python -m tests.simulation --seed 7`, `python -m tests.simulation --seeds 200`."""

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
from tests.simulation.world import Outcome, Shape, World

TRACE_LINES_TOLD = 30
TRANSACTIONAL_IDS = 5
SHARE_MEMBERS = 6
SEEDS_PER_PROCESS = 10  # Which never collects garbage: some tens of megabytes a seed.


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed in which something did not hold: the end of its trace, and why."""

    seed: int
    trace: str
    reason: str


def main() -> int:
    """Return 0 where everything held in every seed."""
    options = _options()
    shape = Shape(
        options.members,
        options.groups,
        options.seconds * 1_000,
        options.bad_disk,
        TRANSACTIONAL_IDS if options.transactions or options.sharing else 0,
        SHARE_MEMBERS if options.sharing else 0,
    )
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    outcomes: list[Outcome] = []
    began = time.perf_counter()
    for result in _results(seeds, partial(run_seed, shape=shape, trace=options.trace), options.jobs):
        if isinstance(result, Failure):
            _tell(result, options)
            return 1
        outcomes.append(result)
    _summarise(outcomes, time.perf_counter() - began)
    return 0


def run_seed(seed: int, *, shape: Shape, trace: str | None) -> Outcome | Failure:
    """Return the result of one seed."""
    gc.disable()  # The process ends after some seeds: sooner than their cycles matter.
    world = World(seed, shape)
    try:
        outcome = world.run()
    except (Exception, Violation):  # noqa: BLE001 - Whatever it was: the seed is what shows it again.
        return Failure(seed, "\n".join(world.trace[-TRACE_LINES_TOLD:]), traceback.format_exc())
    finally:
        if trace is not None:
            Path(trace).write_text("\n".join(world.trace) + "\n", encoding="utf-8")
    return outcome


def _results(
    seeds: Sequence[int], run: "partial[Outcome | Failure]", jobs: int
) -> Iterator[Outcome | Failure]:
    """Yield the results in the order of the seeds, which share nothing and so run side by side."""
    if len(seeds) == 1:
        yield run(seeds[0])
        return
    for _, result in shared_out(run, seeds, jobs, items_per_process=SEEDS_PER_PROCESS):
        yield result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--seeds", type=int, default=20, help="run that many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=450, help="of simulated time in which things go wrong")
    parser.add_argument("--bad-disk", action="store_true", help="let disk and broker fail more often")
    parser.add_argument("--transactions", action="store_true", help="let producers use transactions as well")
    parser.add_argument("--sharing", action="store_true", help="let share groups read what those write")
    parser.add_argument("--trace", help="write what happened, line by line, to this file")
    return parser.parse_args()


def _tell(failure: Failure, options: argparse.Namespace) -> None:
    """Say what happened, and how to see it again."""
    defaults = Shape()
    chosen = (options.members, options.groups, options.seconds * 1_000)
    sizes = [f"--members {options.members} --groups {options.groups} --seconds {options.seconds}"]
    if chosen == (defaults.members, defaults.groups, defaults.faults_ms):
        sizes = []
    if options.bad_disk:
        sizes.append("--bad-disk")
    if options.transactions:
        sizes.append("--transactions")
    if options.sharing:
        sizes.append("--sharing")
    arguments = f' ARGS="{" ".join(sizes)}"' if sizes else ""
    again = f"to see it again: make sim SEED={failure.seed}{arguments}"
    sys.stderr.write(f"{failure.trace}\n\n{again}\n\n{failure.reason}")


def _summarise(outcomes: list[Outcome], seconds: float) -> None:
    injected: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    for outcome in outcomes:
        injected.update(outcome.injected)
        checked.update(outcome.checked)
    _table("faults injected", injected)
    _table("what was checked", checked)
    simulated = sum(outcome.simulated_ms for outcome in outcomes) / 1_000
    settled = max(outcome.settled_ms for outcome in outcomes) // 1_000
    worked = sum(os.times()[:4])  # What other programs take of the machine does not count in it.
    speed = (
        f"{simulated:,.0f} simulated seconds in {seconds:,.1f} s: {simulated / seconds:,.0f} a second, "
        f"{simulated / worked:,.0f} a second of a core's time"
    )
    say(f"{len(outcomes)} seeds, {speed}; the slowest group was stable after {settled} s")
    if len(outcomes) == 1:
        say(f"the trace's SHA-256: {outcomes[0].trace_digest}")


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")


def _table(title: str, counts: Counter[str]) -> None:
    say(title)
    for name, count in sorted(counts.items(), key=lambda each: -each[1]):
        say(f"  {count:>12,}  {name}")
    say(f"  {sum(counts.values()):>12,}  in all\n")


if __name__ == "__main__":
    sys.exit(main())
