"""Every block of Python in docs/guides is a file of tests that passes; the examples in other languages run.

What needs more than this project's own environment runs where KOHORT_TEST_APPLICATIONS=1, as
`make applications` sets it in an environment of its own; there nothing is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.guide import blocks
from tests.interop.kafka_tools import QUICK_JVM, MissingTool, jars, program

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
BLOCKS = [pytest.param(code, id=f"{guide.stem}-{line}") for guide in GUIDES for line, code in blocks(guide)]
NEEDED = ("faststream", "quixstreams", "pytest_asyncio")
HAS_TO_RUN = "KOHORT_TEST_APPLICATIONS" in os.environ
COMMAND_SECONDS_MAX = 300


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_of_a_guide_passes(pytester: pytest.Pytester, code: str) -> None:
    imported = set(re.findall(r"(?:import|from) ([a-z_]+)", code))
    needed = imported.intersection(NEEDED) | ({"pytest_asyncio"} if "mark.asyncio" in code else set())
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing and not HAS_TO_RUN:
        pytest.skip(f"{', '.join(missing)}: not installed here; make applications runs it")
    assert not missing
    pytester.makepyfile(code)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=len(re.findall(r"^(?:async )?def test_", code, re.MULTILINE)))


def test_every_library_has_a_guide() -> None:
    names = {guide.stem for guide in GUIDES}
    libraries = ("confluent-kafka", "kafka-python", "aiokafka", "faststream", "quixstreams")
    assert names == {
        *(f"testing-{each}" for each in libraries),
        "client-metrics",
        "from-testcontainers",
        "kubernetes",
        "observe",
        "other-languages",
        "schema_registry",
        "simulating",
    }


@pytest.mark.parametrize(
    "tool, folder, commands",
    [
        ("npm", "node", (["npm", "install", "--no-audit", "--no-fund"], ["npm", "test"])),
        ("go", "go", (["go", "test", "./..."],)),
    ],
)
def test_an_example_in_another_language_passes(
    tool: str, folder: str, commands: tuple[list[str], ...], tmp_path: Path
) -> None:
    if not HAS_TO_RUN:
        pytest.skip("it downloads its client: make applications runs it")
    if shutil.which(tool) is None:
        pytest.skip(f"there is no {tool} on this machine")
    place = tmp_path / folder
    shutil.copytree(
        ROOT / "examples" / folder, place, ignore=shutil.ignore_patterns("node_modules", "package-lock.json")
    )
    kohort = str(Path(sys.executable).with_name("kohort"))
    for command in commands:
        run(command, place, kohort)


def test_the_example_in_java_passes(tmp_path: Path) -> None:
    try:
        classpath = f"{jars('clients')}/*"
        java, javac = program("java"), program("javac")
    except MissingTool as error:
        pytest.skip(str(error))
    sources = [str(each) for each in (ROOT / "examples" / "java").glob("*.java")]
    kohort = str(Path(sys.executable).with_name("kohort"))
    run([javac, "-cp", classpath, "-d", str(tmp_path), *sources], tmp_path, kohort)
    done = run(
        [java, *QUICK_JVM, "-cp", f"{classpath}{os.pathsep}{tmp_path}", "OrdersTest"], tmp_path, kohort
    )
    assert "2 tests passed" in done


def run(command: list[str], folder: Path, kohort: str) -> str:
    """Return what a command prints. Fail with it if the command fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "KOHORT": kohort},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_with_unittest_passes() -> None:
    command = [sys.executable, "-m", "unittest", "examples.unittest_orders"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr
