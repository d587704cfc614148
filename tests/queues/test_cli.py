"""`kohort queue`: a tracker and a worker as processes, and what is told of a queue."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kohort.client import Admin, NewTopic, Producer
from tests.cli.here import kohort
from tests.interop.waiting import wait_until

Start = Callable[..., "subprocess.Popen[str]"]
SCRIPT = """\
import os, sys
value = sys.stdin.read()
with open("{journal}", "a") as journal:
    journal.write(f"{{value}} {{os.environ['KOHORT_REDELIVERIES']}} {{os.environ['KOHORT_KEY']}}\\n")
is_first = os.environ["KOHORT_REDELIVERIES"] == "0"
sys.exit(65 if value == "never" else 75 if value == "again" and is_first else 0)
"""


@pytest.fixture
def start(bootstrap: str) -> Iterator[Start]:
    """Start a command as a process; it is ended with the test."""
    processes = []

    def launch(*arguments: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "kohort.cli",
            "queue",
            *arguments[:2],
            "-b",
            bootstrap,
            *arguments[2:],
        ]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return processes[-1]

    yield launch
    for process in processes:
        process.kill()
        process.communicate()


def test_a_command_is_run_for_each_record(start: Start, bootstrap: str, topic: str, tmp_path: Path) -> None:
    journal, script = tmp_path / "journal", tmp_path / "script.py"
    journal.touch()
    script.write_text(SCRIPT.format(journal=journal))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in (b"plain", b"again", b"never"):
            producer.send(topic, value, key=b"key", partition=0)
    tracker = start("track", topic)
    worker = start("run", topic, "--workers", "1", "--", sys.executable, str(script))
    wait_until(lambda: "again 1" in journal.read_text(), "it came again", 40)
    assert sorted(journal.read_text().splitlines()) == [
        "again 0 key",
        "again 1 key",
        "never 0 key",
        "plain 0 key",
    ]
    wait_until(lambda: _stats(bootstrap, topic)["partitions"][0]["open"] == 0, "nothing is open")
    for process in (worker, tracker):
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert worker.stderr is not None
    assert worker.stderr.read().splitlines()[-1] == "2 done, 0 failed, 1 released, 1 rejected"
    stats = _stats(bootstrap, topic)
    assert stats["dead_letters"] == 1
    assert stats["partitions"][0]["redelivered"] == 1
    told = kohort("queue", "where", topic, "0", "1", "-b", bootstrap)
    assert told.stdout.splitlines() == [
        f"{topic}-0 at 1: delivered again, as",
        f"{topic}-0 at 3: done (redelivery 1)",
    ]
    assert "a dead letter: " in kohort("queue", "where", topic, "0", "2", "-b", bootstrap).stdout
    assert "all" in kohort("queue", "stats", topic, "-b", bootstrap).stdout


def _stats(bootstrap: str, topic: str) -> dict:
    found: dict = json.loads(kohort("queue", "stats", topic, "--json", "-b", bootstrap).stdout)
    return found


def test_a_tracker_serves_its_metrics(start: Start, topic: str, free_port: int) -> None:
    start("track", topic, "--http", f"127.0.0.1:{free_port}")

    def has_partitions() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return False
        return f'kohort_queue_partitions{{topic="{topic}"}} 2.0' in text and "kohort_queue_overdue" in text

    wait_until(has_partitions, "the tracker has its partitions")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("run", "t"), "give a command behind --, or --call MODULE:FUNCTION"),
        (("run", "t", "--call", "nowhere", "--", "true"), "give a command behind --"),
        (("run", "t", "--call", "nowhere"), "is not MODULE:NAME"),
        (("run", "t", "--call", "no.such:thing"), "No module named"),
    ],
)
def test_a_wrong_use_is_said_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = kohort("queue", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_queue_that_no_worker_has_served_yet_is_all_unread(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in (b"a", b"b", b"c"):
            producer.send(topic, value, partition=1)
    found = _stats(bootstrap, topic)
    assert [each["unread"] for each in found["partitions"]] == [0, 3]
    assert [each["open"] for each in found["partitions"]] == [0, 0]
    assert (found["dead_letters"], len(found["missing_topics"])) == (0, 2)
    done = kohort("queue", "stats", topic, "-b", bootstrap)
    assert f"Topic {topic}__markers does not exist: the first worker or tracker creates it.\n" in done.stderr
    where = kohort("queue", "where", topic, "1", "2", "-b", bootstrap)
    assert (where.returncode, where.stdout) == (0, f"{topic}-1 at 2: nobody has taken it yet\n")


def test_markers_of_fewer_partitions_than_the_topic_has_count_where_they_are(
    bootstrap: str, topic: str
) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(f"{topic}__markers", partitions=1))
        wait_until(lambda: f"{topic}__markers" in admin.list_topics(), "the topic is known")
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"a", partition=1)
    found = _stats(bootstrap, topic)
    assert [each["unread"] for each in found["partitions"]] == [0, 1]
    assert found["missing_topics"] == [f"{topic}__undelivered"]
    assert kohort("queue", "where", topic, "1", "0", "-b", bootstrap).returncode == 0


def test_a_topic_that_is_not_there_is_said(bootstrap: str) -> None:
    done = kohort("queue", "stats", "nosuch", "-b", bootstrap)
    assert done.returncode == 1
    assert "does not exist" in done.stderr
