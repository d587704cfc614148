"""kohort beside Apache Kafka and kfake, and beside its older version: the table of docs/performance.md.

    PEERS=DIR make bench-peers ARGS="--old REV"          # all columns, about a quarter of an hour
    PEERS=DIR make bench-peers ARGS="--old REV --compiled build/compiled"    # and the compiled modules
    PEERS=DIR make bench-peers ARGS="--old REV --short"  # a turn of each with shorter measurements
    python benchmarks/peers.py --render                  # write table and picture anew from the last run

PEERS names a folder with a load generator and servers to measure: `build.sh PEER...` builds them, `start.sh
PEER PORT FOLDER` starts one and prints `PID ADDRESS` once it answers, and PEERS_HOME/bin/loadgen, called as
`loadgen MODE -peer NAME -secs S -warmup S -repeat N -out FILE -addr ADDRESS -pid PID`, appends a JSON line
a figure. The peers are `kohort` (KOHORT is its command, KOHORT_ARGS more of its options), `kafka`
(KAFKA_EXTRA are more of its settings) and `kfake`.

Versions take turns, ABBA: old, new, new, old, old, new. Every mode has a freshly started kohort with an
empty folder; Kafka is started once for all modes, and has 30 s of the same load before that count for
nothing. `kafka, synced` is Kafka with log.flush.interval.messages=1, and `lax` kohort with that setting so
high that it leaves syncing to the system, as Kafka does. `compiled` is kohort with the modules compiled
that a wheel has compiled (decision 0034). The median of each column's turns counts. Run it
on an idle machine. The results go into benchmarks/history/peers.jsonl, table and picture into docs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts import history
from benchmarks.parts.charts import ratio_bars

WARM_SECONDS = 30.0
LAX = "--set log.flush.interval.messages=9223372036854775807"
SYNCED_KAFKA = "log.flush.interval.messages=1"
STOP_SECONDS = 20.0
RUNS_SHOWN = 10
MODE_SECONDS_MAX = 240
MODES = ("heartbeat", "groups", "join", "commit", "small", "produce")
WRITING = ("commit", "small", "produce")
"""What waits for the disk, or does not."""
REPEATS = {"join": 5}
"""A round of 500 takes 250 ms more where a heartbeat meets it: by luck, in every version."""
SIZES = {"groups": "1000,10000", "join": "500"}
WARMING = (
    ("heartbeat", "50"),
    ("commit", ""),
    ("groups", "500"),
    ("small", ""),
    ("join", "100"),
    ("produce", ""),
)


class Row(NamedTuple):
    """One row of the table: where its figure is in the output of the load generator."""

    name: str
    mode: str
    variant: str
    figure: str
    less_is_better: bool = False


ROWS = (
    Row("heartbeats/s, 10 members", "heartbeat", "m10-blast", "per_s"),
    Row("heartbeats/s, 1,000 members", "heartbeat", "m1000-blast", "per_s"),
    Row("groups of 2 formed/s, 1,000", "groups", "g1000", "per_s"),
    Row("groups of 2 formed/s, 10,000", "groups", "g10000", "per_s"),
    Row("a group of 500 assembled, ms", "join", "n500", "assemble_ms", less_is_better=True),
    Row("a round of a group of 500, ms", "join", "n500", "round_ms", less_is_better=True),
    Row("commits/s, 1 connection, depth 1", "commit", "simple-c1-d1", "per_s"),
    Row("commits/s, 16 connections, depth 1", "commit", "simple-c16-d1", "per_s"),
    Row("commits/s, 16 connections, depth 16", "commit", "simple-c16-d16", "per_s"),
    Row("offset fetches/s, 1 connection, depth 1", "commit", "fetch-c1-d1", "per_s"),
    Row("offset fetches/s, 16 connections, depth 16", "commit", "fetch-c16-d16", "per_s"),
    Row("single-record produces/s, 1 in flight", "small", "inflight1", "per_s"),
    Row("single-record produces/s, 5 in flight", "small", "inflight5", "per_s"),
    Row("produced MB/s, 1 partition", "produce", "p1", "mb_s"),
    Row("produced MB/s, 8 partitions", "produce", "p8", "mb_s"),
    Row("KiB of memory per group of 2", "groups", "memory", "kib_per_group", less_is_better=True),
)
CPU_FIGURES = {"per_s": "per_server_cpu_s", "mb_s": "mb_per_server_cpu_s"}


@dataclass
class Column:
    """A measured column with its name."""

    name: str
    peer: str
    modes: Sequence[str] = MODES
    variables: Mapping[str, str] = field(default_factory=dict)
    turns: int = 1
    is_warmed: bool = False

    def found_first(self, folder: Path) -> Column:
        """Return the column with modules from `folder` instead of others of their names."""
        paths = os.pathsep.join((str(folder), self.variables["PYTHONPATH"]))
        return replace(self, variables={**self.variables, "PYTHONPATH": paths})


class Peers:
    """The folder that PEERS names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = Path(os.environ.get("PEERS_HOME") or Path(tempfile.gettempdir()) / "peers")
        self._loadgen = self._home / "bin" / "loadgen"

    def build(self, peers: Sequence[str]) -> None:
        """Build the servers and the load generator."""
        subprocess.run((self._folder / "build.sh", *peers), check=True, stdout=sys.stderr)
        assert self._loadgen.exists(), f"{self._folder}/build.sh has not built {self._loadgen}"

    @contextlib.contextmanager
    def server(self, column: Column) -> Iterator[Server]:
        """Run a server with an empty folder during the `with` block."""
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir=self._home))
        command = (self._folder / "start.sh", column.peer, str(free_port()), str(folder))
        environment = {**os.environ, **column.variables}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            pid, address = said.split()
            try:
                yield Server(self._loadgen, column.name, int(pid), address)
            finally:
                end(int(pid))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Server:
    """A server that answers."""

    def __init__(self, loadgen: Path, name: str, pid: int, address: str) -> None:
        self._command = (str(loadgen),)
        self._name = name
        self._pid = pid
        self._address = address

    def measure(self, mode: str, seconds: float, warm_up: float, sizes: str = "") -> list[dict[str, Any]]:
        """Return the lines of one mode; a failed one has an `error`."""
        command = [*self._command, mode, "-peer", self._name, "-addr", self._address, "-pid", str(self._pid)]
        command += ["-secs", str(seconds), "-warmup", str(warm_up), "-repeat", str(REPEATS.get(mode, 1))]
        command += ["-list", sizes] if sizes else []
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=MODE_SECONDS_MAX
            )
        except subprocess.TimeoutExpired:
            return [{"mode": mode, "variant": "", "error": f"no end after {MODE_SECONDS_MAX} s"}]
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode and not any("error" in each for each in lines):
            lines.append({"mode": mode, "variant": "", "error": done.stderr.strip()[-200:]})
        return lines


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def end(pid: int) -> None:
    """Ask a server to stop, wait, and insist."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        deadline = time.monotonic() + STOP_SECONDS
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.05)  # It is no child of this process: there is nothing to wait for.


def is_running(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# -- measuring ------------------------------------------------------------------------------------------


def measure_turn(
    peers: Peers, column: Column, seconds: float, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return the results of one turn of a column."""
    lines: list[dict[str, Any]] = []
    warm_up = seconds / 4
    if column.is_warmed:
        with peers.server(column) as server:
            warm(server)
            for mode in column.modes:
                lines += server.measure(mode, seconds, warm_up, SIZES.get(mode, ""))
    else:
        for mode in column.modes:
            with peers.server(column) as server:
                lines += server.measure(mode, seconds, warm_up, SIZES.get(mode, ""))
    for each in lines:
        if "error" in each:
            say(f"{column.name}: {each['mode']} {each['variant']}: {each['error']}")
    return lines


