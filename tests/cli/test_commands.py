"""The real command against a real broker."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Kohort
from tests.interop.waiting import wait_until


def test_a_topic_from_its_making_to_its_end(kohort: Kohort, topic: str) -> None:
    assert topic in kohort("topics", "list").stdout.split()
    assert topic in json.loads(kohort("topics", "list", "--json").stdout)
    altered = kohort(
        "topics", "alter", topic, "-p", "4", "-c", "retention.ms=60000", "-c", "segment.ms=70000"
    )
    assert (altered.returncode, altered.stdout) == (0, f"Altered topic {topic}.\n")
    assert kohort("topics", "alter", topic, "--delete-config", "segment.ms").returncode == 0
    (described,) = json.loads(kohort("topics", "describe", topic, "--json").stdout)
    assert (described["name"], described["configs"]) == (topic, {"retention.ms": "60000"})
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2, 3]
    lines = kohort("topics", "describe", topic).stdout.splitlines()
    assert "PartitionCount: 4" in lines[0]
    assert lines[0].endswith("Configs: retention.ms=60000")
    assert lines[1].startswith(f"\tTopic: {topic}\tPartition: 0\tLeader: ")
    deleted = kohort("topics", "delete", topic)
    assert (deleted.returncode, deleted.stdout) == (0, f"Deleted topic {topic}.\n")
    assert kohort("topics", "delete", topic, "--if-exists").returncode == 0


def test_existing_and_missing_topics_are_reported_in_one_line(kohort: Kohort, topic: str) -> None:
    again = kohort("topics", "create", topic)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "already exists" in again.stderr
    assert kohort("topics", "create", topic, "--if-not-exists").returncode == 0
    for command in (["topics", "describe", "gone"], ["topics", "delete", "gone"], ["consume", "gone"]):
        done = kohort(*command)
        assert (done.returncode, done.stdout, done.stderr) == (
            1,
            "",
            "kohort: topic 'gone' does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n",
        )
    assert (
        kohort("topics", "alter", "gone", "-p", "9").stderr
        == "kohort: topic 'gone' does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n"
    )
    wrong = kohort("topics", "alter", topic, "--config", "retention.ms=soon")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    fewer = kohort("topics", "alter", topic, "-p", "1")
    assert (fewer.returncode, fewer.stderr.count("\n")) == (1, 1)


def test_produced_lines_are_consumed(kohort: Kohort, topic: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(1_000))
    produced = kohort("produce", topic, "--compression", "zstd", stdin=lines)
    assert (produced.returncode, produced.stdout) == (0, "")
    assert produced.stderr == f"1,000 records written to {topic}\n"
    consumed = kohort("consume", topic, "--from-beginning", "--max-messages", "1000")
    assert consumed.returncode == 0
    assert sorted(consumed.stdout.splitlines()) == sorted(lines.splitlines())
    assert consumed.stderr == "1,000 records read\n"


def test_keys_headers_and_formats(kohort: Kohort, topic: str, tmp_path: Path) -> None:
    source = tmp_path / "lines.csv"
    source.write_bytes(b"UA,1,x\r\nDL,\nUA,\xff\n")
    arguments = ("--file", str(source), "--key-separator", ",", "--header", "from=test", "--partition", "1")
    assert kohort("produce", topic, *arguments, "--quiet").stderr == ""
    shown = kohort(
        "consume",
        topic,
        "--from-beginning",
        "-n",
        "3",
        "-q",
        "--format",
        "{partition}@{offset} {key}={value} {headers}",
    )
    assert shown.stdout.splitlines() == [
        "1@0 UA=1,x from:test",
        "1@1 DL= from:test",
        "1@2 UA=\\xff from:test",
    ]
    records = kohort("consume", topic, "--from-beginning", "-n", "3", "--format", "json").stdout.splitlines()
    assert [json.loads(each)["value"] for each in records] == ["1,x", "", {"base64": "/w=="}]
    assert json.loads(records[0])["headers"] == [["from", "test"]]


def test_a_line_without_its_key_stops_with_its_number(kohort: Kohort, topic: str) -> None:
    done = kohort("produce", topic, "-k", ":", stdin="a:1\nb\n")
    assert (done.returncode, done.stderr) == (1, "kohort: line 2 has no key separator ':': 'b'\n")


def test_consume_starts_at_a_partition_and_an_offset(kohort: Kohort, topic: str) -> None:
    kohort("produce", topic, "--partition", "2", stdin="a\nb\nc\n")
    done = kohort("consume", topic, "--partition", "2", "--offset", "1", "--timeout-ms", "1000")
    assert (done.returncode, done.stdout) == (0, "b\nc\n")
    done = kohort("consume", topic, "--partition", "2", "--offset", "latest", "--timeout-ms", "500")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "0 records read\n")
    done = kohort("consume", topic, "--partition", "7")
    assert (done.returncode, done.stderr) == (
        1,
        f"kohort: partition {topic}-7 does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n",
    )


def test_a_group_continues_at_its_committed_offset(kohort: Kohort, topic: str) -> None:
    group = f"readers-of-{topic}"
    kohort("produce", topic, "-p", "0", stdin="a\nb\nc\n")
    first = kohort("consume", topic, "--group", group, "--from-beginning", "-n", "2")
    second = kohort("consume", topic, "--group", group, "--from-beginning", "-n", "1")
    assert (first.stdout, second.stdout) == ("a\nb\n", "c\n")
    described = kohort("groups", "describe", group)
    assert described.stderr == f"\nConsumer group '{group}' has no active members.\n"
    lines = [each.split() for each in described.stdout.splitlines()]
    assert lines[:2] == [
        [],
        [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
        ],
    ]
    assert lines[2] == [group, topic, "0", "3", "3", "0", "-", "-", "-"]
    (offsets,) = json.loads(kohort("groups", "describe", group, "--json").stdout)
    assert offsets["offsets"][0]["lag"] == 0
    assert f"{group} Classic Empty".split() in [
        each.split() for each in kohort("groups", "list", "--state", "--type").stdout.splitlines()
    ]
    assert group in kohort("groups", "list", "--in-state", "empty").stdout.split()
    assert group not in kohort("groups", "list", "--in-state", "Stable").stdout.split()


def test_an_unknown_group_is_reported_in_one_line(kohort: Kohort) -> None:
    done = kohort("groups", "describe", "nosuch")
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "kohort: Group nosuch not found. (GROUP_ID_NOT_FOUND)\n",
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_consumer_commits_leaves_and_returns_zero(
    kohort: Kohort, environment: dict[str, str], topic: str, how: signal.Signals
) -> None:
    group = f"interrupted-{topic}"
    kohort("produce", topic, stdin="a\n")
    process = subprocess.Popen(
        [*COMMAND, "consume", topic, "--group", group, "--from-beginning"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    (members,) = json.loads(kohort("groups", "describe", group, "--members", "--json").stdout)
    assert members["members"][0]["assignment"] == {topic: [0, 1, 2]}
    state = kohort("groups", "describe", group, "--state").stdout.splitlines()[-1].split()
    assert state[-3:] == ["range", "Stable", "1"]
    process.send_signal(how)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "1 record read\n")
    (offsets,) = json.loads(kohort("groups", "describe", group, "--json").stdout)
    assert offsets["state"] == "Empty"
    assert sum(each["current_offset"] for each in offsets["offsets"]) == 1


def test_a_reader_that_has_seen_enough_ends_the_consumer_quietly(
    kohort: Kohort, environment: dict[str, str], topic: str
) -> None:
    kohort("produce", topic, stdin="".join(f"{number:0100}\n" for number in range(5_000)))
    command = " ".join(
        [*COMMAND, "consume", topic, "--from-beginning", "--timeout-ms", "5000", "|", "head", "-2"]
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 2, "")


def test_a_long_input_shows_its_progress_on_a_terminal(
    environment: dict[str, str], kohort: Kohort, topic: str, tmp_path: Path
) -> None:
    source = tmp_path / "lines"
    source.write_text("".join(f"{number}\n" for number in range(20_000)))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "produce", topic, "--file", str(source)],
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while process.poll() is None or b"written" not in shown:
        try:
            shown += os.read(ours, 65_536)
        except OSError:  # Linux says so when the other end has closed.
            break
    os.close(ours)
    assert process.wait(20) == 0
    assert b"lines" in shown
    assert f"20,000 records written to {topic}".encode() in shown


def test_produce_sends_typed_lines_at_once(kohort: Kohort, environment: dict[str, str], topic: str) -> None:
    process = subprocess.Popen([*COMMAND, "produce", topic, "-q"], stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()

    def arrived() -> bool:
        done = kohort("consume", topic, "--from-beginning", "-n", "1", "--timeout-ms", "500")
        return done.stdout == "first\n"

    wait_until(arrived, "a line is written before the input ends")
    process.stdin.close()
    assert process.wait(20) == 0
