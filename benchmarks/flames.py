"""Flame graphs of the broker's hot paths, by py-spy, as SVG files in build/flames.

    make flames                                           # every path; installs py-spy
    python benchmarks/flames.py --only commits --old REV  # of an older commit, beside it
    python benchmarks/flames.py --old REV --write         # and put pictures and parts into the docs

A broker in a separate process gets the same requests for some seconds (`parts/raw_client.py`), while py-spy
samples its stack 500 times a second. A file shows where its CPU time goes: a waiting stack is left out. With
`--write` it samples a second time, and reports the share of each part of the broker in the cost of a request:
a sample counts for the innermost function that is in one of these parts.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.growth import create, formed
from benchmarks.parts import conversations as say
from benchmarks.parts import history
from benchmarks.parts.in_process import frame
from benchmarks.parts.measured_broker import MeasuredBroker

FLAMES = history.ROOT / "build" / "flames"
SECONDS = 8
RATE = 500
DEPTH = 16
GROUPS = 16
AT_ONCE = 20
TITLE = re.compile(r'(<text id="title"[^>]*>)[^<]*')  # py-spy writes its command there.

Ask = Callable[[], Sized]
"""Sends some requests, or forms some groups, and returns the result of each."""


def commits(broker: MeasuredBroker) -> Ask:
    """Commits of groups without members, 16 in flight."""
    (topic,) = create(broker, ["flames"])
    requests = [frame(say.commit(f"group-{number}", topic)) for number in range(GROUPS)]
    return lambda: broker.answers(requests)


def offset_fetches(broker: MeasuredBroker) -> Ask:
    """Offset fetches, 16 in flight."""
    commits(broker)()
    requests = [frame(say.offset_fetch(f"group-{number}", "flames")) for number in range(GROUPS)]
    return lambda: broker.answers(requests)


def heartbeats(broker: MeasuredBroker) -> Ask:
    """Heartbeats of 16 groups' members."""
    beats = [
        frame(say.heartbeat(*each))
        for each in formed(broker, [f"group-{number}" for number in range(GROUPS)])
    ]
    return lambda: broker.answers(beats)


def groups(broker: MeasuredBroker) -> Ask:
    """Groups of a member that are formed, 20 at a time."""
    numbers = iter(range(10_000_000))

    def form() -> Sized:
        return list(formed(broker, [f"group-{next(numbers)}" for _ in range(AT_ONCE)]))

    form()
    return form


def produces(broker: MeasuredBroker) -> Ask:
    """Single records, 16 in flight."""
    (topic,) = create(broker, ["flames"])
    requests = [frame(say.produce(topic, timestamp_ms=int(time.time() * 1_000)))] * DEPTH
    return lambda: broker.answers(requests)


PARTS = {
    "log messages": ("structlog/", "logging/", "broker/logs.py", "broker/runtime/throttled_log.py"),
    "sockets and rounds": ("broker/transport/", "broker/runtime/", "trio/"),
    "codec": ("kohort/protocol/", "<decode ", "<encode "),  # The latter are generated.
    "group core": ("broker/group/",),
    "coordinators": ("broker/coordination/",),
    "logs and journal": ("kohort/storage/", "broker/partitions/"),
    "handlers and others": ("kohort/",),
}
"""By a part of a file's name; a file that matches several belongs to the first."""

PATHS: dict[str, Callable[[MeasuredBroker], Ask]] = {
    "heartbeats": heartbeats,
    "groups": groups,
    "commits": commits,
    "offset-fetches": offset_fetches,
    "produces": produces,
}


class Look(NamedTuple):
    """The cost of a path for each of its requests or groups, and the share of each part."""

    cpu_us: float
    shares: dict[str, float]


def record(name: str, version: str, seconds: float) -> Path:
    """Return the file with a path's flame graph."""
    path = FLAMES / f"{name}-{version}.svg"
    with asked(name) as (broker, _):
        look(broker, path, seconds)
    return path


def shared(name: str, seconds: float) -> Look:
    """Return the cost of a path, and the share of each part of the broker."""
    with asked(name) as (broker, counts), tempfile.TemporaryDirectory(prefix="kohort-flames-") as folder:
        stacks = Path(folder) / "stacks"
        cpu, before = broker.cpu_seconds(), len(counts)
        look(broker, stacks, seconds, "--format", "raw", "--full-filenames")
        used, answered = broker.cpu_seconds() - cpu, sum(counts[before:])
        seen = Counter[str]()
        for line in stacks.read_text().splitlines():
            stack, _, times = line.rpartition(" ")
            seen[part_of(stack.split(";"))] += int(times)
    return Look(used / answered * 1e6, {part: seen[part] / seen.total() for part in PARTS})


