"""The cost of each request for the broker: CPU time, calls, instructions and memory, beside its budget.

    python benchmarks/budget.py                 # the table, with CPU time and the recorded budget
    python benchmarks/budget.py --check         # `make budget`: status 1 where something costs more
    python benchmarks/budget.py --record        # write what it costs now into benchmarks/budget.json
    python benchmarks/budget.py --only Fetch    # these alone
    python benchmarks/budget.py --write         # note the run, and write the docs (`make bench`)

The broker is in this process, and its clients speak to it through memory (`parts/in_process.py`): the
counts include the reactor, the connection, the codec, the handler, the core, the log and the flush, without a
client, a socket or a sync. Calls are those of Python and C functions (`sys.setprofile`), instructions those
of the interpreter (`sys.settrace`). Neither depends on the load of the machine, nor does the memory: the
peak of one round of the loop (`tracemalloc`), and the blocks that remain
(`sys.getallocatedblocks`). These four are checked; CPU time is printed beside them, and not checked.
The counts depend on the interpreter, so that there is a budget for each version; without a budget
it says so, and checks nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts import history
from benchmarks.parts.in_process import Meter, World, with_world
from benchmarks.parts.workloads import WORKLOADS, Scripts, Workload

BUDGET = Path(__file__).parent / "budget.json"
PYTHON = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"
REPEATS = 3
"""The minimum of each count: occasional other work of the broker is added to it."""
CPU_REPEATS = 5
CPU_UNITS = 4
"""So many times a workload's units are timed together."""
SHARE_MAX = 0.05
"""The allowed growth of each checked count."""
SHARES_MAX = {"OffsetCommit, 16 connections": 0.1}
"""For workloads whose instructions have one of two values, 7 % apart, from process to process."""
SLACK = {"calls": 1.0, "instructions": 10.0, "peak_bytes": 256.0, "kept_blocks": 6.0}
"""And by how much it may anyway: blocks, because logs keep the places of some of their newest batches."""


class Cost(NamedTuple):
    """The cost of one unit of a workload."""

    cpu_us: float
    calls: float
    instructions: float
    peak_bytes: float
    kept_blocks: float


