"""A broker process for the command line, or the one that KOHORT_TEST_BOOTSTRAP names."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.cli import here
from tests.cli.here import Done
from tests.interop.broker_process import BrokerProcess

BOOTSTRAP_VARIABLE = "KOHORT_TEST_BOOTSTRAP"
Kohort = Callable[..., Done]
COMMAND = [sys.executable, "-m", "kohort.cli"]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | None]:
    """The broker, None where it is another one's."""
    if os.environ.get(BOOTSTRAP_VARIABLE):
        yield None
        return
    process = BrokerProcess(tmp_path_factory.mktemp("cli"), "group.initial.rebalance.delay.ms=0")
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def bootstrap(process: BrokerProcess | None) -> str:
    """Where the broker listens."""
    return os.environ[BOOTSTRAP_VARIABLE] if process is None else process.bootstrap


@pytest.fixture
def environment(bootstrap: str) -> dict[str, str]:
    """The environment of a command that knows the broker."""
    return {**os.environ, "KOHORT_BOOTSTRAP_SERVERS": bootstrap}


@pytest.fixture
def kohort(environment: dict[str, str]) -> Kohort:
    """Run the command, here."""

    def run(*arguments: str, stdin: str = "") -> Done:
        return here.kohort(*arguments, stdin=stdin, environment=environment)

    return run


@pytest.fixture
def topic(kohort: Kohort) -> str:
    """A new topic with three partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    assert kohort("topics", "create", name, "--partitions", "3").returncode == 0
    return name
