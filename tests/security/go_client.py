"""franz-go, by a program of ours in Go: built once, and kept in the user's cache folder."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.kafka_tools import cache_folder, digest

SOURCES = Path(__file__).parent / "go"
GO_ELSEWHERE = "/usr/local/go/bin"  # Where Go's own archive puts it.
BUILD_SECONDS_MAX = 600
RUN_SECONDS = 15


class NoGo(Exception):
    """There is no Go, or its modules are not to be had; says which."""


class Refused(Exception):
    """The program has ended without its records; says what franz-go said."""


def program() -> Path:
    """Return the program, built if need be. Raises: NoGo."""
    name = "-".join(digest(SOURCES / each) for each in ("main.go", "go.mod"))
    folder = cache_folder() / f"franz-go-{name}"
    built = folder / "secured"
    if built.exists():
        return built
    go = shutil.which("go", path=os.pathsep.join((os.environ.get("PATH", ""), GO_ELSEWHERE)))
    if go is None:
        raise NoGo("there is no Go to build franz-go's program with")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Test processes that come together build it once.
        if not built.exists():
            new = folder / "secured.new"
            done = subprocess.run(
                [go, "build", "-o", str(new), "."],
                cwd=SOURCES,
                capture_output=True,
                text=True,
                timeout=BUILD_SECONDS_MAX,
                check=False,
            )
            if done.returncode:
                raise NoGo(f"franz-go's program was not built: {done.stderr.strip()[-300:]}")
            new.rename(built)
    return built


def written_and_read(bootstrap: str, topic: str, count: int, **options: Any) -> list[bytes]:
    """Return what franz-go reads of what it has written. Raises: Refused, NoGo."""
    given = {"Bootstrap": bootstrap, "Topic": topic, "Count": count, "Seconds": RUN_SECONDS, **options}
    done = subprocess.run(
        [program()],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=2 * RUN_SECONDS,
        check=False,
    )
    if done.returncode:
        raise Refused(done.stderr.strip())
    return [line.encode() for line in done.stdout.splitlines()]