class CpuMeter:
    """CPU time of the process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def resume(self) -> None:
        self._began = time.process_time()

    def pause(self) -> None:
        if self._began:
            self.seconds += time.process_time() - self._began
            self._began = 0.0


class CallMeter:
    """Calls of functions, in Python and in C."""

    def __init__(self) -> None:
        self.count = 0

    def resume(self) -> None:
        sys.setprofile(self._note)

    def pause(self) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1


class InstructionMeter:
    """Instructions of the interpreter."""

    def __init__(self) -> None:
        self.count = 0

    def resume(self) -> None:
        sys.settrace(self._enter)

    def pause(self) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._note

    def _note(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            self.count += 1
        return self._note


class PeakMeter:
    """The most that a round has taken above what there was before it, in bytes: one figure a round."""

    def __init__(self) -> None:
        self.peaks: list[int] = []
        self._before: int | None = None

    def resume(self) -> None:
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]

    def pause(self) -> None:
        if self._before is not None:
            self.peaks.append(tracemalloc.get_traced_memory()[1] - self._before)
            self._before = None


async def cost(world: World, scripts: Scripts, units: int) -> Cost:
    """Return the cost of a unit, without CPU time."""

    async def play(meter: Meter | None = None) -> None:
        await world.play(scripts(units), meter)

    async def least(measure: Callable[[], Awaitable[float]]) -> float:
        return min([await measure() for _ in range(REPEATS)]) / units

    async def counted(make: type[CallMeter] | type[InstructionMeter]) -> float:
        meter = make()
        await play(meter)
        return meter.count

    async def kept() -> float:
        gc.collect()
        before = sys.getallocatedblocks()
        await play()
        gc.collect()
        return sys.getallocatedblocks() - before

    await play()
    await play()  # Work that happens only once, such as a log's index entry, is over.
    gc.collect()
    gc.disable()  # It runs at any time, independent of a request.
    try:
        calls = await least(partial(counted, CallMeter))
        instructions = await least(partial(counted, InstructionMeter))
        blocks = statistics.median([await kept() for _ in range(REPEATS)]) / units
        tracemalloc.start()
        peak = PeakMeter()
        await play(peak)
        tracemalloc.stop()
    finally:
        gc.enable()
    return Cost(0.0, calls, instructions, statistics.median(peak.peaks), blocks)


async def cpu(world: World, scripts: Scripts, units: int) -> float:
    """Return the microseconds of CPU time that a unit takes: the least of some repetitions."""
    least = float("inf")
    for _ in range(CPU_REPEATS):
        meter = CpuMeter()
        await world.play(scripts(units), meter)
        least = min(least, meter.seconds / units * 1e6)
    return least


def measured(workloads: Sequence[Workload], *, with_cpu: bool) -> dict[str, Cost]:
    """Return the cost of each workload, all in one broker."""
    found: dict[str, Cost] = {}

    async def play(world: World) -> None:
        scripts = {}
        for each in workloads:
            scripts[each.name] = await each.prepare(world)
            found[each.name] = await cost(world, scripts[each.name], each.units)
        # Last: earlier workloads must see the same broker with and without it.
        for each in workloads if with_cpu else ():
            cpu_us = await cpu(world, scripts[each.name], each.units * CPU_UNITS)
            found[each.name] = found[each.name]._replace(cpu_us=cpu_us)

    with_world(play)
    return found


# -- the budget -----------------------------------------------------------------------------------------


def recorded(path: Path = BUDGET) -> dict[str, Cost]:
    """Return the budget of each workload under this interpreter; nothing if none is recorded."""
    every = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: Cost(**each) for name, each in every.get(PYTHON, {}).items()}


def record(costs: Mapping[str, Cost], path: Path = BUDGET) -> None:
    """Write the current cost as the budget; workloads that were not measured keep theirs."""
    every = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    mine = every.setdefault(PYTHON, {})
    for name, each in costs.items():
        mine[name] = {field: round(value, 1) for field, value in each._asdict().items()}
    known = [each.name for each in WORKLOADS]
    every[PYTHON] = {name: mine[name] for name in known if name in mine}
    path.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")


def overspent(costs: Mapping[str, Cost], budget: Mapping[str, Cost]) -> Iterator[str]:
    """Yield a line for each figure that is too far above its budget, and for each workload that has none."""
    for name, now in costs.items():
        may = budget.get(name)
        if may is None:
            yield f"{name}: no budget is recorded"
            continue
        share = SHARES_MAX.get(name, SHARE_MAX)
        for field, slack in SLACK.items():
            before, after = getattr(may, field), getattr(now, field)
            if after > before + max(slack, before * share):
                yield f"{name}: {after:,.1f} {field}, and the budget is {before:,.1f}"


def table(costs: Mapping[str, Cost], budget: Mapping[str, Cost]) -> Iterator[str]:
    """Yield the figures as Markdown; beside each the difference from the budget, in per cent."""
    yield "| a unit of | CPU, us | calls | instructions | bytes at most | blocks that stay |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, each in costs.items():
        may = budget.get(name)
        cells = [f"{each.cpu_us:,.1f}" if each.cpu_us else "-"]
        for field, form in (("calls", ",.0f"), ("instructions", ",.0f"), ("peak_bytes", ",.0f")):
            value = getattr(each, field)
            differs = f" ({(value / getattr(may, field) - 1) * 100:+.0f} %)" if may is not None else ""
            cells.append(f"{value:{form}}{differs}")
        cells.append(f"{each.kept_blocks:.1f}")
        yield f"| {name} | {' | '.join(cells)} |"


def page(run: Mapping[str, Any], costs: Mapping[str, Cost]) -> Iterator[str]:
    """Yield the part of docs/performance.md."""
    yield f"{history.described(dict(run))}, version `{run['version']}`."
    yield f"The load before it was {run['load']:.1f}."
    yield ""
    yield from table(costs, {})


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if a workload is over its budget."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="WORD", default="", help="workloads with this in their name")
    parser.add_argument("--check", action="store_true", help="judge, and leave CPU time out")
    parser.add_argument("--record", action="store_true", help="make what it costs now the budget")
    parser.add_argument("--write", action="store_true", help="note the run, and write the docs")
    parser.add_argument("--budget", metavar="FILE", type=Path, default=BUDGET, help="another budget")
    options = parser.parse_args(argv)
    workloads = [each for each in WORKLOADS if options.only in each.name]
    if not workloads:
        parser.error(f"there is no workload {options.only!r}")
    costs = measured(workloads, with_cpu=not options.check)
    budget = recorded(options.budget)
    print("\n".join(table(costs, budget)))
    if options.record:
        record(costs, options.budget)
        return 0
    if options.write:
        run = {"version": history.revision(), "load": history.load_average()}
        history.append("budget", {**run, "costs": {name: each._asdict() for name, each in costs.items()}})
        history.write_part("budget", page(history.runs("budget")[-1], costs))
    if not options.check:
        return 0
    if not budget:
        print(f"no budget is recorded for {PYTHON}: nothing is judged")
        return 0
    complaints = list(overspent(costs, budget))
    print("\n".join(complaints) if complaints else f"within the budget of {PYTHON}")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
