"""Breaks replication, fencing, election on purpose: `python -m tests.simulation.cluster.mutants [NAME]...`.

Each mutant is a copy of the source in which a function or two are changed; the cluster's simulation has to
fail.
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.cluster.mutations import MUTANTS
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import ERROR, FAILED_SEED, mutated, run

MODULE = "tests.simulation.cluster"
SEEDS = 60
PATIENCE_SECONDS = 900
RULE = re.compile(r"Violation: ([^:]+):")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What saw the mutant: a seed, and which rule did not hold; None where nothing did."""

    seed: str | None
    rule: str | None
    seconds: float


def judge(mutant: Mutant | None, seeds: int = SEEDS, module: str = MODULE) -> Verdict:
    """Return what the simulation says of the mutant; with None of the source as it is."""
    began = time.perf_counter()
    first = 0 if mutant is None else mutant.first_seed
    with mutated(mutant) as environment:
        seeds_to_run = ["--first", str(first), "--seeds", str(seeds)]
        if mutant is not None and mutant.is_of_transactions:
            seeds_to_run.append("--transactions")
        found = run([module, *seeds_to_run], environment, PATIENCE_SECONDS)
    seconds = time.perf_counter() - began
    if not found.returncode:
        return Verdict(None, None, seconds)
    seed, rule = FAILED_SEED.search(found.stderr), RULE.search(found.stderr)
    errors = [each for each in found.stderr.splitlines() if ERROR.match(each)]
    told = rule[1] if rule else errors[-1] if errors else "an error"
    return Verdict(seed[1] if seed else None, told, seconds)


def main() -> int:
    """Return 0 where every mutant is caught, and the source as it is not."""
    return break_each(MUTANTS, MODULE, SEEDS, __doc__)


def break_each(mutants: Sequence[Mutant], module: str, seeds: int, description: str | None) -> int:
    """Return 0 where the simulation of that name catches each mutant, and the source as it is holds."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}.mutants", description=description)
    parser.add_argument("names", nargs="*", help="only these")
    names = parser.parse_args().names
    chosen = [each for each in mutants if not names or each.name in names]
    healthy = judge(None, seeds, module)
    if healthy.rule:
        say(f"the source as it is fails: {healthy}")
        return 1
    escaped = 0
    for mutant in chosen:
        verdict = judge(mutant, seeds, module)
        escaped += verdict.rule is None
        by_seed = f"seed {verdict.seed}: {verdict.rule}" if verdict.rule else "-"
        say(f"{mutant.name:<58}{by_seed}")
    say(f"\n{len(chosen) - escaped} of {len(chosen)} mutants caught")
    return 1 if escaped else 0


def say(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
