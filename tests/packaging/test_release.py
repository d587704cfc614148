"""Which wheels a release's check uses, and when it fails. The tag of a release is its version."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kohort.client
from tests.packaging.scripts import load_script

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "deploy" / "release.py"
PURE = "kohort-7.1.0-py3-none-any.whl"
MANY = "kohort-7.1.0-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
MUSL = "kohort-7.1.0-cp312-cp312-musllinux_1_2_x86_64.whl"
LOCAL = "kohort-7.1.0-cp312-cp312-linux_x86_64.whl"
ARM = "kohort-7.1.0-cp312-cp312-manylinux_2_17_aarch64.whl"
MAC = "kohort-7.1.0-cp312-cp312-macosx_11_0_arm64.whl"
BOTH_MACS = "kohort-7.1.0-cp312-cp312-macosx_11_0_universal2.whl"
ALL = (PURE, MANY, MUSL, LOCAL, ARM, MAC, BOTH_MACS)


@pytest.fixture
def tool() -> ModuleType:
    return load_script("deploy/release.py")


@pytest.mark.parametrize(
    "here, fitting",
    [
        (("Linux", "glibc", "x86_64"), {PURE, MANY, LOCAL}),
        (("Linux", "", "x86_64"), {PURE, MUSL, LOCAL}),
        (("Linux", "glibc", "aarch64"), {PURE, ARM}),
        (("Darwin", "", "arm64"), {PURE, MAC, BOTH_MACS}),
        (("Darwin", "", "x86_64"), {PURE, BOTH_MACS}),
    ],
)
def test_a_wheel_fits_its_system_its_c_library_and_its_processor(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, here: tuple[str, str, str], fitting: set[str]
) -> None:
    system, library, machine = here
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "libc_ver", lambda: (library, ""))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert {name for name in ALL if tool.fits(Path(name), "3.12")} == fitting
    assert {name for name in ALL if tool.fits(Path(name), "3.13")} == {PURE}


def test_a_check_that_uses_no_wheel_fails(tmp_path: Path) -> None:
    (tmp_path / PURE).touch()
    done = subprocess.run(
        [sys.executable, TOOL, "--check", tmp_path, "--python", "3.12"],
        env={**os.environ, "PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "skipped: there is no Python 3.12 here" in done.stdout, done.stderr
    assert "Python 3.12, pure: install: has not passed" in done.stdout
    assert done.returncode == 1


def test_each_python_has_to_use_the_wheels_that_are_for_it(tool: ModuleType) -> None:
    wheels = [Path(PURE), Path(MUSL)]
    report = tool.Report()
    report.rows.append(("Python 3.12, pure: install", "passed", 1.0))
    report.rows.append(("Python 3.13, pure: install", "skipped: there is no Python 3.13 here", 0.0))
    assert tool.unused(wheels[:1], ["3.12"], report) == []
    assert tool.unused(wheels, ["3.12"], report) == ["Python 3.12, compiled: install"]
    assert tool.unused(wheels, ["3.13"], report) == ["Python 3.13, pure: install"]
    report.rows.append(("Python 3.12, compiled: install", "passed", 1.0))
    assert tool.unused(wheels, ["3.12"], report) == []


@pytest.mark.parametrize(
    "tag, fits", [(f"v{kohort.client.__version__}", True), ("v0.0.1", False), ("v", False)]
)
def test_a_release_whose_tag_is_not_its_version_ends(tag: str, fits: bool) -> None:
    workflow = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
    (command,) = (line.split("run: ")[1] for line in workflow.splitlines() if "GITHUB_REF_NAME" in line)
    done = subprocess.run(
        ["bash", "-e", "-c", command.replace(".venv/bin/python", sys.executable)],
        cwd=ROOT,
        env={**os.environ, "GITHUB_REF_NAME": tag},
        timeout=600,
        check=False,
    )
    assert (done.returncode == 0) is fits
