"""A change lands where what fails among others passes alone: `.ci/run` is tried with a `make` of its own."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.last_failed import last_failed

ROOT = Path(__file__).parents[1]
HANGING_TEST = """
import threading

def linger():
    threading.Event().wait()

def test_that_hangs():
    threading.Thread(target=linger, daemon=True).start()
    threading.Event().wait()

def test_that_never_runs():
    pass
"""

pytest_plugins = ["pytester"]

MAKE = """#!/bin/sh
echo "make $* in $(basename "$PWD")" >>"$CALLS"
case "$*" in test) eval "$TEST" ;; *--last-failed) eval "$REST" ;; again) eval "$AGAIN" ;; esac
"""
GIT = """#!/bin/sh
mkdir "$4" && cp -r .venv .pytest_cache "$4"
"""
PYTHON = """#!/bin/sh
test -s .pytest_cache/v/cache/lastfailed && cat .pytest_cache/v/cache/lastfailed
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(folder: Path, *, test: str, rest: str = "true", again: str = "true") -> tuple[int, str, list[str]]:
    """Run `.ci/run`, whose steps do what is given: its status, what it says, what it calls."""
    write(folder / ".ci" / "run", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    write(folder / "bin" / "make", MAKE)
    write(folder / "bin" / "git", GIT)
    write(folder / ".venv" / "bin" / "python", PYTHON)
    (folder / ".pytest_cache" / "v" / "cache").mkdir(parents=True, exist_ok=True)
    environment = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "TEST": test,
        "REST": rest,
        "AGAIN": again,
    }
    done = subprocess.run(
        [folder / ".ci" / "run"], check=False, env=environment, capture_output=True, text=True, timeout=60
    )
    calls = (folder / "calls").read_text(encoding="utf-8").replace(f" in {folder.name}\n", "\n").splitlines()
    return done.returncode, done.stderr, calls


def failing(*tests: str) -> str:
    lines = "\\n".join(tests)
    return f"printf '{lines}\\n' >.pytest_cache/v/cache/lastfailed; false"


def test_readme_commands_run_first_each_in_a_clone_of_its_own(tmp_path: Path) -> None:
    status, said, calls = run(tmp_path, test="true")
    assert status == 0
    first, *took = re.sub(r"^[0-9]+ s", "some s", said, flags=re.MULTILINE).splitlines()
    assert first == ".ci/run: steps took:"
    assert took == [f"some s, status 0: {each.partition(' in ')[0]}" for each in calls]
    assert calls[:3] == ["make demo in demo", "make test in test", "make venv"]
    assert calls[-2:] == ["make test-spark", "make test-system"]
    assert "make demo     #" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make test     #" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_test_that_fails_once_is_run_again_alone_and_named_at_the_end(tmp_path: Path) -> None:
    status, said, calls = run(tmp_path, test=failing("tests/a.py::one", "tests/b.py::two"))
    assert status == 0
    assert said.count("run again alone:\ntests/a.py::one\ntests/b.py::two\n") == 2
    assert calls[1:3] == ["make test in test", "make again in test"]


def test_a_test_that_fails_twice_has_failed(tmp_path: Path) -> None:
    assert run(tmp_path, test=failing("tests/a.py::one"), again="false")[0] == 1


CRASH = "printf '[\"tests/a.py::hangs\"]' >.pytest_cache/v/cache/crashed; "


def test_where_a_worker_crashed_the_rest_is_run_beside_one_another(tmp_path: Path) -> None:
    many = failing(*(f"tests/a.py::{number}" for number in range(1_000)))
    status, said, calls = run(tmp_path, test=CRASH + many)
    assert status == 0
    assert said.count('"tests/a.py::hangs"') == 2
    assert calls[1:4] == ["make test in test", "make test ARGS=--last-failed in test", "make venv"]


def test_a_test_that_fails_after_a_crash_is_run_again_alone(tmp_path: Path) -> None:
    rest = failing("tests/a.py::hangs")
    status, _, calls = run(tmp_path / "once", test=CRASH + rest, rest=rest)
    assert status == 0
    assert calls[2:4] == ["make test ARGS=--last-failed in test", "make again in test"]
    assert run(tmp_path / "twice", test=CRASH + rest, rest=rest, again="false")[0] == 1


