"""The wheel: what a user's site-packages gets, and no more."""

import subprocess
import sys
import venv
from configparser import ConfigParser
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PORTIONS = {"protocol", "storage", "broker", "client", "queues", "pipeline", "cli", "testing"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("kohort-*.whl")
    return built


@pytest.fixture
def names(wheel: Path) -> list[str]:
    with ZipFile(wheel) as archive:
        return archive.namelist()


def test_site_packages_gets_one_name(names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kohort"}


def test_all_portions_are_in_and_none_hides_the_others(names: list[str]) -> None:
    assert {name.split("/")[1] for name in names if name.startswith("kohort/")} == PORTIONS
    assert "kohort/__init__.py" not in names
    for portion in PORTIONS:
        assert f"kohort/{portion}/__init__.py" in names
        assert f"kohort/{portion}/py.typed" in names


def test_no_test_is_in(names: list[str]) -> None:
    assert not [name for name in names if "/test_" in name or name.endswith(("conftest.py", ".java"))]


def test_every_module_of_the_source_is_in(names: list[str]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*/kohort/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = {path.partition("/")[2] for path in listed.stdout.split()}
    assert {module for module in modules if "/test_" not in module} <= set(names)


def test_the_wheel_names_its_command_and_licence(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        commands = ConfigParser()
        commands.read_string(archive.read(entry_points).decode())
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert dict(commands["console_scripts"]) == {"kohort": "kohort.cli.main:main"}


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """Return the python of an environment that has the wheel and, from ours, what it depends on."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    own = Path(found.stdout.strip())
    with ZipFile(wheel) as archive:
        archive.extractall(own)
    ours = Path(pytest.__file__).parents[1]
    for each in ours.iterdir():
        if each.suffix != ".pth" and "kohort" not in each.name and not (own / each.name).exists():
            (own / each.name).symlink_to(each)
    return python


def test_the_command_runs_from_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    script = "import sys; from kohort.cli.main import main; sys.argv = ['kohort', '--help']; sys.exit(main())"
    shown = subprocess.run(
        [installed, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert "serve" in shown.stdout
