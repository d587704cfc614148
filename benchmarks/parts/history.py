"""The results of benchmark runs, a JSON line each, and the parts of docs/performance.md that show them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.rooms import ROOMS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "history"
PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"
VERSIONS = ROOT / "build" / "versions"


def machine() -> dict[str, object]:
    """Return what the figures depend on: the machine."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def revision() -> str:
    """Return the commit that is checked out, with a plus where something was changed since."""
    try:
        head = _git("-C", str(ROOT), "rev-parse", "--short=10", "HEAD")
    except (OSError, subprocess.CalledProcessError):  # Sources without their history.
        return "unknown"
    changed = _git("-C", str(ROOT), "status", "--porcelain", "--", *ROOMS)
    return head + ("+" if changed else "")


def version(name: str) -> Path:
    """Return a folder with that commit of the project, created if missing, and named after it."""
    commit = _git("-C", str(ROOT), "rev-parse", "--short=10", f"{name}^{{commit}}")
    folder = VERSIONS / commit
    if not folder.exists():
        folder.mkdir(parents=True)
        # An older version lacks the rooms that were added since, and git refuses their names.
        rooms = _git("-C", str(ROOT), "ls-tree", "--name-only", commit, "--", *ROOMS).split()
        packed = subprocess.run(
            ("git", "-C", str(ROOT), "archive", commit, *rooms), check=True, capture_output=True
        )
        subprocess.run(("tar", "-x", "-C", str(folder)), check=True, input=packed.stdout)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the variables with which this interpreter takes kohort from a checkout."""
    paths = os.pathsep.join(str(folder / each) for each in ROOMS)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": paths}


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), check=True, capture_output=True, text=True).stdout.strip()


def load_average() -> float:
    """Return how many processes wanted a core during the last minute, this one among them."""
    return os.getloadavg()[0]


def now() -> str:
    """Return the minute, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime())


def append(name: str, run: dict[str, Any]) -> None:
    """Note a run, with date, machine and the load before it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    noted = {"date": now(), "machine": machine(), **run}
    with (FOLDER / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(noted) + "\n")


def runs(name: str) -> list[dict[str, Any]]:
    """Return the recorded runs, oldest first."""
    path = FOLDER / f"{name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_part(name: str, lines: Iterable[str], page: Path = PAGE) -> None:
    """Put lines between a page's two marks of that name.

    Raises: SystemExit where the page has no such marks.
    """
    begin, end = f"<!-- {name}: written by benchmarks/{name}.py -->", f"<!-- {name}: end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin + "\n")
    _, ends, after = rest.partition(end)
    if not found or not ends:
        sys.exit(f"{page.name} has no part {begin!r} ... {end!r}")
    body = "\n".join(lines).strip("\n")
    page.write_text(f"{before}{begin}\n\n{body}\n\n{end}{after}", encoding="utf-8")


def described(run: dict[str, Any]) -> str:
    """Return place and time of a run, in the words of a sentence."""
    where = run["machine"]
    return (
        f"{run['date']}, {where['cores']} cores of {where['processor']}, {where['memory_gib']} GiB, "
        f"Linux {where['kernel']}, Python {where['python']}"
    )
