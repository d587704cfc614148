"""The image, built without an engine: .dockerignore, each COPY and each RUN are replayed in a folder.

`make image` runs it (KOHORT_TEST_IMAGE=1), and so does CI: compiling takes two minutes. What differs here is
in `in_this_folder`: the paths, the package manager, and the user that the image has.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

from tests.packaging.test_containers import instructions

ROOT = Path(__file__).parents[2]
SLASH = PurePosixPath("/")
WANTED = os.environ.get("KOHORT_TEST_IMAGE", "0") not in ("", "0")


def is_ignored(path: str, patterns: list[str]) -> bool:
    """Return whether .dockerignore leaves a file out: the last pattern for it or a folder above decides."""
    each = PurePosixPath(path)
    names = [str(each), *(str(parent) for parent in each.parents if str(parent) != ".")]
    ignored = False
    for pattern in patterns:
        if any(matches(name, pattern.removeprefix("!")) for name in names):
            ignored = not pattern.startswith("!")
    return ignored


def matches(name: str, pattern: str) -> bool:
    """Return whether a pattern matches this name: `*` within a folder, `**/` over any number of folders."""
    expression = re.escape(pattern.strip("/"))
    for written, meant in ((r"\*\*/", "(?:.*/)?"), (r"\*\*", ".*"), (r"\*", "[^/]*"), (r"\?", "[^/]")):
        expression = expression.replace(written, meant)
    return re.fullmatch(expression, name) is not None


def patterns() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("hatch_build.py", False),
        ("queues/kohort/queues/kmq/markers.py", False),
        ("broker/kohort/broker/group/test_joining.py", True),
        ("tests/packaging/test_image.py", True),
        ("docs/index.md", True),
        (".git/HEAD", True),
        ("client/kohort/client/__pycache__/x.pyc", True),
    ],
)
def test_the_build_context_has_the_sources_and_no_tests(path: str, ignored: bool) -> None:
    assert is_ignored(path, patterns()) == ignored


def test_the_context_has_everything_that_the_build_hook_and_the_project_file_name() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["packages"], project["project"]["readme"], *project["project"]["license-files"]]
    for path in (*needed, "hatch_build.py", "pyproject.toml", "constraints.txt"):
        assert not is_ignored(path, patterns()), path


@dataclass(slots=True)
class Replay:
    """The stages of the Dockerfile as folders below `root`, one after the other."""

    root: Path
    context: Path
    stages: list[Path] = field(default_factory=list)
    names: dict[str, Path] = field(default_factory=dict)
    workdir: PurePosixPath = SLASH

    def run(self) -> Path:
        """Return the folder of the last stage."""
        for name, value in instructions():
            step = getattr(self, f"_{name.lower()}", None)
            if step is not None:
                step(value)
        return self.stages[-1]

    def _from(self, value: str) -> None:
        stage = self.root / f"stage-{len(self.stages)}"
        stage.mkdir()
        self.stages.append(stage)
        self.workdir = SLASH
        _, _, name = value.partition(" AS ")
        self.names[name.strip()] = stage

    def _workdir(self, value: str) -> None:
        self.workdir = PurePosixPath(value)
        self._here(value).mkdir(parents=True, exist_ok=True)

    def _copy(self, value: str) -> None:
        *options, source, target = value.split()
        origin = self.context
        if options:
            origin = self.names[options[0].removeprefix("--from=")]
        shutil.copytree(origin / source.lstrip("/"), self._here(target), symlinks=True, dirs_exist_ok=True)

    def _run(self, value: str) -> None:
        done = subprocess.run(
            ["sh", "-ec", self.in_this_folder(value)],
            cwd=self._here("."),
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, f"RUN {value}\n{done.stdout}\n{done.stderr}"

    def in_this_folder(self, command: str) -> str:
        """Return a command of the image as it runs here, where gcc is installed and no user is added."""
        command = re.sub(r"apt-get update && apt-get install .*gcc .*", "command -v gcc", command)
        command = re.sub(r"useradd .* --home-dir (\S+) \w+$", r"mkdir -p \1", command)
        return re.sub(r"(?<![\w./])/(kohort|var/lib/kohort)\b", rf"{self.stages[-1]}/\1", command)

    def _here(self, path: str) -> Path:
        return self.stages[-1] / str(self.workdir / path).lstrip("/")


def copy_context(target: Path) -> None:
    """Lay out what an engine is sent: the files of the checkout that .dockerignore lets through."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for path in listed.stdout.split("\0"):
        if path and (ROOT / path).is_file() and not is_ignored(path, patterns()):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, target / path)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds what the image would hold."""
    if not WANTED:
        pytest.skip("make image replays the Dockerfile, which takes two minutes")
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc here, which the image installs")
    root = tmp_path_factory.mktemp("image")
    copy_context(root / "context")
    built = Replay(root, root / "context").run()
    shutil.rmtree(root / "context")
    return built


def in_image(image: Path, *arguments: str) -> list[str]:
    """Return the command `kohort` of the image. The script itself names the folder of the stage before."""
    return [str(image / "kohort" / "bin" / "python"), "-I", "-m", "kohort.cli", *arguments]


def test_the_image_has_compiled_modules_and_shows_it(image: Path) -> None:
    shown = subprocess.run(
        in_image(image, "--version"), capture_output=True, text=True, check=False, timeout=60
    )
    assert re.fullmatch(r"kohort \d+\.\d+\.\d+, compiled, Python 3\.\d+\.\d+\n", shown.stdout), shown.stderr


def test_the_image_reads_frequent_requests_by_compiled_decoders(image: Path) -> None:
    script = (
        "from kohort.protocol.messages.produce import ProduceRequest\n"
        "from kohort.protocol.request_decoders.produce import DECODERS, __file__\n"
        "assert ProduceRequest.decoder(9) is DECODERS[9]\n"
        "assert not __file__.endswith('.py')\n"
    )
    command = [str(image / "kohort" / "bin" / "python"), "-I", "-c", script]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert shown.returncode == 0, shown.stderr


def test_the_image_serves(image: Path, tmp_path: Path) -> None:
    arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--data",
        str(tmp_path / "data"),
    ]
    broker = subprocess.Popen(in_image(image, *arguments), stdout=subprocess.PIPE, text=True)
    assert broker.stdout is not None
    with broker, broker.stdout:
        try:
            ready = broker.stdout.readline()
            assert ready.startswith("kohort ready kafka=127.0.0.1:"), ready
            address = ready.split("kafka=")[1].split()[0]
            listing = in_image(image, "topics", "list", "-b", address)
            subprocess.run(listing, check=True, capture_output=True, timeout=60)
        finally:
            broker.send_signal(signal.SIGTERM)
        assert broker.wait(timeout=30) == 0


def named(expression: str, paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Return what an expression finds in files, each with the file's name."""
    for path in paths:
        for found in re.findall(expression, path.read_text(encoding="utf-8"), re.MULTILINE):
            yield path.name, found


def test_images_and_actions_are_pinned_by_digest() -> None:
    """A tag can be moved to something else; a digest cannot."""
    images = list(
        named(r"^(?:FROM|\s+image:)\s+(\S+)", [ROOT / "Dockerfile", *ROOT.glob("docker-compose*.yml")])
    )
    actions = list(named(r"uses:\s+(\S+)", (ROOT / ".github" / "workflows").glob("*.yml")))
    assert len(images) > 5
    assert len(actions) > 5
    for file, image in images:
        assert image == "kohort:local" or re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", image), (file, image)
    for file, action in actions:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action), (file, action)


def test_every_package_of_the_constraints_has_its_hashes() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) > 80
    assert not [line for line in lines if not re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)]
