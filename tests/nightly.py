"""Everything that takes too long for every change, one step after the other, and a table at the end.

    make nightly                          # all of it: some hours
    make nightly ONLY="crash kills"       # these steps
    make nightly ARGS=--list              # what there is

A step that fails does not stop the others. What each printed lies in build/nightly/NAME.log; of those that
failed the last lines are printed. The exit status is 1 if one failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "build" / "nightly"
PYTEST = f"{shlex.quote(sys.executable)} -m pytest"
REPEATED = (  # Where `tests.repetitions` is asked.
    "tests/simulation/whole/test_same_run.py",
    "protocol/kohort/protocol/request_decoders/test_request_decoders.py",
    "protocol/kohort/protocol/test_codec.py",
    "cli/kohort/cli/test_wire_frames.py",
    "client/kohort/client/test_columns.py",
    "client/kohort/client/test_decoding.py",
    "client/kohort/client/test_relocation.py",
    "client/kohort/client/test_sender.py",
    "broker/kohort/broker/group/test_random_walk.py",
    "queues/kohort/queues/forward/test_backlog.py",
    "queues/kohort/queues/forward/test_sharing.py",
    "queues/kohort/queues/kmq/test_any_history.py",
    "queues/kohort/queues/region/test_any_history.py",
    "storage/kohort/storage/test_recovery.py",
    "storage/kohort/storage/test_recovery_point.py",
    "tests/crash/test_cleaning_after_any_crash.py",
    "tests/crash/test_log_after_any_crash.py",
    "tests/differential/test_same_transactions.py",
    "tests/page/test_accessibility.py",
    "tests/simulation/test_consumer_groups.py",
    "tests/simulation/test_migrations.py",
    "tests/simulation/test_own_client.py",
    "tests/simulation/test_streams_groups.py",
)
OWN_VARIABLES = {"ARGS", "ONLY", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}
TAIL_LINES = 40
LINE_MAX = 100
GRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Step:
    """A command, what it is given in its environment, and when it has taken too long."""

    name: str
    command: str
    minutes_max: int
    settings: Mapping[str, str] = field(default_factory=dict)


STEPS = (
    Step("simulation", "make sim SEEDS=1000", 60),
    Step("simulation-transactions", "make sim SEEDS=500", 60, {"ARGS": "--transactions"}),
    Step(
        "simulation-sharing",
        "make sim SEEDS=500",
        60,
        {"ARGS": "--sharing --members 6 --groups 1 --seconds 200"},
    ),
    Step("simulation-cluster", "make sim-cluster SEEDS=1000", 60),
    Step("mutants", "make mutants", 60),
    Step("fuzz", "make fuzz", 20),
    Step("fuzz-broker", "make fuzz-broker", 20),
    Step("attacks", f"{PYTEST} tests/attacks tests/security", 40, {"KOHORT_TEST_NIGHTLY": "1"}),
    Step("repetitions", f"{PYTEST} {' '.join(REPEATED)}", 40, {"KOHORT_TEST_NIGHTLY": "1"}),
    Step("cluster", f"{PYTEST} tests/cluster", 20, {"KOHORT_TEST_NIGHTLY": "1"}),
    Step("workers", f"{PYTEST} tests/workers", 20),
    Step("observe", f"{PYTEST} tests/observe", 40, {"KOHORT_TEST_NIGHTLY": "1"}),
    Step("chaos", "make chaos", 40),
    Step("crash", "make crash", 45),
    Step(
        "exactly-once",
        f"{shlex.quote(sys.executable)} examples/flights/exactly_once.py --kills 40",
        10,
    ),
    Step(
        "transactions",
        f"{PYTEST} -s tests/interop/test_streams.py tests/interop/test_transactions.py",
        30,
        {"KOHORT_TEST_NIGHTLY": "1", "ROUNDS": "20"},
    ),
    Step("kills", "make kills", 60),
    Step(
        "queues",
        f"{PYTEST} -s tests/queues",
        60,
        {"ROUNDS": "100", "KOHORT_TEST_NIGHTLY": "1"},
    ),
    *(
        Step(
            f"region-slow-{broker}",
            f"{PYTEST} -s tests/queues/test_region_slow.py --on {broker}",
            20,
            {"KOHORT_TEST_REGION_S": "600", "KOHORT_TEST_REGION_KILL_S": "20"},
        )
        for broker in ("kohort", "kafka")
    ),
    Step(
        "region-walks",
        f"{PYTEST} -n 2 tests/queues/test_region_walks.py",
        40,
        {"KOHORT_TEST_WALKS": "10000"},
    ),
    Step(
        "region-simulated",
        f"{PYTEST} tests/queues/test_region_simulated.py",
        30,
        {"KOHORT_TEST_REGION_SEEDS": "100"},
    ),
    Step(
        "forward-delay",
        f"{PYTEST} -s tests/queues/test_forward_delay_kills.py",
        15,
        {
            "KOHORT_TEST_DELAY_RECORDS": "100000",
            "KOHORT_TEST_DELAY_S": "540",
            "KOHORT_TEST_DELAY_MS": "60000",
        },
    ),
    Step(
        "mean-delays",
        f"{shlex.quote(sys.executable)} examples/flights/mean_delays.py --kills 40",
        15,
    ),
    Step("large", "make large", 15, {"KOHORT_TEST_LARGE": "1"}),
    Step("interop", "make interop", 40, {"KOHORT_TEST_MIXED": "1"}),
    Step("applications", "make applications", 20, {"KOHORT_TEST_APPLICATIONS": "1"}),
    Step("docs", "make docs", 10),
    Step("tour", f"{PYTEST} tests/packaging/test_start.py", 20, {"KOHORT_TEST_NIGHTLY": "1"}),
    Step("compiled", "make compiled", 30, {"KOHORT_TEST_NIGHTLY": "1"}),
    Step("image", "make image", 20, {"KOHORT_TEST_IMAGE": "1"}),
    Step("release", "make release", 60),
    Step("upgrade", "make upgrade", 60, {"KOHORT_TEST_OLD": "8a882831 7e5a3729 d289b3cf"}),
    Step("simulation-replicas", "make sim-replicas SEEDS=1000", 60),
    Step("simulation-whole", "make sim-whole SEEDS=400", 60),
    Step("busy", f"{PYTEST} tests/client/test_busy_user.py", 10, {"KOHORT_TEST_BUSY": "1"}),
    Step("soak", f"{PYTEST} tests/client/test_soak.py", 20, {"KOHORT_TEST_SOAK_S": "600"}),
    Step("load", f"{PYTEST} -s tests/large/test_steady_load.py", 20, {"KOHORT_TEST_LOAD_S": "600"}),
    Step("churn", f"{PYTEST} tests/client/test_consumer_churn.py", 10, {"KOHORT_TEST_CHURN_S": "60"}),
    Step("producer", f"{PYTEST} tests/client/test_produce_while_killed.py", 30, {"ROUNDS": "100"}),
    Step(
        "producer-kafka",
        f"{PYTEST} tests/client/test_produce_while_killed.py",
        20,
        {"ROUNDS": "5", "KOHORT_TEST_KILL_KAFKA": "1"},
    ),
    Step(
        "command",
        f"{PYTEST} tests/interop/test_restart.py tests/crash",
        20,
        {"KOHORT_TEST_COMMAND": f"{shlex.quote(sys.executable)} -m kohort.cli serve"},
    ),
    # Sets KOHORT_TEST_BOOTSTRAP, which is known once Apache Kafka listens.
    Step("kafka", f"{shlex.quote(sys.executable)} -m tests.on_kafka", 30, {"KOHORT_TEST_BOOTSTRAP": ""}),
    Step("differential", f"{shlex.quote(sys.executable)} -m tests.differential.run", 40),
    Step("spark", "make spark", 60, {"KOHORT_TEST_LARGE": "1"}),  # Every kill: Parquet, Delta, Iceberg.
)


@dataclass(frozen=True, slots=True)
class Result:
    """How a step ended: None stands for one that was stopped because it took too long."""

    step: Step
    status: int | None
    seconds: float
    closing_line: str

    @property
    def verdict(self) -> str:
        """The word in the table."""
        if self.status is None:
            return "too long"
        return "passed" if self.status == 0 else "failed"


def log_of(step: Step) -> Path:
    """Return where a step's output lies."""
    return LOGS / f"{step.name}.log"


