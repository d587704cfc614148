"""Runs seeds: `python -m tests.simulation.whole --seed 7`, `python -m tests.simulation.whole --seeds 200`."""

import argparse
import gc
import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, NoReturn

import structlog

from kohort.testing.simulation.sharing_out import shared_out
from tests.simulation.whole.acts import ACTS
from tests.simulation.whole.reached import missed
from tests.simulation.whole.scenario import CHAOS_SECONDS, SCENARIOS, Shape, play

SEEDS_PER_PROCESS = 20
SEEDS_THAT_REACH_ALL = 12
NUMBER = re.compile(r"\d+")


class Outcome(NamedTuple):
    """What came of one seed."""

    scenario: str
    seed: int
    virtual_seconds: float
    faults: Counter[str]
    checked: Counter[str]
    reached: Counter[str]
    shown: int
    error: str
    story: str
    broker_failures: list[str]
    fingerprint: str


def run_one(asked: tuple[str, int, Shape]) -> Outcome:
    """Return the result of one seed of one scenario."""
    scenario, seed, shape = asked
    _be_quiet()
    with _written(shape.trace) as on_line:
        world, books, reached, error = play(scenario, seed, shape, on_line=on_line)
    faults = Counter(_kind(each.words) for each in world.faults if each.words != "nothing")
    failures = [repr(failure) for broker in world.brokers for failure in broker.failures]
    gc.collect()
    return Outcome(
        scenario,
        seed,
        world.seconds,
        faults,
        books.all_checked(),
        reached,
        sum(each.total() for each in books.shown.values()),
        "" if error is None else f"{type(error).__module__}.{type(error).__qualname__}: {error}",
        world.story_told,
        failures,
        world.fingerprint,
    )


@contextmanager
def _written(path: Path | None) -> Iterator[Callable[[str], object] | None]:
    """Yield what writes lines to a new file, None without a path."""
    if path is None:
        yield None
        return
    with path.open("w") as lines:
        yield lines.write


def _kind(words: str) -> str:
    """Return a fault without its name and its times."""
    _, _, rest = words.partition(" ")
    return NUMBER.sub("N", rest.partition(" for ")[0].partition(",")[0])


def _be_quiet() -> None:
    logging.disable()
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(processors=[_drop], wrapper_class=quiet)


def _drop(_logger: object, _name: str, _event: object) -> NoReturn:
    raise structlog.DropEvent


def main() -> int:
    """Return 0 where everything held in every seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.whole", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed alone, and tell its story")
    parser.add_argument("--seeds", type=int, default=20, help="run that many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--scenario", choices=SCENARIOS, help="one broker, or three")
    parser.add_argument("--act", choices=ACTS, help="what three brokers do behind the faults; else any")
    parser.add_argument("--seconds", type=float, default=CHAOS_SECONDS, help="how long there are faults")
    parser.add_argument("--trace", type=Path, help="with --seed: write all that happens to this file")
    options = parser.parse_args()
    shape = Shape(options.seconds, options.act, options.trace)
    scenarios = [options.scenario] if options.scenario else list(SCENARIOS)
    seeds = (
        [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    )
    asked = [(scenario, seed, shape) for seed in seeds for scenario in scenarios]
    began, outcomes, status = time.perf_counter(), list[Outcome](), 0
    shared = shared_out(run_one, asked, options.jobs, items_per_process=SEEDS_PER_PROCESS)
    with closing(shared):
        for _, outcome in shared:
            outcomes.append(outcome)
            if outcome.error or outcome.broker_failures or options.seed is not None:
                _tell(outcome, shape)
            if outcome.error or outcome.broker_failures:
                status = 1
                break
    _summarise(outcomes, time.perf_counter() - began)
    if status == 0 and shape == Shape() and len(seeds) >= SEEDS_THAT_REACH_ALL:
        status = _tell_missed(scenarios, outcomes)
    return status


def _tell_missed(scenarios: Sequence[str], outcomes: Sequence[Outcome]) -> int:
    """Return 1, and say what, if so many seeds of a scenario have not reached something."""
    status = 0
    for scenario in scenarios:
        reached = sum((each.reached for each in outcomes if each.scenario == scenario), Counter[str]())
        for words in missed(scenario, reached):
            sys.stderr.write(f"no run of {scenario} came so far that {words}\n")
            status = 1
    return status


def _tell(outcome: Outcome, shape: Shape) -> None:
    options = f"--scenario {outcome.scenario}"
    options += f" --act {shape.act}" if shape.act else ""
    options += f" --seconds {shape.seconds:g}" if shape.seconds != CHAOS_SECONDS else ""
    again = f'make sim-whole SEED={outcome.seed} ARGS="{options}"'
    failures = "".join(f"a broker failed: {each}\n" for each in outcome.broker_failures)
    sys.stderr.write(
        f"{outcome.story}\n\n{outcome.error}\n{failures}"
        f"the fingerprint of the run: {outcome.fingerprint}\nto see it again: {again}\n"
    )


def _summarise(outcomes: list[Outcome], seconds: float) -> None:
    for title, counts in (
        ("faults injected", sum((each.faults for each in outcomes), Counter[str]())),
        ("what was checked", sum((each.checked for each in outcomes), Counter[str]())),
        ("what was reached", sum((each.reached for each in outcomes), Counter[str]())),
    ):
        sys.stdout.write(f"{title}\n")
        for name, count in counts.most_common():
            sys.stdout.write(f"  {count:>10,}  {name}\n")
    virtual = sum(each.virtual_seconds for each in outcomes)
    shown = sum(each.shown for each in outcomes)
    sys.stdout.write(
        f"{len(outcomes)} runs, {virtual:,.0f} simulated seconds in {seconds:,.1f} s, "
        f"{shown:,} records shown\n"
    )
    fingerprint = blake2b("".join(each.fingerprint for each in outcomes).encode(), digest_size=8)
    sys.stdout.write(f"fingerprint {fingerprint.hexdigest()}: the same whenever these seeds run\n")


if __name__ == "__main__":
    sys.exit(main())
