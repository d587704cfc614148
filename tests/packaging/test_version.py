"""One place has the version, and `make version` cuts the changelog."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kohort.client
from tests.packaging.scripts import load_script

ROOT = Path(__file__).parents[2]
OLDER = "## [7.1.0] - 2026-11-01\n\n### Added\n- Zero.\n"
CHANGES = f"# Changelog\n\n## [Unreleased]\n\n### Added\n- One.\n\n{OLDER}"


@pytest.fixture
def tool() -> ModuleType:
    return load_script("deploy/version.py")


def test_a_wheel_gets_the_version_that_clients_send() -> None:
    command = [sys.executable, "-m", "hatchling", "metadata", "version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == kohort.client.__version__


def test_no_other_file_states_the_version() -> None:
    quoted = f'"{kohort.client.__version__}"'
    command = [
        "git",
        "grep",
        "--files-with-matches",
        "--fixed-strings",
        quoted,
        "--",
        "*.py",
        "*.toml",
        "*.yaml",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["client/kohort/client/versions.py"]


def test_a_release_gets_what_was_unreleased(tool: ModuleType) -> None:
    assert tool.cut(CHANGES, "7.2.0", "2026-11-27") == (
        f"# Changelog\n\n## [Unreleased]\n\n## [7.2.0] - 2026-11-27\n\n### Added\n- One.\n\n{OLDER}"
    )
    with pytest.raises(ValueError, match="nothing under Unreleased"):
        tool.cut(tool.cut(CHANGES, "7.2.0", "2026-11-27"), "7.3.0", "2026-11-28")


@pytest.mark.parametrize("wrong", ["", "7.2", "v7.2.0", "7.2.0-beta", "7.1.0", "7.0.9", "6.10.0", "7.1.0rc1"])
def test_a_wrong_version_changes_nothing(tool: ModuleType, wrong: str) -> None:
    text = 'x = 1\n__version__ = "7.1.0"  # Here.\n'
    with pytest.raises(ValueError, match="version"):
        tool.with_version(text, wrong)
    for newer in ("7.2.0", "7.1.1rc1", "7.10.0"):
        assert tool.with_version(text, newer) == f'x = 1\n__version__ = "{newer}"  # Here.\n'
    assert "7.1.0" in tool.with_version('__version__ = "7.1.0rc2"\n', "7.1.0")
