"""Build what a release has, and use it as a stranger would: `make release`.

    python deploy/release.py                   # builds into dist/, then checks it
    python deploy/release.py --check FOLDER    # checks the wheels of a folder
    python deploy/release.py --without spark   # leaves a use out; may be repeated
    python deploy/release.py --python 3.12     # for this Python alone; may be repeated

It builds the sdist, a wheel in pure Python, and a compiled wheel for each Python of this machine. Each wheel
goes into a fresh environment of each Python that it fits. There `kohort serve` runs with a client, pytest
with the test kit, and Spark reads a topic. A step that this machine cannot do is skipped, with the
reason; but with `--check` each Python has to use its wheels. The table at the end has the seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SCRATCH = ROOT / "build" / "release"
PYTHONS = ("3.11", "3.12", "3.13")
SECONDS_MAX = 3_600
USES = ROOT / "deploy" / "uses"
"""The programs that use each wheel."""


class Skipped(Exception):
    """This machine lacks something that a step needs; the message names it."""


@dataclass(slots=True)
class Report:
    """The steps, with their results and seconds."""

    rows: list[tuple[str, str, float]] = field(default_factory=list)

    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Note how the block ends. A failure is noted, and the next step runs."""
        began_s = time.monotonic()
        try:
            yield
        except Skipped as reason:
            verdict = f"skipped: {reason}"
        except subprocess.SubprocessError as error:
            output = getattr(error, "output", None) or b""
            print(output.decode(errors="replace")[-4_000:])
            verdict = "FAILED"
        else:
            verdict = "passed"
        self.rows.append((what, verdict, time.monotonic() - began_s))
        print(f"{what}: {verdict}, {self.rows[-1][2]:.0f} s", flush=True)

    @property
    def failed(self) -> bool:
        """Whether a step has failed."""
        return any(verdict == "FAILED" for _, verdict, _ in self.rows)

    def table(self) -> str:
        """Return the rows in Markdown."""
        lines = [f"| {what} | {verdict} | {seconds:.0f} |" for what, verdict, seconds in self.rows]
        return "\n".join(("| step | result | seconds |", "| --- | --- | ---: |", *lines, ""))


