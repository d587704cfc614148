"""`kohort serve --schema-registry`: a registry in the broker's own process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kohort.client import Admin, NewTopic
from tests.registry.asking import ask, register

SERVE = [sys.executable, "-m", "kohort.cli", "serve"]
READY = re.compile(r"kohort ready kafka=(\S+) http=(\S+) schema-registry=(?P<registry>\S+) data=")


@contextmanager
def served(*arguments: str) -> Iterator[tuple[str, str]]:
    """Yield where a broker and its registry serve; ended cleanly behind the block."""
    command = [*SERVE, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = READY.match(process.stdout.readline())
            assert ready is not None
            yield ready[1], f"http://{ready['registry']}"
        finally:
            process.send_signal(signal.SIGTERM)
            errors = process.communicate(timeout=30)[1]
        assert (process.returncode, "Traceback" in errors) == (0, False), errors


def test_schemas_are_stored_in_the_brokers_folder(tmp_path: Path) -> None:
    arguments = ("--data", str(tmp_path / "data"), "--schema-registry", "127.0.0.1:0")
    with served(*arguments) as (_, url):
        assert register(url, "s", "string") == 1
    with served(*arguments) as (_, url):
        assert ask(url, "GET", "/subjects").content == ["s"]
        assert register(url, "s", "string") == 1


def test_a_failed_registry_restarts_and_the_broker_keeps_serving(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    with (
        served(*data, "--schema-registry", "127.0.0.1:0") as (kafka, url),
        Admin(bootstrap_servers=kafka) as admin,
    ):
        ask(url, "GET", "/subjects")  # The topic is there.
        admin.delete_topics("_schemas")
        admin.create_topics(NewTopic("_schemas", partitions=2))
    with served(*data, "--schema-registry", "127.0.0.1:0") as (kafka, url):
        with Admin(bootstrap_servers=kafka) as admin:
            assert len(admin.describe_topics("_schemas")["_schemas"].partitions) == 2, "the broker serves"
            admin.delete_topics("_schemas")
        assert register(url, "s", "string") == 1


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--workers", "2"), "one process"),
        (("--listen", "SSL://127.0.0.1:0"), "PLAINTEXT|ssl"),
    ],
)
def test_an_unavailable_registry_ends_the_start_with_one_line(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    command = [*SERVE, "--data", str(tmp_path), "--schema-registry", "127.0.0.1:0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert re.search(words, done.stderr)
    assert done.stderr.count("\n") == 1
