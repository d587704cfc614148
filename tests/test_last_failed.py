"""A change lands where what fails among others passes alone: `.ci/run` is tried with a `make` of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.last_failed import last_failed

ROOT = Path(__file__).parents[1]

pytest_plugins = ["pytester"]

MAKE = """#!/bin/sh
echo "make $*" >>calls
case "$1" in test) eval "$TEST" ;; again) eval "$AGAIN" ;; esac
"""
PYTHON = """#!/bin/sh
test -s .pytest_cache/v/cache/lastfailed && cat .pytest_cache/v/cache/lastfailed
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(folder: Path, *, test: str, again: str = "true") -> tuple[int, str, list[str]]:
    """Run `.ci/run`, whose steps do what is given: its status, what it says, what it calls."""
    write(folder / ".ci" / "run", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    write(folder / "bin" / "make", MAKE)
    write(folder / ".venv" / "bin" / "python", PYTHON)
    (folder / ".pytest_cache" / "v" / "cache").mkdir(parents=True, exist_ok=True)
    environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TEST": test, "AGAIN": again}
    done = subprocess.run(
        [folder / ".ci" / "run"], check=False, env=environment, capture_output=True, text=True, timeout=60
    )
    calls = (folder / "calls").read_text(encoding="utf-8").splitlines()
    return done.returncode, done.stderr, calls


def failing(*tests: str) -> str:
    lines = "\\n".join(tests)
    return f"printf '{lines}\\n' >.pytest_cache/v/cache/lastfailed; false"


def test_where_all_pass_nothing_is_run_again(tmp_path: Path) -> None:
    status, said, calls = run(tmp_path, test="true")
    assert (status, said) == (0, "")
    assert calls[-3:] == ["make test-spark", "make test-system", "make test"]


def test_what_fails_once_is_named_and_run_again_alone(tmp_path: Path) -> None:
    status, said, calls = run(tmp_path, test=failing("tests/a.py::one", "tests/b.py::two"))
    assert status == 0
    assert "run again alone:\ntests/a.py::one\ntests/b.py::two\n" in said
    assert calls[-2:] == ["make test", "make again"]


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    assert run(tmp_path, test=failing("tests/a.py::one"), again="false")[0] == 1


def test_many_that_fail_are_no_accident(tmp_path: Path) -> None:
    status, said, calls = run(tmp_path, test=failing(*(f"tests/a.py::{number}" for number in range(11))))
    assert status == 1
    assert "11 tests of test failed" in said
    assert calls[-1] == "make test"


def test_a_run_that_breaks_off_without_saying_who_failed_has_failed(tmp_path: Path) -> None:
    status, _, calls = run(tmp_path, test="false")
    assert (status, calls[-1]) == (1, "make test")


def test_pytest_keeps_who_failed(pytester: pytest.Pytester) -> None:
    path = pytester.path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    assert last_failed(path) == []
    pytester.makepyfile(test_it="def test_good(): pass\ndef test_bad(): assert False")
    pytester.runpytest_inprocess("-p", "no:xdist").assert_outcomes(passed=1, failed=1)
    assert last_failed(path) == ["test_it.py::test_bad"]
