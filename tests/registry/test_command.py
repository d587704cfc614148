"""`kohort registry` as a process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kohort.client import Admin, NewTopic
from kohort.testing import Broker
from tests.registry.asking import ask, register

COMMAND = [sys.executable, "-m", "kohort.cli", "registry", "--listen", "127.0.0.1:0"]


@contextmanager
def running(broker: Broker, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield where a registry serves, and its process, which is killed behind the block if it still runs."""
    command = [*COMMAND, "--bootstrap-server", broker.bootstrap, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield (process.stdout.readline().split() or [""])[-1], process
        finally:
            process.kill()


def test_it_serves_until_it_is_stopped(broker: Broker) -> None:
    with running(broker) as (url, process):
        schema_id = register(url, "of-a-process", "string")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    with running(broker) as (url, process):
        assert ask(url, "GET", "/subjects/of-a-process/versions/1").content["id"] == schema_id


def test_acknowledged_schemas_of_a_killed_process_exist_and_another_continues(broker: Broker) -> None:
    with running(broker) as (first, process), running(broker) as (second, _):
        ids = {number: register(first, f"killed-{number}", "long") for number in range(5)}
        process.kill()
        for number, schema_id in ids.items():
            assert register(second, f"killed-{number}", "long") == schema_id
        assert register(second, "after-the-kill", "double") == max(ids.values()) + 1


def test_topics_are_registries_of_their_own(broker: Broker) -> None:
    with running(broker, "--topic", "_others") as (url, _):
        assert ask(url, "GET", "/subjects").content == []
        assert register(url, "other", "string") == 1


@pytest.mark.parametrize(
    "arguments, words",
    [(("--listen", "nowhere:x"), "--listen"), (("--bootstrap-server", "127.0.0.1:1"), "no broker at")],
)
def test_a_usage_error_is_reported_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "partitions, policy, words",
    [(1, "delete", "cleanup.policy=delete"), (2, "compact", "must have one partition")],
)
def test_an_unsuitable_topic_is_reported_in_one_line(
    broker: Broker, partitions: int, policy: str, words: str
) -> None:
    topic = f"unfit-{partitions}"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=partitions, configs={"cleanup.policy": policy}))
    command = [*COMMAND, "--bootstrap-server", broker.bootstrap, "--topic", topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