def test_many_that_fail_are_no_accident(tmp_path: Path) -> None:
    status, said, calls = run(tmp_path, test=failing(*(f"tests/a.py::{number}" for number in range(11))))
    assert status == 1
    assert "11 tests of test failed" in said
    assert not any(each.startswith("make again") for each in calls)


def test_a_run_that_breaks_off_without_naming_failures_has_failed(tmp_path: Path) -> None:
    status, _, calls = run(tmp_path, test="false")
    assert status == 1
    assert not any(each.startswith("make again") for each in calls)


def test_pytest_stores_the_failed_tests(pytester: pytest.Pytester) -> None:
    path = pytester.path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    assert last_failed(path) == []
    pytester.makepyfile(test_it="def test_good(): pass\ndef test_bad(): assert False")
    pytester.runpytest_inprocess("-p", "no:xdist").assert_outcomes(passed=1, failed=1)
    assert last_failed(path) == ["test_it.py::test_bad"]


def options_of_make(seconds: int = 1) -> list[str]:
    """Return the options that `make test` gives pytest, for one worker, and with that patience for a test."""
    shown = ["make", "--dry-run", "test", "WORKERS=1", "TESTS=none", "ARGS="]
    said = subprocess.run(shown, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    command = next(each for each in said.splitlines() if " -m pytest " in each)
    options = command.partition(" -m pytest ")[2].removesuffix(" none")
    return shlex.split(options.replace("faulthandler_timeout=300", f"faulthandler_timeout={seconds}"))


FAILING_HOOK = """
import os

def pytest_runtest_logfinish(nodeid):
    if "PYTEST_XDIST_WORKER" in os.environ:
        raise OSError("disk full")
"""
INTERRUPTED_WORKER = """
import os, signal

def test_that_interrupts_its_worker():
    os.kill(os.getpid(), signal.SIGINT)

def test_that_never_runs():
    pass
"""


@pytest.mark.parametrize(
    ("hook", "tests"),
    [(FAILING_HOOK, "def test_one(): pass\ndef test_that_never_runs(): pass"), ("", INTERRUPTED_WORKER)],
    ids=["error", "interrupt"],
)
def test_tests_that_a_worker_did_not_reach_have_failed_whatever_ended_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, hook: str, tests: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(hook)
    pytester.makepyfile(test_it=tests)
    done = pytester.runpytest_subprocess(*options_of_make(seconds=300), "-p", "tests.not_run", timeout=120)
    assert done.ret not in {0, 1}
    path = pytester.path / ".pytest_cache" / "v" / "cache"
    assert "test_it.py::test_that_never_runs" in last_failed(path / "lastfailed")
    assert (path / "crashed").exists()


def test_who_stops_at_the_first_failure_has_no_tests_that_failed_behind_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_it="def test_bad(): assert False\ndef test_behind(): pass")
    pytester.runpytest_subprocess(*options_of_make(seconds=300), "-x", "-p", "tests.not_run", timeout=120)
    path = pytester.path / ".pytest_cache" / "v" / "cache"
    assert last_failed(path / "lastfailed") == ["test_it.py::test_bad"]
    assert not (path / "crashed").exists()


def test_a_test_that_hangs_ends_the_run_and_what_has_not_run_has_failed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_it=HANGING_TEST)
    done = pytester.runpytest_subprocess(*options_of_make(), "-p", "tests.not_run", timeout=120)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["worker 'gw0' crashed while running 'test_it.py::test_that_hangs'"])
    done.stdout.fnmatch_lines(["a worker crashed: 1 tests did not run and count as failed"])
    assert json.loads((pytester.path / ".pytest_cache/v/cache/crashed").read_text(encoding="utf-8")) == [
        "test_it.py::test_that_hangs"
    ]
    done.stderr.fnmatch_lines(["Timeout (0:00:01)!", "*in linger", "*in test_that_hangs"])
    path = pytester.path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    assert last_failed(path) == ["test_it.py::test_that_hangs", "test_it.py::test_that_never_runs"]
