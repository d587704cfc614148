"""The wheel: what a user's site-packages gets, and no more."""

import subprocess
import sys
import venv
from configparser import ConfigParser
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.rooms import PORTIONS

ROOT = Path(__file__).parents[2]
PACKAGES_MOST, MEGABYTES_MOST = 21, 45
PROGRAM = """
from kohort.client import Consumer, Producer
from kohort.testing import Broker

with Broker() as broker:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=broker.bootstrap, compression_type=codec) as producer:
            producer.send("t", codec.encode()).result()
    where = {"bootstrap_servers": broker.bootstrap, "group_id": "g", "auto_offset_reset": "earliest"}
    with Consumer("t", **where) as consumer:
        found = []
        while len(found) < 5:
            found += [each.value for each in consumer.poll(timeout_ms=10_000)]
print(len(set(found)))
"""


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


def test_site_packages_gets_one_top_level_name(names: list[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kohort"}


def test_all_packages_are_included_and_none_hides_the_others(names: list[str]) -> None:
    assert {name.split("/")[1] for name in names if name.startswith("kohort/")} == PORTIONS
    assert "kohort/__init__.py" not in names
    for portion in PORTIONS:
        assert f"kohort/{portion}/__init__.py" in names
        assert f"kohort/{portion}/py.typed" in names


def test_no_test_is_included(names: list[str]) -> None:
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
    tests = {each for each in modules if "/test_" in each or each.endswith("/conftest.py")}
    assert modules - tests <= set(names)


def test_the_wheel_names_its_command_and_licence(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        commands = ConfigParser()
        commands.read_string(archive.read(entry_points).decode())
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    assert dict(commands["console_scripts"]) == {"kohort": "kohort.cli.main:main"}


def unpacked(wheel: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Return the python of an environment that has the wheel alone, and its folder of packages."""
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
    return python, own


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """Return the python of an environment that has the wheel and everything that ours has."""
    python, own = unpacked(wheel, tmp_path)
    ours = Path(pytest.__file__).parents[1]
    for each in ours.iterdir():
        if each.suffix != ".pth" and "kohort" not in each.name and not (own / each.name).exists():
            (own / each.name).symlink_to(each)
    return python


def test_the_command_runs_from_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    script = "import sys; from kohort.cli.main import main; sys.argv = ['kohort', '--help']; sys.exit(main())"
    shown = subprocess.run(
        [installed, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert "serve" in shown.stdout


def needed(name: str) -> dict[str, Distribution]:
    """Return what is installed with a package that is asked for without extras, itself among them."""
    found: dict[str, Distribution] = {}
    missing = [Requirement(name)]
    while missing:
        wanted = missing.pop()
        canonical = canonicalize_name(wanted.name)
        if canonical in found or not (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            continue
        found[canonical] = distribution(canonical)
        missing += map(Requirement, found[canonical].requires or ())
    return found


def files_of(found: Distribution) -> list[PackagePath]:
    """Return the files of a distribution that lie among the packages, without compiled ones."""
    return [each for each in found.files or () if ".." not in each.parts and "__pycache__" not in each.parts]


def test_the_default_install_is_light_and_is_all_that_a_broker_and_its_clients_need(
    wheel: Path, tmp_path: Path
) -> None:
    python, own = unpacked(wheel, tmp_path)
    others = needed("kohort")
    del others["kohort"]
    for each in others.values():
        for file in files_of(each):
            (own / file).parent.mkdir(parents=True, exist_ok=True)
            (own / file).symlink_to(file.locate())
    size_bytes = sum(each.stat().st_size for each in own.rglob("*") if each.is_file())
    assert len(others) + 1 <= PACKAGES_MOST, sorted(others)
    assert size_bytes <= MEGABYTES_MOST * 1_000_000, size_bytes
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [python, "-I", "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
    for words in (["--help"], ["serve", "--help"], ["topics", "list", "-b", "127.0.0.1:1"]):
        command = [python, "-I", "-m", "kohort.cli", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == (1 if "list" in words else 0), done.stderr
        assert "Traceback" not in done.stderr


def test_a_users_first_test_passes_without_a_warning(installed: Path, tmp_path: Path) -> None:
    """pytest looks through the files of a plugin's wheel, and warns of such as have odd places."""
    (tmp_path / "test_first.py").write_text(
        "def test_it(kohort_topic): assert kohort_topic\n", encoding="utf-8"
    )
    command = [
        installed,
        "-I",
        "-m",
        "pytest",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-q",
        "test_first.py",
    ]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "warning" not in shown.stdout