def warm(server: Server) -> None:
    """Have a server that compiles itself while it runs do all kinds of work for half a minute."""
    deadline = time.monotonic() + WARM_SECONDS
    while True:
        for mode, sizes in WARMING:
            server.measure(mode, 0.4, 0.0, sizes)
            if time.monotonic() > deadline:
                return


def figures(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the rows of one turn by name, and with `, by CPU` after the name the figure per second of CPU.

    The median counts where a figure was measured several times in the turn.
    """
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in lines:
        if "error" not in each:
            found.setdefault((each["mode"], each["variant"]), []).append(each)
    small, large = found.get(("groups", "g1000")), found.get(("groups", "g10000"))
    if small and large:
        grown_kib = (large[-1]["rss_mib"] - small[-1]["rss_mib"]) * 1024
        found["groups", "memory"] = [{"kib_per_group": grown_kib / large[-1]["groups"]}]
    rows: dict[str, float] = {}
    for row in ROWS:
        repeated = found.get((row.mode, row.variant), ())
        for name, figure in ((row.name, row.figure), (f"{row.name}, by CPU", CPU_FIGURES.get(row.figure))):
            values = [float(each[figure]) for each in repeated if each.get(figure)]
            if values:
                rows[name] = statistics.median(values)
    return rows


def in_turns(columns: Sequence[Column]) -> Iterator[Column]:
    """Yield the columns, each as often as it has turns, every other time the other way round."""
    for turn in range(max(each.turns for each in columns)):
        taking_part = [each for each in columns if each.turns > turn]
        yield from reversed(taking_part) if turn % 2 else taking_part


def columns_of(options: argparse.Namespace) -> list[Column]:
    """Return the columns to measure."""
    turns = 1 if options.short else options.turns
    kohort = f"{shlex.quote(sys.executable)} -m kohort.cli"

    def version(name: str, folder: Path, arguments: str = "", modes: Sequence[str] = MODES) -> Column:
        variables = {**history.environment(folder), "KOHORT": kohort, "KOHORT_ARGS": arguments}
        return Column(name, "kohort", modes, variables, turns)

    made = [version("new", history.ROOT)]
    if options.old:
        made.insert(0, version("old", history.version(options.old)))
    made.append(version("lax", history.ROOT, LAX, WRITING))
    if options.compiled:
        compiled = [version("compiled", history.ROOT), version("compiled, lax", history.ROOT, LAX, WRITING)]
        made += [each.found_first(options.compiled.resolve()) for each in compiled]
    for each in options.also:
        name, _, arguments = each.partition("=")
        made.append(version(name, history.ROOT, arguments))
    kafka_turns = 1 if options.short else options.kafka_turns
    synced = {"KAFKA_EXTRA": SYNCED_KAFKA}
    made += [
        Column("kafka", "kafka", MODES, {}, kafka_turns, is_warmed=True),
        Column("kafka, synced", "kafka", WRITING, synced, kafka_turns, is_warmed=True),
        Column("kfake", "kfake", MODES, {}, 1),
    ]
    wanted = {name.strip() for name in options.columns.split(";")} if options.columns else None
    made = [each for each in made if wanted is None or each.name in wanted]
    if options.modes:
        for each in made:
            each.modes = [mode for mode in each.modes if mode in options.modes.split(",")]
    return [each for each in made if each.modes]


# -- output ---------------------------------------------------------------------------------------------


RATIOS = (
    ("new", "old"),
    ("new", "kafka"),
    ("new", "kafka, synced"),
    ("lax", "kafka"),
    ("new", "kfake"),
    ("compiled", "new"),
    ("compiled", "kafka"),
    ("compiled, lax", "kafka"),
    ("compiled", "kfake"),
)


def table(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield the run as Markdown: medians, and ratios, which are above 1 where the first one is better."""
    rows: Mapping[str, Mapping[str, float]] = run["medians"]
    columns = list(run["columns"])
    ratios = [each for each in RATIOS if set(each) <= set(columns)]
    heads = [*columns, *(f"{one} / {other}" for one, other in ratios)]
    yield f"| | {' | '.join(heads)} |"
    yield "| --- |" + " ---: |" * len(heads)
    for row in ROWS:
        of = rows.get(row.name)
        if of is None:
            continue
        cells = [number(of[each]) if each in of else "" for each in columns]
        cells += [shown(ratio(row, of, *each)) for each in ratios]
        yield f"| {row.name} | {' | '.join(cells)} |"


def cpu_table(run: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures per second of the server's CPU, which other work on the machine changes less."""
    rows: Mapping[str, Mapping[str, float]] = run["medians"]
    columns = list(run["columns"])
    yield "| a second of the server's CPU | " + " | ".join(columns) + " |"
    yield "| --- |" + " ---: |" * len(columns)
    for row in ROWS:
        of = rows.get(f"{row.name}, by CPU")
        if of is not None:
            cells = [number(of[each]) if each in of else "" for each in columns]
            yield f"| {row.name.replace('/s', '')} | {' | '.join(cells)} |"


def ratio(row: Row, of: Mapping[str, float], one: str, other: str) -> float | None:
    """Return how many times as good one is as the other; None where one of them is not known."""
    if not of.get(one, 0) > 0 or not of.get(other, 0) > 0:
        return None
    return of[other] / of[one] if row.less_is_better else of[one] / of[other]


def shown(value: float | None) -> str:
    """Return a ratio in its printed form."""
    return "" if value is None else f"{value:.2f}"


def number(value: float) -> str:
    """Return a figure with three digits at least."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def picture(run: Mapping[str, Any]) -> str:
    """Return how many times as good kohort is as Kafka, row by row, now and before."""
    rows: dict[str, dict[str, float]] = {}
    series = {"kohort / Kafka": ("new", "kafka"), "before": ("old", "kafka"), "lax / Kafka": ("lax", "kafka")}
    for row in ROWS:
        of = run["medians"].get(row.name, {})
        found = {name: ratio(row, of, *pair) for name, pair in series.items()}
        known = {name: value for name, value in found.items() if value is not None}
        if known:
            rows[row.name] = known
    return ratio_bars("kohort beside Apache Kafka, warm: times as good", rows, list(series))


def past(noted: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the results of the newest version in earlier runs, a line each, if there are any."""
    if len(noted) < 2:
        return
    names = [each.name for each in ROWS if any(each.name in run["medians"] for run in noted)]
    yield ""
    yield "| run | version | load | " + " | ".join(names) + " |"
    yield "| --- | --- | ---: |" + " ---: |" * len(names)
    for run in noted[-RUNS_SHOWN:]:
        cells = [run["medians"].get(name, {}).get("new") for name in names]
        shown_cells = " | ".join("" if each is None else number(each) for each in cells)
        yield f"| {run['date']} | `{run['versions']['new']}` | {run['load']:.1f} | {shown_cells} |"


def page(noted: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the part of docs/performance.md: the last run, and the new version in the earlier runs."""
    run = noted[-1]
    versions = run["versions"]
    old = f", old is `{versions['old']}`" if "old" in versions else ""
    yield f"{history.described(dict(run))}. New is `{versions['new']}`{old}; medians of"
    turns = ", ".join(f"{count} ({name})" for name, count in run["turns"].items())
    yield f"these turns of {run['seconds']:g} s a figure: {turns}. The load before it was {run['load']:.1f}."
    yield ""
    yield from table(run)
    yield ""
    yield from cpu_table(run)
    yield ""
    yield "![How many times as good as Apache Kafka](pictures/peers.svg)"
    yield from past(noted)


def render() -> None:
    """Write the last run into the docs."""
    noted = history.runs("peers")
    if not noted:
        sys.exit("there is no run in benchmarks/history/peers.jsonl")
    history.write_part("peers", page(noted))
    (history.PICTURES / "peers.svg").write_text(picture(noted[-1]), encoding="utf-8")


def main() -> int:
    """Measure, note the run, and write the docs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--old", metavar="REV", help="a commit to compare with")
    parser.add_argument(
        "--compiled", metavar="FOLDER", type=Path, help="what `make compiled` has made, as well"
    )
    parser.add_argument("--turns", type=int, default=3, help="of each version (3)")
    parser.add_argument("--kafka-turns", type=int, default=1, help="of Kafka, which is warmed for each (1)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement (2)")
    parser.add_argument("--short", action="store_true", help="a turn of each, a second each measurement")
    parser.add_argument(
        "--columns",
        metavar="NAME;NAME",
        help="only these: old;new;lax;compiled;compiled, lax;kafka;kafka, synced;kfake",
    )
    parser.add_argument("--modes", metavar="MODE,MODE", help=f"only these: {','.join(MODES)}")
    parser.add_argument("--also", metavar="NAME=ARGUMENTS", action="append", default=[],
        help="one more column: the new version with more arguments of `kohort serve`")  # fmt: skip
    parser.add_argument(
        "--render", action="store_true", help="write the docs anew from the last run, and end"
    )
    parser.add_argument("--keep-docs", action="store_true", help="print, and write neither docs nor history")
    options = parser.parse_args()
    if options.render:
        render()
        return 0
    folder = os.environ.get("PEERS")
    if not folder:
        parser.error("PEERS names no folder: see the beginning of benchmarks/peers.py")
    columns, seconds = columns_of(options), 1.0 if options.short else options.seconds
    peers = Peers(Path(folder))
    peers.build(sorted({each.peer for each in columns} - {"kohort"}))
    load, began = history.load_average(), time.monotonic()
    values: dict[str, dict[str, list[float]]] = {}
    for column in in_turns(columns):

        def say(words: str) -> None:
            print(f"{time.monotonic() - began:6.0f} s  {words}", file=sys.stderr, flush=True)

        say(f"{column.name} ...")
        for name, value in figures(measure_turn(peers, column, seconds, say)).items():
            values.setdefault(name, {}).setdefault(column.name, []).append(value)
    versions = {"new": history.revision()}
    if options.old:
        versions["old"] = history.version(options.old).name
    run: dict[str, Any] = {
        "versions": versions,
        "columns": [each.name for each in columns],
        "turns": {each.name: each.turns for each in columns},
        "seconds": seconds,
        "load": load,
        "took_s": round(time.monotonic() - began),
        "medians": {
            name: {column: statistics.median(each) for column, each in of.items()}
            for name, of in values.items()
        },
        "values": values,
    }
    print("\n".join([*table(run), "", *cpu_table(run)]))
    if not options.keep_docs:
        history.append("peers", run)
        render()
    return 0


if __name__ == "__main__":
    sys.exit(main())