def run(step: Step) -> Result:
    """Return how a step ended; nothing that it started is left behind."""
    LOGS.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    with log_of(step).open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            shlex.split(step.command),
            cwd=ROOT,
            env=environment(step),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(step.minutes_max * 60)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end(process)
    return Result(step, status, time.monotonic() - began_s, closing_line(log_of(step)))


def environment(step: Step) -> dict[str, str]:
    """Return the environment of a step: what `make nightly` was told is not for the targets that it makes."""
    inherited = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    return {**inherited, **step.settings}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it has started in its session's group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):  # Everything has ended, which is how it should be.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def closing_line(path: Path) -> str:
    """Return the last line that is not empty, without what decorates it."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip("= ") for line in reversed(lines) if line.strip("= ")), "")[:LINE_MAX]


def table(results: Sequence[Result]) -> list[str]:
    """Return a line for each step: verdict, minutes, and its own last line."""
    width = max(len(each.step.name) for each in results)
    return [
        f"{each.step.name:<{width}}  {each.verdict:<8}  {each.seconds / 60:6.1f} min  {each.closing_line}"
        for each in results
    ]


def play(steps: Sequence[Step], out: TextIO) -> int:
    """Run the steps, tell of each, and return the exit status."""
    results: list[Result] = []
    for step in steps:
        out.write(f"{step.name}: {step.command}\n")
        out.flush()
        results.append(run(step))
        if results[-1].status != 0:
            lines = log_of(step).read_text(encoding="utf-8", errors="replace").splitlines()
            out.writelines(f"    {line}\n" for line in lines[-TAIL_LINES:])
    out.writelines(f"{line}\n" for line in ("", *table(results)))
    return int(any(each.status != 0 for each in results))


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description="Run what takes long.")
    parser.add_argument("names", nargs="*", metavar="STEP", help="only these steps")
    parser.add_argument("--list", action="store_true", help="print the steps alone")
    options = parser.parse_args(argv)
    known = {each.name for each in STEPS}
    for name in options.names:
        if name not in known:
            parser.error(f"there is no step {name!r}, but {', '.join(sorted(known))}")
    wanted = [each for each in STEPS if not options.names or each.name in options.names]
    if options.list:
        for each in wanted:
            settings = "".join(f"{name}={value} " for name, value in each.settings.items())
            sys.stdout.write(f"{each.name:<15} {settings}{each.command}\n")
        return 0
    return play(wanted, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
