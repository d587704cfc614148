"""`kohort cluster` on a cluster that it has started itself."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import here

PATIENCE_SECONDS = 60
KOHORT = (sys.executable, "-m", "kohort.cli")


@pytest.fixture(scope="module")
def up(etcd_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """Where the cluster is, as it says itself; stopped as a user does, and everything has to be gone then."""
    folder = tmp_path_factory.mktemp("up")
    command = [
        *KOHORT, "cluster", "up", "3", "--etcd-program", str(etcd_program), "--data", str(folder / "data"),
        "--port", "0", "--http-port", "0", "--json", "--set", "offsets.topic.num.partitions=3",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = ""
        while not told.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            told += line
        yield json.loads(told)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr.read() == ""
    assert not [each for each in _processes() if str(folder) in each]


def _processes() -> list[str]:
    """Return the process ids and command lines of all processes."""
    done = subprocess.run(["ps", "-ewwo", "pid,args"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture
def bootstrap(up: dict[str, object]) -> str:
    return str(up["bootstrap"])


def kohort(bootstrap: str, *arguments: str) -> str:
    done = here.kohort(*arguments, "-b", bootstrap, environment=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stdout


def described(bootstrap: str) -> dict[str, dict[int, int]]:
    """Return how many partitions each broker leads and holds."""
    found = json.loads(kohort(bootstrap, "cluster", "describe", "--json"))
    return {kind: {each["id"]: each[kind] for each in found["brokers"]} for kind in ("leads", "holds")} | {
        "bad": {0: found["under_replicated"], 1: found["offline"]}
    }


def until_described(bootstrap: str, kind: str, expected: dict[int, int]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while described(bootstrap)[kind] != expected:
        assert time.monotonic() < deadline, described(bootstrap)
        time.sleep(0.1)


def test_an_administrator_drains_moves_and_balances(bootstrap: str) -> None:
    kohort(bootstrap, "topics", "create", "air", "--partitions", "6")
    until_described(bootstrap, "holds", {1: 6, 2: 6, 3: 6})
    assert described(bootstrap)["leads"] == {1: 2, 2: 2, 3: 2}
    assert kohort(bootstrap, "cluster", "drain", "2") == "Broker 2 is drained.\n"
    assert described(bootstrap)["leads"][2] == 0
    assert described(bootstrap)["bad"] == {0: 0, 1: 0}
    assert json.loads(kohort(bootstrap, "cluster", "undrain", "2", "--json")) == {
        "broker": 2,
        "drained": False,
    }
    deadline = time.monotonic() + PATIENCE_SECONDS
    while described(bootstrap)["leads"][2] != 2:
        kohort(bootstrap, "cluster", "balance")
        assert time.monotonic() < deadline
    planned = json.loads(
        kohort(bootstrap, "cluster", "reassign", "--replication-factor", "2", "--dry-run", "--json")
    )
    assert len(planned["partitions"]) == 6
    assert described(bootstrap)["holds"] == {1: 6, 2: 6, 3: 6}
    kohort(bootstrap, "cluster", "reassign", "--replication-factor", "2", "--wait")
    until_described(bootstrap, "holds", {1: 4, 2: 4, 3: 4})
    kohort(bootstrap, "cluster", "reassign", "--without", "3", "--wait")
    until_described(bootstrap, "holds", {1: 6, 2: 6, 3: 0})
    assert described(bootstrap)["bad"] == {0: 0, 1: 0}
    assert kohort(bootstrap, "cluster", "reassign", "--list") == "0 partition(s) move.\n"


def test_impossible_changes_are_refused_in_one_line(bootstrap: str) -> None:
    for arguments, words in (
        (("cluster", "unregister", "77"), "Broker ID 77 is not currently registered"),
        (("cluster", "reassign", "--brokers", "77"), "broker 77 does not run"),
        (("cluster", "reassign", "--without", "77"), "there is no broker 77"),
        (("cluster", "unregister", "2"), "cancelled; nothing changed"),
        (
            ("cluster", "reassign", "--replication-factor", "9", "-t", "air"),
            "9 replicas of topic air need as many brokers",
        ),
    ):
        done = here.kohort(*arguments, "-b", bootstrap, environment=dict(os.environ))
        assert done.returncode != 0
        assert words in done.stderr


def test_a_broker_that_has_ended_is_started_again_by_the_command_that_is_printed(
    etcd_program: Path, tmp_path: Path
) -> None:
    command = [
        *KOHORT, "cluster", "up", "2", "--etcd-program", str(etcd_program), "--data", str(tmp_path / "data"),
        "--port", "0", "--http-port", "0", "--set", "kohort.schema.registry.url=http://me:secret@127.0.0.1:1",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        ready = [process.stdout.readline() for _ in range(3)]
        folder = str(tmp_path / "data" / "broker-2")
        [pid] = [each.split()[0] for each in _processes() if folder in each]
        os.kill(int(pid), signal.SIGKILL)
        ended, again = process.stderr.readline().split(". To start it again: kohort ")
        assert ended == "broker 2 has ended with status -9"
        assert "secret" not in again
        again = again.replace("[hidden]", "http://127.0.0.1:1")
        with subprocess.Popen(
            [*KOHORT, *shlex.split(again)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as other:
            assert other.stdout is not None
            address = ready[1].split()[2]
            assert address in other.stdout.readline().split(), "it serves at the same address"
            kohort(address.removeprefix("kafka="), "cluster", "wait", "--brokers", "2", "--timeout", "60")
            other.terminate()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_without_an_etcd_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [*KOHORT, "cluster", "up", "--data", str(tmp_path / "data")],
        capture_output=True, text=True, env={**os.environ, "PATH": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("kohort: there is no etcd on PATH")
