"""An earlier version of kohort in an environment of its own, built from the history of this repository.

python -m tests.upgrade.old_version [REVISION]      prints the command that serves, or why there is none
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "upgrade"
VARIABLE = "KOHORT_TEST_OLD"
REVISIONS = tuple(os.environ.get(VARIABLE, "8a882831").split())
"""The versions that an upgrade starts from. 8a882831 is a state of 0.1.0 in use."""
INSTALL_SECONDS_MAX = 500
PINS = ("--constraint", "constraints.txt", "--build-constraint", "constraints.txt", "--no-require-hashes")


class NoOldVersion(Exception):
    """The earlier version cannot be installed here; the message says why."""


def old_python(revision: str) -> Path:
    """Return the Python of an environment that has a revision of kohort installed. Raises: NoOldVersion."""
    folder = BUILT / revision
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "installed"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Test processes that come together install it once.
        if not done.exists():
            _install(revision, folder)
            done.touch()
    return folder / "venv" / "bin" / "python"


def _install(revision: str, folder: Path) -> None:
    source, environment = folder / "source", folder / "venv"
    for each in (source, environment):
        shutil.rmtree(each, ignore_errors=True)
    source.mkdir()
    archive = _run(ROOT, "git", "archive", "--format=tar", revision)
    subprocess.run(["tar", "-x"], cwd=source, input=archive, check=True)
    _run(folder, sys.executable, "-m", "venv", "--without-pip", str(environment))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python")
    _run(source, *pip, f"{environment}/bin/python", "install", "--quiet", *PINS, ".[cluster]")


def _run(folder: Path, *command: str) -> bytes:
    try:
        done = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_SECONDS_MAX
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.decode(errors="replace").strip().splitlines() or ["no output"])[-1]
        raise NoOldVersion(f"{' '.join(command[:4])} failed: {last}") from error
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        raise NoOldVersion(str(error)) from error
    return done.stdout


if __name__ == "__main__":
    try:
        for wanted in sys.argv[1:] or REVISIONS:
            sys.stdout.write(f"{old_python(wanted)} -m kohort.broker\n")
    except NoOldVersion as reason:
        sys.exit(str(reason))
