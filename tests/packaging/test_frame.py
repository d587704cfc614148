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
    assert text.index("make check") < text.index("make test")
    subprocess.run(["bash", "-n", script], check=True)


@pytest.mark.parametrize(
    "target", ["demo", "test", "check", "interop", "bench", "fuzz", "docs", "wheel", "clean"]
)
def test_every_target_can_be_planned(target: str) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    subprocess.run([make, "--dry-run", target], cwd=ROOT, check=True, capture_output=True)


def test_every_dependency_is_pinned_once() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.match(r"[a-z0-9][a-z0-9.-]*==\S+( ; .+)?$", pin) for pin in pins)
    pinned = {pin.partition("==")[0] for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.split(r"[\[<>=!~ ]", each)[0].lower() for each in wanted}
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
