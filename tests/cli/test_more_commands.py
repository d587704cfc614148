"""cluster, config, doctor, watch, completion, and what other commands take and refuse."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.client import Admin, Consumer, OffsetAndMetadata, TopicPartition
from tests.cli import here
from tests.cli.conftest import COMMAND, Kohort


@pytest.fixture
def web() -> Iterator[str]:
    """An address where HTTP is spoken."""
    answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1_000)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "command", ["topics list", "produce t", "consume t", "groups list", "cluster describe"]
)
def test_an_http_address_given_as_bootstrap_is_reported(command: str, web: str) -> None:
    done = here.kohort(*command.split(), "-b", web)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"kohort: {web} is an HTTP address")


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("prodcue", "produce"),
        ("topcis", "topics"),
        ("groups explian", "explain"),
        ("groups desribe", "describe"),
        ("topics craete", "create"),
        ("spark ingst", "ingest"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_right_one(typed: str, meant: str) -> None:
    done = here.kohort(*typed.split())
    assert done.returncode == 2
    assert f"Did you mean '{meant}'?" in done.stderr


def test_cluster_describe_lists_the_brokers(kohort: Kohort, bootstrap: str) -> None:
    (broker,) = (found := json.loads(kohort("cluster", "describe", "--json").stdout))["brokers"]
    assert (f"{broker['host']}:{broker['port']}", found["controller_id"]) == (bootstrap, broker["id"])
    lines = kohort("cluster", "describe").stdout.splitlines()
    assert lines[0] == f"Cluster ID: {found['cluster_id']}"
    assert lines[2].split()[:4] == [str(broker["id"]), bootstrap, "-", "yes"]


def test_topic_settings_are_shown_set_and_reset(kohort: Kohort, topic: str) -> None:
    assert kohort("config", "show", "--topic", topic).stderr.startswith("Nothing is set")
    done = kohort("config", "set", "retention.ms=60000", "--topic", topic)
    assert (done.returncode, done.stdout) == (0, f"Set retention.ms for topic {topic}.\n")
    assert kohort("config", "show", "--topic", topic).stdout == "retention.ms=60000\n"
    (entry,) = json.loads(kohort("config", "show", "--topic", topic, "--json").stdout)
    assert (entry["value"], entry["source"]) == ("60000", "DYNAMIC_TOPIC_CONFIG")
    wrong = kohort("config", "unset", "retention.m", "--topic", topic)
    assert wrong.stderr == "kohort: a topic has no setting 'retention.m'; did you mean 'retention.ms'?\n"
    assert kohort("config", "unset", "retention.ms", "--topic", topic).returncode == 0
    assert kohort("config", "show", "--topic", topic).stdout == ""
    assert "retention.ms=604800000  (default)" in kohort("config", "show", "--topic", topic, "--all").stdout
    assert (
        kohort("config", "show", "--topic", "gone").stderr
        == "kohort: topic 'gone' does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n"
    )
    assert kohort("config", "show", "--topic", topic, "--broker", "1").returncode == 2


def test_broker_settings_are_shown_and_set_for_one_or_all(kohort: Kohort) -> None:
    assert "group.initial.rebalance.delay.ms=0" in kohort("config", "show").stdout
    assert kohort("config", "set", "max.connections=500", "--broker", "all").returncode == 0
    assert "max.connections=500" in kohort("config", "show").stdout
    assert kohort("config", "unset", "max.connections", "--broker", "all").returncode == 0
    assert "max.connections" not in kohort("config", "show").stdout
    assert kohort("config", "unset", "nope", "--broker", "all").returncode == 1


@pytest.mark.parametrize(
    "whose, words",
    [
        (("--broker", "all"), "all brokers: Unknown broker config name: nope"),
        (("--broker", "1"), "broker 1: Unknown broker config name: nope"),
        (("--group", "g"), "group 'g': Unknown group config name: nope"),
        (("--topic", "TOPIC"), "topic 'TOPIC': Unknown topic config name: nope"),
    ],
)
def test_a_refused_setting_names_its_resource(
    kohort: Kohort, topic: str, whose: tuple[str, str], words: str
) -> None:
    done = kohort("config", "set", "nope=1", whose[0], whose[1].replace("TOPIC", topic))
    assert done.returncode == 1
    assert done.stderr.startswith(f"kohort: {words.replace('TOPIC', topic)}")


@pytest.mark.parametrize(
    "command",
    [
        "config set max.connections=9 --broker 7",
        "config show --broker 7",
        "cluster drain 7",
        "cluster undrain 7",
    ],
)
def test_a_missing_broker_is_reported_at_once(kohort: Kohort, command: str) -> None:
    done = kohort(*command.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kohort: broker 7 does not exist or does not run; these run: 1\n"


def test_an_unknown_topic_setting_cannot_be_reset(kohort: Kohort, topic: str) -> None:
    done = kohort("topics", "alter", topic, "--delete-config", "nope")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "kohort: a topic has no setting 'nope'\n")


def test_a_file_is_checked_without_a_broker(tmp_path: Path) -> None:
    file = tmp_path / "kohort.toml"
    file.write_text('listen = "127.0.0.1:0"\nnum.partitions = 6\n')
    done = here.kohort("config", "check", str(file))
    assert (done.returncode, done.stdout) == (0, "listen=127.0.0.1:0\nnum.partitions=6\n")
    as_json = here.kohort("config", "check", str(file), "--set", "num.partitions=7", "--json")
    assert json.loads(as_json.stdout) == {"listen": "127.0.0.1:0", "num.partitions": "7"}
    file.write_text('"num.partitons" = 6\n')
    wrong = here.kohort("config", "check", str(file))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.endswith("num.partitons (did you mean num.partitions?) (INVALID_CONFIG)\n")


def test_records_are_deleted_and_the_topic_stays(kohort: Kohort, topic: str) -> None:
    kohort("produce", topic, "-p", "1", "-q", stdin="a\nb\nc\n")
    assert kohort("topics", "delete-records", topic, "--before", "2").returncode == 2
    done = kohort("topics", "delete-records", topic, "-p", "1", "--before", "2")
    assert (done.returncode, done.stdout) == (0, f"{topic}-1 begins at offset 2.\n")
    assert kohort("consume", topic, "--from-beginning", "-e", "-q").stdout == "c\n"
    unasked = kohort("topics", "delete-records", topic)
    assert (unasked.returncode, "cancelled; nothing changed" in unasked.stderr) == (1, True)
    starts = json.loads(kohort("topics", "delete-records", topic, "--json", "--yes").stdout)
    assert [each["log_start_offset"] for each in starts] == [0, 3, 0]
    assert kohort("consume", topic, "--from-beginning", "-e", "-q").stdout == ""


def test_a_consumer_stops_at_the_initial_end_during_writes(kohort: Kohort, topic: str) -> None:
    kohort("produce", topic, "-q", stdin="".join(f"{number}\n" for number in range(1_000)))
    done = kohort("consume", topic, "--from-beginning", "--exit-at-end")
    assert (done.returncode, done.stderr) == (0, "1,000 records read\n")
    assert kohort("consume", topic, "-e").stderr == "0 records read\n"
    assert kohort("consume", topic, "-e", "--group", "g").returncode == 2


def test_records_survive_consume_and_produce_as_json(kohort: Kohort, topic: str) -> None:
    source = "\n".join(
        (
            '{"key": "k", "value": "v", "headers": [["a", "b"], ["n", null]], "partition": 2}',
            '{"value": {"base64": "/w=="}, "headers": {"x": "y"}, "partition": 2}',
            '{"key": "gone", "value": null, "partition": 2}',
            '{"value": {"nested": [1, 2]}, "partition": 2}',
        )
    )
    assert kohort("produce", topic, "--format", "json", stdin=source).returncode == 0
    read = ("consume", "--from-beginning", "-e", "-q", "--format", "json")
    first = kohort(*read, topic).stdout
    assert kohort("consume", "--from-beginning", "-e", "-q", "--json", topic).stdout == first
    records = [json.loads(line) for line in first.splitlines()]
    assert [(each["key"], each["value"]) for each in records] == [
        ("k", "v"),
        (None, {"base64": "/w=="}),
        ("gone", None),
        (None, '{"nested":[1,2]}'),
    ]
    assert records[0]["headers"] == [["a", "b"], ["n", None]]
    copy = f"{topic}-copy"
    kohort("topics", "create", copy, "-p", "1")
    assert (
        json.loads(kohort("produce", copy, "--format", "json", "--json", stdin=first).stdout)["records"] == 4
    )
    again = [json.loads(line) for line in kohort(*read, copy).stdout.splitlines()]
    for each in (*records, *again):
        del each["topic"], each["partition"], each["offset"], each["timestamp_ms"]
    assert again == records


@pytest.mark.parametrize(
    "line, words",
    [
        ("no json", "it is no JSON"),
        ('{"key": 1}', 'it is no object with a "value"'),
        ('{"value": {"base64": "?"}}', "that is no base64"),
        ('{"value": "", "headers": [1]}', '"headers" are no pairs'),
        ('{"value": "", "partition": "x"}', '"partition" is no number'),
    ],
)
def test_a_line_that_is_no_record_stops_with_its_number(
    kohort: Kohort, topic: str, line: str, words: str
) -> None:
    done = kohort("produce", topic, "--format", "json", stdin=line)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("kohort: line 1 is not what --format json takes: ")
    assert words in done.stderr


def test_a_tab_separates_key_and_value_and_a_marker_means_null(kohort: Kohort, topic: str) -> None:
    arguments = ("-k", r"\t", "--null-marker", "NULL", "-p", "0", "-q")
    assert kohort("produce", topic, *arguments, stdin="a\t1\na\tNULL\n").returncode == 0
    read = kohort("consume", topic, "--from-beginning", "-e", "-q", "--format", "{key}={value}")
    assert read.stdout == "a=1\na=null\n"


def test_producing_nothing_into_a_missing_topic_is_an_error(kohort: Kohort) -> None:
    done = kohort("produce", "gone", stdin="")
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "kohort: topic 'gone' does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n",
    )
    assert "gone" not in kohort("topics", "list").stdout.split()


def test_changes_are_printed_as_json(kohort: Kohort) -> None:
    name = f"json-{uuid.uuid4().hex[:8]}"
    for command, result in (
        (["create", name, "-p", "1"], "created"),
        (["create", name, "--if-not-exists"], "unchanged"),
        (["alter", name, "-c", "retention.ms=1"], "altered"),
        (["delete", name], "deleted"),
        (["delete", name, "--if-exists"], "unchanged"),
    ):
        done = kohort("topics", *command, "--json")
        assert json.loads(done.stdout) == [{"topic": name, "result": result}]


def test_changed_settings_are_printed_as_json(kohort: Kohort, topic: str) -> None:
    done = kohort("config", "set", "retention.ms=60000", "--topic", topic, "--json")
    assert json.loads(done.stdout) == [{"topic": topic, "set": {"retention.ms": "60000"}}]
    done = kohort("config", "unset", "retention.ms", "--topic", topic, "--json")
    assert json.loads(done.stdout) == [{"topic": topic, "unset": ["retention.ms"]}]
    kohort("config", "set", "max.connections=500", "--broker", "all")
    done = kohort("config", "unset", "max.connections", "--broker", "all", "--json")
    assert json.loads(done.stdout) == [{"broker": "all", "unset": ["max.connections"]}]


@pytest.fixture
def committed(bootstrap: str, topic: str) -> str:
    """A group that has read one of three records, and has no members."""
    group = f"watched-{topic}"
    here.kohort("produce", topic, "-p", "0", "-q", "-b", bootstrap, stdin="a\nb\nc\n")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(1)})
    return group


def test_groups_are_watched(kohort: Kohort, committed: str) -> None:
    done = kohort("groups", "watch", committed, "--interval", "0.1", "--count", "2")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(committed)]
    assert rows == [[committed, "Empty", "0", "2", "-"], [committed, "Empty", "0", "2", "+0.0"]]
    (look,) = kohort("groups", "watch", committed, "-n", "1", "--json").stdout.splitlines()
    (group,) = json.loads(look)["groups"]
    assert (group["group"], group["lag"], group["lag_per_second"]) == (committed, 2, None)
    assert kohort("groups", "watch", "nosuch", "-n", "1").returncode == 1


def test_changed_groups_are_printed_as_json(kohort: Kohort, committed: str, topic: str) -> None:
    (plan,) = json.loads(
        kohort("groups", "reset-offsets", committed, "--all-topics", "--to-latest", "--json").stdout
    )
    assert plan == {"group": committed, "topic": topic, "partition": 0, "new_offset": 3}
    deleted = json.loads(
        kohort("groups", "delete-offsets", committed, "--topic", f"{topic}:0", "--json").stdout
    )
    assert deleted == [{"topic": topic, "partition": 0, "error": None}]
    gone = kohort("groups", "delete", f"{committed}-not", "--json")
    (outcome,) = json.loads(gone.stdout)
    assert (gone.returncode, outcome["error"] is None) == (1, False)


def test_members_can_be_removed(kohort: Kohort, bootstrap: str, topic: str) -> None:
    group = f"removed-{topic}"
    options = {"group_id": group, "group_instance_id": "one", "bootstrap_servers": bootstrap}
    with Consumer(topic, **options) as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        active = kohort("groups", "reset-offsets", group, "--all-topics", "--to-latest")
        assert active.returncode == 1
        assert "can only be reset if the group" in active.stderr
        assert "--execute" not in active.stderr
        assert kohort("groups", "remove-members", group).returncode == 2
        assert "--yes" in kohort("groups", "remove-members", group, "--all").stderr
        done = kohort("groups", "remove-members", group, "--instance", "one")
        assert (done.returncode, done.stdout) == (0, f"Removed 1 member from {group}.\n")
    assert (
        json.loads(kohort("groups", "remove-members", group, "--all", "-y", "--json").stdout)["removed"] == []
    )


def test_deleting_asks_at_a_terminal(environment: dict[str, str], kohort: Kohort, topic: str) -> None:
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "topics", "delete", topic],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        os.close(theirs)
        os.write(ours, answer)
        _, errors = process.communicate(timeout=20)
        os.close(ours)
        assert process.returncode == code, errors
        assert f"Delete {topic} with all records? [y/N]".encode() in errors
        assert (topic in kohort("topics", "list").stdout.split()) == bool(code)


def test_doctor_finds_nothing_wrong_with_a_broker_that_is_well(kohort: Kohort, bootstrap: str) -> None:
    found = json.loads(kohort("doctor", "--json").stdout)
    levels = {each["subject"].split(" ")[0]: each["level"] for each in found}
    assert levels["bootstrap"] == levels["broker"] == levels["cluster"] == levels["partitions"] == "ok"
    assert f"broker 1, advertised as {bootstrap}" in {each["subject"] for each in found}


def test_doctor_names_the_problem_and_the_fix(web: str) -> None:
    done = here.kohort("doctor", "-b", "127.0.0.1:1")
    assert done.returncode == 1
    assert "FAIL  bootstrap server 127.0.0.1:1: Connection refused\n" in done.stdout
    assert "kohort serve --listen 127.0.0.1:1" in done.stdout
    assert "\x1b" not in done.stdout, "no colours without a terminal"
    assert "is an HTTP address" in here.kohort("doctor", "-b", web).stdout
    unknown = here.kohort("doctor", "-b", "no.such.host.invalid:9092").stdout
    assert "the name 'no.such.host.invalid' is unknown here" in unknown
    elsewhere = here.kohort("doctor", "-b", "127.0.0.1:1", "--http", web)
    assert "what answers there is no kohort broker" in elsewhere.stdout


def test_a_system_error_is_printed_without_errno(tmp_path: Path, kohort: Kohort, topic: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    done = kohort("produce", topic, "--file", str(folder))
    assert done.returncode in (1, 2)
    assert "Errno" not in done.stderr
