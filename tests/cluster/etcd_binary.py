"""Where an etcd is: on PATH, or built once from its Go module; half a minute, then kept in the user's cache.

python -m tests.cluster.etcd_binary      prints its path, or says on standard error why there is none
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "3.6.5"
BUILD_SECONDS_MAX = 400
_GO_MOD = f"module kohort/etcd\n\ngo 1.24.0\n\nrequire go.etcd.io/etcd/server/v3 v{VERSION}\n"
_MAIN_GO = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


class NoEtcd(Exception):
    """There is no etcd here, and none can be built; the message says why."""


def etcd_binary() -> Path:
    """Return the program. Raises: NoEtcd."""
    found = shutil.which("etcd")
    if found is not None:
        return Path(found)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return _built(cache / "kohort" / f"etcd-{VERSION}")


def _built(folder: Path) -> Path:
    """Return the program that is kept in the folder, built if it is not there. Raises: NoEtcd."""
    program = folder / "etcd"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise NoEtcd("there is no etcd: install Debian's etcd-server, or Go to build one with")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Test processes that come together build it once.
        if not program.exists():
            (folder / "go.mod").write_text(_GO_MOD)
            (folder / "main.go").write_text(_MAIN_GO)
            _run(folder, go, "mod", "tidy")
            _run(folder, go, "build", "-o", "etcd.new", ".")
            (folder / "etcd.new").rename(program)
    return program


def _run(folder: Path, *command: str) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise NoEtcd(f"etcd can't be built from its Go module: {last}") from error
    except subprocess.TimeoutExpired as error:
        raise NoEtcd("etcd was not built in time") from error


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{etcd_binary()}\n")
    except NoEtcd as reason:
        sys.exit(str(reason))
