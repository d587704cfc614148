"""Flame graphs of the broker's hot paths, by py-spy, as SVG files in build/flames.

    make flames                                           # every path; installs py-spy
    python benchmarks/flames.py --only commits --old REV  # of an older commit, beside it

A broker in a process is asked the same for some seconds (`parts/raw_client.py`), while py-spy looks at its
stack 500 times a second. What a file shows is where its CPU time goes: a stack that waits is left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.growth import Broker, create, formed
from benchmarks.parts import conversations as say
from benchmarks.parts import history
from benchmarks.parts.in_process import frame

FLAMES = history.ROOT / "build" / "flames"
SECONDS = 8
RATE = 500
DEPTH = 16
GROUPS = 16
AT_ONCE = 20


def commits(broker: Broker) -> Callable[[], object]:
    """Commits of groups without members, 16 under way."""
    (topic,) = create(broker, ["flames"])
    requests = [frame(say.commit(f"group-{number}", topic)) for number in range(GROUPS)]
    return lambda: broker.answers(requests)


def offset_fetches(broker: Broker) -> Callable[[], object]:
    """Offset fetches, 16 under way."""
    commits(broker)()
    requests = [frame(say.offset_fetch(f"group-{number}", "flames")) for number in range(GROUPS)]
    return lambda: broker.answers(requests)


def heartbeats(broker: Broker) -> Callable[[], object]:
    """Heartbeats of 16 groups' members."""
    beats = [
        frame(say.heartbeat(*each))
        for each in formed(broker, [f"group-{number}" for number in range(GROUPS)])
    ]
    return lambda: broker.answers(beats)


def groups(broker: Broker) -> Callable[[], object]:
    """Groups of a member that are formed, 20 at a time."""
    numbers = iter(range(10_000_000))

    def form() -> None:
        list(formed(broker, [f"group-{next(numbers)}" for _ in range(AT_ONCE)]))

    form()
    return form


def produces(broker: Broker) -> Callable[[], object]:
    """Single records, 16 under way."""
    (topic,) = create(broker, ["flames"])
    requests = [frame(say.produce(topic, timestamp_ms=int(time.time() * 1_000)))] * DEPTH
    return lambda: broker.answers(requests)


PATHS: dict[str, Callable[[Broker], Callable[[], object]]] = {
    "heartbeats": heartbeats,
    "groups": groups,
    "commits": commits,
    "offset-fetches": offset_fetches,
    "produces": produces,
}


def record(name: str, version: str, seconds: float) -> Path:
    """Return the file with a path's flame graph."""
    path = FLAMES / f"{name}-{version}.svg"
    with tempfile.TemporaryDirectory(prefix="kohort-flames-") as folder:
        broker = Broker(Path(folder))
        try:
            ask = PATHS[name](broker)
            ends = threading.Event()
            asking = threading.Thread(target=until, args=(ask, ends), daemon=True)
            asking.start()
            command = [spy(), "record", "--pid", str(broker.process.pid), "--output", str(path)]
            command += ["--duration", str(int(seconds)), "--rate", str(RATE), "--nonblocking"]
            subprocess.run(command, check=True, stdout=sys.stderr)
            ends.set()
            asking.join()
        finally:
            broker.close()
    return path


def until(ask: Callable[[], object], ends: threading.Event) -> None:
    """Ask again and again."""
    while not ends.is_set():
        ask()


def spy() -> str:
    """Return py-spy's command. Raises: SystemExit where it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        sys.exit("py-spy is not installed: .venv/bin/pip install py-spy")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Record what is asked for, and print where it lies."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAME,NAME", default=",".join(PATHS))
    parser.add_argument("--old", metavar="REV", help="a commit to look at as well")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args(argv)
    FLAMES.mkdir(parents=True, exist_ok=True)
    spy()
    versions = {history.revision(): history.ROOT}
    if options.old:
        folder = history.version(options.old)
        versions[folder.name] = folder
    for version, folder in versions.items():
        os.environ.update(history.environment(folder))
        for name in options.only.split(","):
            print(record(name, version, options.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