def part_of(stack: Sequence[str]) -> str:
    """Return the part of the broker that a stack is in, the outermost function first.

    What log messages have others do is theirs.
    """
    if any(piece in each for each in stack for piece in PARTS["log messages"]):
        return "log messages"
    for each in reversed(stack):
        for part, pieces in PARTS.items():
            if any(piece in each for piece in pieces):
                return part
    return "handlers and others"


@contextmanager
def asked(name: str) -> Iterator[tuple[MeasuredBroker, list[int]]]:
    """Give a broker that is asked all the while, and a list to which each round adds its answers' number."""
    counts: list[int] = []
    with tempfile.TemporaryDirectory(prefix="kohort-flames-") as folder:
        broker = MeasuredBroker(Path(folder))
        try:
            ask, ends = PATHS[name](broker), threading.Event()
            asking = threading.Thread(target=until, args=(ask, ends, counts), daemon=True)
            asking.start()
            try:
                yield broker, counts
            finally:
                ends.set()
                asking.join()
        finally:
            broker.close()


def look(broker: MeasuredBroker, path: Path, seconds: float, *options: str) -> None:
    """Let py-spy write its samples to a file."""
    command = [spy(), "record", "--pid", str(broker.process.pid), "--output", str(path), *options]
    command += ["--duration", str(int(seconds)), "--rate", str(RATE)]
    subprocess.run(command, check=True, stdout=sys.stderr)


def until(ask: Ask, ends: threading.Event, counts: list[int]) -> None:
    """Ask again and again."""
    while not ends.is_set():
        counts.append(len(ask()))


def spy() -> str:
    """Return py-spy's command. Raises: SystemExit where it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        sys.exit("py-spy is not installed: .venv/bin/pip install py-spy")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Record the requested paths, and print the location of the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAME,NAME", default=",".join(PATHS))
    parser.add_argument("--old", metavar="REV", help="a commit to look at as well")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--write", action="store_true", help="write docs/performance.md, and its pictures")
    options = parser.parse_args(argv)
    FLAMES.mkdir(parents=True, exist_ok=True)
    spy()
    versions = {history.revision(): history.ROOT}
    if options.old:
        folder = history.version(options.old)
        versions = {folder.name: folder, **versions}
    load = history.load_average()
    looks: dict[str, dict[str, Look]] = {name: {} for name in options.only.split(",")}
    for version, folder in versions.items():
        os.environ.update(history.environment(folder))
        for name, found in looks.items():
            drawn = record(name, version, options.seconds)
            print(drawn)
            if options.write:
                age = "before" if len(versions) > 1 and not found else "now"
                titled = TITLE.sub(rf"\g<1>{name}, {version}", drawn.read_text(encoding="utf-8"))
                (history.PICTURES / f"flames-{name}-{age}.svg").write_text(titled, encoding="utf-8")
                found[version] = shared(name, options.seconds)
    if options.write:
        history.write_part("flames", page(looks, load))
    return 0


def page(looks: dict[str, dict[str, Look]], load: float) -> Iterator[str]:
    """Yield the lines of docs/performance.md."""
    where = history.described({"date": history.now(), "machine": history.machine()})
    yield f"{where}. The load before it was {load:.1f}. Microseconds of CPU"
    yield "for each request, or for each group of a member that is formed, by the part of the broker."
    yield ""
    yield "| | version | in all | " + " | ".join(PARTS) + " |"
    yield "| --- | --- |" + " ---: |" * (1 + len(PARTS))
    for name, found in looks.items():
        for age, (version, seen) in zip(("before", "now")[-len(found) :], found.items(), strict=True):
            parts = " | ".join(f"{seen.cpu_us * seen.shares[part]:.1f}" for part in PARTS)
            title = f"[{name.replace('-', ' ')}](pictures/flames-{name}-{age}.svg)"
            yield f"| {title} | `{version}` | {seen.cpu_us:.1f} | {parts} |"


if __name__ == "__main__":
    sys.exit(main())
