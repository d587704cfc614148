"""What type checkers make of a user's program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("users_program.py")
PATHS = [str(ROOT / room) for room in ("protocol", "client")]


def test_pyright_is_strict_and_content(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "extraPaths": PATHS, "include": ["program.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="paths are joined by colons")
def test_mypy_is_strict_and_content(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nexplicit_package_bases = true\nnamespace_packages = true\n"
        f"mypy_path = {':'.join(PATHS)}\nfollow_imports = silent\nignore_missing_imports = true\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "program.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout
