"""What a nightly run covers, and how it tells what came of it."""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import time
from pathlib import Path

import pytest

from tests import nightly
from tests.nightly import REPEATED, STEPS, Step, play
from tests.rooms import ROOMS

ROOT = Path(__file__).parents[2]
CODE = (*ROOMS, "tests")
SWITCH = re.compile(r"KOHORT_TEST_[A-Z_]+")
NAMES = re.compile(r"^([a-z-]+):", re.MULTILINE)
"""The folders with code of ours."""


@pytest.fixture(autouse=True)
def own_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nightly, "LOGS", tmp_path / "logs")


def python(text: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(text)}"


def test_every_switch_read_by_tests_is_set_by_a_step() -> None:
    files = [path for room in CODE for path in (ROOT / room).rglob("*.py") if path != Path(nightly.__file__)]
    looked_at = {name for path in files for name in SWITCH.findall(path.read_text(encoding="utf-8"))}
    assert looked_at == {name for step in STEPS for name in step.settings if SWITCH.fullmatch(name)}


def test_tests_with_more_repetitions_by_night_run_by_night() -> None:
    asking = {
        path.relative_to(ROOT).as_posix()
        for room in CODE
        for path in (ROOT / room).rglob("test_*.py")
        if "import repetitions" in path.read_text(encoding="utf-8") and path != Path(__file__)
    }
    assert asking == set(REPEATED)


def test_no_step_runs_twice() -> None:
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_every_step_is_a_target_or_a_path_that_exists() -> None:
    targets = set(NAMES.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    for step in STEPS:
        program, *words = shlex.split(step.command)
        if program == "make":
            assert words[0] in targets, step.name
        else:
            paths = [each for each in words if each.startswith("tests/")]
            assert all((ROOT / each).exists() for each in paths), step.name


def test_long_targets_are_all_among_the_steps() -> None:
    commands = {step.command.split()[1] for step in STEPS if step.command.startswith("make ")}
    assert {
        "sim",
        "sim-cluster",
        "crash",
        "kills",
        "mutants",
        "large",
        "fuzz",
        "fuzz-broker",
        "interop",
        "spark",
    } <= commands


def test_a_failing_or_slow_step_does_not_stop_the_others_and_fails_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nightly, "GRACE_S", 5.0)
    steps = (
        Step("red", python("print('what went wrong'); raise SystemExit(3)"), 1),
        Step("slow", python("import time; time.sleep(60)"), 0),
        Step(
            "green",
            python("import os; print('====', os.environ['ROUNDS'], 'passed ====')"),
            1,
            {"ROUNDS": "5"},
        ),
    )
    out = io.StringIO()
    assert play(steps, out) == 1
    *_, red, slow, green = out.getvalue().splitlines()
    assert re.fullmatch(r"red    failed     +0\.0 min  what went wrong", red)
    assert re.match(r"slow   too long ", slow)
    assert re.fullmatch(r"green  passed     +0\.0 min  5 passed", green)
    assert "    what went wrong\n" in out.getvalue()
    assert play(steps[2:], io.StringIO()) == 0


def test_arguments_of_make_nightly_are_not_passed_to_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARGS", "ONLY", "MAKEFLAGS"):
        monkeypatch.setenv(name, "--list")
    monkeypatch.setenv("SEED", "7")
    given = nightly.environment(Step("any", "true", 1, {"ROUNDS": "5"}))
    assert (given["SEED"], given["ROUNDS"]) == ("7", "5")
    assert {"ARGS", "ONLY", "MAKEFLAGS"}.isdisjoint(given)


def test_processes_started_by_a_step_are_ended(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    child = "[sys.executable, '-c', 'import time; time.sleep(60)']"
    sleeper = f"import subprocess, sys; open({{!r}}, 'w').write(str(subprocess.Popen({child}).pid))"
    assert play([Step("parent", python(sleeper.format(str(file))), 1)], io.StringIO()) == 0
    pid, deadline_s = int(file.read_text()), time.monotonic() + 10
    while time.monotonic() < deadline_s and _is_alive(pid):
        time.sleep(0.01)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_an_unknown_step_is_answered_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        nightly.main(["sleep"])
    assert "there is no step 'sleep', but applications, attacks, busy, " in capsys.readouterr().err
    assert nightly.main(["--list", "busy"]) == 0
    assert "KOHORT_TEST_BUSY=1" in capsys.readouterr().out