def run(*command: str | Path, folder: Path = ROOT, **settings: str) -> str:
    """Return what a command has printed. Raises: SubprocessError."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **settings},
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS_MAX,
    )
    return done.stdout.decode(errors="replace")


def python_of(version: str) -> Path:
    """Return the interpreter of a version, such as 3.12. Raises: Skipped."""
    named = shutil.which(f"python{version}")
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for each in (*pyenv, *([Path(named)] if named else [])):
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            if run(each, "-c", "import sys, venv, ensurepip; print(sys.version)").startswith(f"{version}."):
                return each
    raise Skipped(f"there is no Python {version} here")


def fresh(python: Path, name: str) -> Path:
    """Return the Python of a new environment with nothing in it but pip."""
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def build(pythons: Sequence[str], report: Report) -> list[Path]:
    """Build everything into dist/; return the wheels."""
    shutil.rmtree(DIST, ignore_errors=True)
    with report.timed("lint the workflows"):
        run(actionlint(), *sorted((ROOT / ".github" / "workflows").glob("*.yml")))
    with report.timed("sdist and pure wheel"):
        run(
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "sdist",
            "--target",
            "wheel",
            KOHORT_COMPILE="0",
        )
    with report.timed("the sdist builds the same wheel"):
        wheel_of_the_sdist()
    for version in pythons:
        with report.timed(f"compiled wheel for Python {version}"):
            if shutil.which(os.environ.get("CC", "cc")) is None:
                raise Skipped("there is no C compiler here")
            python = fresh(python_of(version), f"compile-{version}")
            pip(python, "wheel", "--no-deps", "--wheel-dir", DIST, ROOT, KOHORT_COMPILE="1")
    return sorted(DIST.glob("kohort-*.whl"))


def actionlint() -> str:
    """Return a program that checks workflows, built by Go where there is none. Raises: Skipped."""
    found = shutil.which("actionlint")
    if found is None:
        go = shutil.which("go")
        if go is None:
            raise Skipped("there is no actionlint here, and no Go to build it")
        folder = SCRATCH / "go"
        run(go, "install", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12", GOBIN=str(folder))
        found = str(folder / "actionlint")
    return found


def pip(python: Path, *words: str | Path, **settings: str) -> None:
    """Run pip in an environment."""
    run(python, "-m", "pip", "--disable-pip-version-check", "--quiet", *words, folder=SCRATCH, **settings)


def wheel_of_the_sdist() -> None:
    """Build a wheel from the sdist alone, and compare its files. Raises: SubprocessError."""
    (sdist,) = DIST.glob("kohort-*.tar.gz")
    (ours,) = DIST.glob("kohort-*-none-any.whl")
    again = SCRATCH / "of-sdist"
    shutil.rmtree(again, ignore_errors=True)
    pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", again, sdist)
    (theirs,) = again.glob("kohort-*.whl")
    names = [set(run(sys.executable, "-m", "zipfile", "-l", each).split()) for each in (ours, theirs)]
    modules = [{name for name in each if name.endswith((".py", ".pyi", ".typed"))} for each in names]
    if modules[0] != modules[1]:
        raise subprocess.SubprocessError(f"they differ in {sorted(modules[0] ^ modules[1])}")


def fits(wheel: Path, version: str) -> bool:
    """Whether a wheel is for any Python, or for this one on this machine."""
    return is_pure(wheel) or (is_compiled_for(wheel, version) and any(map(_runs_here, _platforms(wheel))))


def is_pure(wheel: Path) -> bool:
    """Whether a wheel is for any Python."""
    return wheel.stem.endswith("-none-any")


def is_compiled_for(wheel: Path, version: str) -> bool:
    """Whether a wheel has compiled modules for a Python, on any machine."""
    return wheel.stem.split("-")[-3] == f"cp{version.replace('.', '')}"


def _platforms(wheel: Path) -> list[str]:
    return wheel.stem.rsplit("-", maxsplit=1)[-1].split(".")


def _runs_here(tag: str) -> bool:
    """Whether a platform tag is for this system, its C library and its processor."""
    library = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    system = "macosx" if platform.system() == "Darwin" else ("linux_", library)
    return tag.startswith(system) and tag.endswith((f"_{platform.machine()}", "_universal2"))


def check(wheels: Sequence[Path], pythons: Sequence[str], without: Sequence[str], report: Report) -> None:
    """Use each wheel in a fresh environment of each Python that it fits."""
    for version in pythons:
        for wheel in (each for each in wheels if fits(each, version)):
            kind = "pure" if is_pure(wheel) else "compiled"
            name = f"Python {version}, {kind}"
            with report.timed(_install(version, kind)):
                python = fresh(python_of(version), f"{kind}-{version}")
                pip(python, "install", wheel)
            if report.rows[-1][1] != "passed":
                continue
            for use, action in CHECKS.items():
                if use not in without:
                    with report.timed(f"{name}: {use}"):
                        action(python, wheel)


def _install(version: str, kind: str) -> str:
    return f"Python {version}, {kind}: install"


def unused(wheels: Sequence[Path], pythons: Sequence[str], report: Report) -> list[str]:
    """Return the installations that the wheels are for, and of which none has passed."""
    wanted = [_install(version, "pure") for version in pythons]
    wanted += [
        _install(version, "compiled")
        for version in pythons
        if any(is_compiled_for(each, version) for each in wheels)
    ]
    passed = {what for what, verdict, _ in report.rows if verdict == "passed"}
    return [each for each in wanted if each not in passed]


def serve(python: Path, _wheel: Path) -> None:
    """`kohort serve` and a client of a process of its own."""
    run(python, "-I", USES / "serve.py", folder=_empty(python))


def kit(python: Path, _wheel: Path) -> None:
    """The test kit, with pytest and with other people's clients."""
    pip(python, "install", "pytest", "confluent-kafka", "kafka-python")
    folder = _empty(python)
    shutil.copy(USES / "kit.py", folder / "test_kit.py")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # Not the settings of this checkout.
    run(python, "-I", "-m", "pytest", "-q", "-W", "error::pytest.PytestWarning", folder, folder=folder)


def spark(python: Path, wheel: Path) -> None:
    """Spark's data source. Raises: Skipped where there is no Java."""
    if shutil.which("java") is None:
        raise Skipped("there is no Java here")
    pip(python, "install", f"{wheel}[spark]")
    run(python, "-I", USES / "spark.py", folder=_empty(python))


def _empty(python: Path) -> Path:
    folder = python.parents[1] / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


CHECKS: dict[str, Callable[[Path, Path], None]] = {"serve": serve, "kit": kit, "spark": spark}


def main() -> int:
    """Build and check; return the exit status."""
    parser = argparse.ArgumentParser(description="Build a release and use it in fresh environments.")
    parser.add_argument(
        "--check", type=Path, metavar="FOLDER", help="build nothing; check the wheels of a folder"
    )
    parser.add_argument("--without", action="append", default=[], choices=CHECKS, help="a use to leave out")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="one of the Pythons to use")
    options = parser.parse_args()
    pythons = options.python or PYTHONS
    report = Report()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    wheels = sorted(options.check.resolve().glob("kohort-*.whl")) if options.check else build(pythons, report)
    check(wheels, pythons, options.without, report)
    (SCRATCH / "report.md").write_text(report.table(), encoding="utf-8")
    print(f"\n{report.table()}")
    missing = unused(wheels, pythons, report) if options.check else []
    for each in missing:
        print(f"{each}: has not passed with any wheel")
    if not wheels:
        print("there is no wheel to check")
    return int(report.failed or bool(missing) or not wheels)


if __name__ == "__main__":
    sys.exit(main())
