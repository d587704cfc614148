"""The frame: what make and CI run, and nothing in it that belongs to one machine."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_ci_calls_the_same_targets_as_people_do() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert "make check" in text
    assert text.index("make check") < text.index("\ntests test")
    subprocess.run(["bash", "-n", script], check=True)


def test_ci_ends_within_an_hour_with_the_line_of_a_test_runner() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (end_s,) = re.findall(r"^END=(\d+)", text, re.MULTILINE)
    (grace_s,) = re.findall(r"--kill-after=(\d+)", text)
    assert int(end_s) + int(grace_s) <= 60 * 60
    assert re.findall(r"^tests (\S+)", text, re.MULTILINE) == ["test-spark", "test-system"]
    assert text.endswith('\nexit "$status"\n')


def test_ci_continues_after_a_failed_step_and_returns_its_status(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    git = tmp_path / "git"
    git.write_text('#!/bin/sh\nmkdir "$4"\n')
    git.chmod(0o755)
    for failing, status in (("test-spark", 1), ("check", 1), ("demo", 1), ("test", 1), ("", 0)):
        make = tmp_path / "make"
        make.write_text(f'#!/bin/sh\necho "$1"\n[ "$1" != \'{failing}\' ]\n')
        make.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(
            [tmp_path / ".ci" / "run"],
            capture_output=True, text=True, check=False, env={**os.environ, "PATH": path},
        )  # fmt: skip
        assert done.returncode == status
        assert done.stdout.split() == [
            "demo", "test", "venv", ".venv/.installed-spark", "check", "budget", "compiled", "image", "sim",
            "sim-cluster", "sim-replicas", "sim-whole", "test-spark", "test-system",
        ]  # fmt: skip


def dry_run(*arguments: str) -> str:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    # As in a fresh clone: nothing is installed yet.
    command = [make, "--dry-run", "VENV=/nowhere/.venv", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("target", ["demo", "test", "check", "sim", "sim-cluster", "interop", "crash"])
def test_spark_is_installed_only_on_request(target: str) -> None:
    assert "--group spark" not in dry_run(target)
    assert "--group spark" in dry_run("test-spark")
    assert "--group spark" in dry_run("test", "TESTS=tests/spark/test_read.py")


def test_every_test_is_run_by_one_of_three_targets() -> None:
    here, system, spark = (
        re.findall(r"pytest .*", dry_run(each))[0].split() for each in ("test", "test-system", "test-spark")
    )
    left_out = [each.removeprefix("--ignore=") for each in here if each.startswith("--ignore=")]
    named = [each for each in (*system, *spark) if (ROOT / each).is_dir()]
    assert left_out == named
    assert {"tests/cluster", "tests/spark"} < set(named)


@pytest.mark.parametrize(
    "target",
    [
        "demo",
        "test",
        "test-system",
        "test-spark",
        "nightly",
        "check",
        "budget",
        "interop",
        "bench",
        "bench-peers",
        "flames",
        "fuzz",
        "docs",
        "wheel",
        "clean",
    ],
)
def test_every_target_can_be_planned(target: str) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    subprocess.run([make, "--dry-run", target], cwd=ROOT, check=True, capture_output=True)


def test_every_dependency_is_pinned_once() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    pins = [line.partition(" --hash=")[0].strip() for line in lines if line and not line.startswith("#")]
    assert all(re.match(r"[a-z0-9][a-z0-9.-]*==\S+( ; .+)?$", pin) for pin in pins)
    pinned = {pin.partition("==")[0] for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    # Names as the index normalizes them (PEP 503).
    names = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~ ]", each)[0]).lower() for each in wanted}
    assert names | {"hatchling", "pip"} <= pinned


def test_no_tracked_file_names_a_machine_or_a_package_index() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    words = "|".join(
        ["/" + "work/", "/" + "root/", "index-" + "url", "pypi" + r"\.org", "repo1" + r"\.maven"]
    )
    found = subprocess.run(
        ["git", "grep", "-nE", words, "--", "*.py", "*.toml", "*.txt", "*.md", "*.yml", "*.xml", "Makefile",
         "Dockerfile", ".ci"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.stdout == ""
