"""Runs seeds of a broker that follows: `python -m tests.simulation.replicas --seed 7`, or `--seeds 200`."""

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

from kohort.testing.simulation.sharing_out import shared_out
from tests.simulation.books import Violation
from tests.simulation.replicas.world import CALM_STEPS, Outcome, World

TRACE_LINES_TOLD = 40
STEPS = 1_500


def main() -> int:
    """Return 0 where everything held in every seed."""
    options = _options()
    seeds = range(options.first, options.first + options.seeds) if options.seed is None else [options.seed]
    injected: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    began = time.perf_counter()
    run = partial(run_seed, steps=options.steps, calm_steps=options.calm_steps, trace=options.trace)
    with closing(shared_out(run, seeds, options.jobs, items_per_process=20)) as results:
        for _, result in results:
            if isinstance(result, str):
                sys.stderr.write(result)
                return 1
            injected.update(result.injected)
            checked.update(result.checked)
    for title, counts in (("what happened", injected), ("what was checked", checked)):
        sys.stdout.write(f"{title}\n")
        for name, count in sorted(counts.items(), key=lambda each: -each[1]):
            sys.stdout.write(f"  {count:>12,}  {name}\n")
    sys.stdout.write(f"{len(seeds)} seeds in {time.perf_counter() - began:,.1f} s\n")
    return 0


def run_seed(seed: int, *, steps: int, calm_steps: int, trace: str | None) -> Outcome | str:
    """Return the result of one seed; after a violation the end of its trace, and the reason."""
    world = World(seed, steps, calm_steps)
    try:
        return world.run()
    except (Exception, Violation, BaseExceptionGroup):  # noqa: BLE001 - Whatever it was: the seed shows it again.
        again = f"to see it again: make sim-replicas SEED={seed}"
        lines = "\n".join(world.trace[-TRACE_LINES_TOLD:])
        return f"{lines}\n\n{again}\n\n{traceback.format_exc()}"
    finally:
        if trace is not None:
            Path(trace).write_text("\n".join(world.trace) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replicas", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--seeds", type=int, default=20, help="run that many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--steps", type=int, default=STEPS, help="in which things go wrong")
    parser.add_argument("--calm-steps", type=int, default=CALM_STEPS, help="and then, further apart")
    parser.add_argument("--trace", help="write what happened, line by line, to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
