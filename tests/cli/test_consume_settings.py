"""Settings of the consumer that `kohort consume` takes by --property and by --command-config."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.client import Admin, Producer, TopicPartition
from tests.cli.conftest import Kohort


@pytest.fixture
def numbers(bootstrap: str, topic: str) -> str:
    """A topic with three records, the second of which is of a transaction that was aborted."""
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"of-{topic}") as producer:
        for value in (b"first", b"aborted", b"last"):
            producer.begin_transaction()
            producer.send(topic, value, partition=0).result(20)
            if value == b"aborted":
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    return topic


@pytest.mark.parametrize("option", ["--property", "--consumer-property", "--command-property"])
def test_a_setting_of_the_consumer_as_an_option(kohort: Kohort, numbers: str, option: str) -> None:
    all_of_them = kohort("consume", numbers, "--from-beginning", "--timeout-ms", "1500")
    assert all_of_them.stdout.split() == ["first", "aborted", "last"]
    settings = ("isolation.level=read_committed", "fetch.min.bytes=1", "check.crcs=TRUE")
    given = [word for each in settings for word in (option, each)]
    done = kohort("consume", numbers, "--from-beginning", "--timeout-ms", "1500", *given)
    assert (done.returncode, done.stdout.split()) == (0, ["first", "last"])


def test_the_command_line_overrides_consumer_settings_of_the_file(
    kohort: Kohort, numbers: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "isolation.level = read_committed\nfetch.min.bytes=1\nclient.id=printer\n"
        "auto.offset.reset: earliest\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor\n"
    )
    command = ["consume", numbers, "--timeout-ms", "1500", "--command-config", str(file)]
    assert kohort(*command).stdout.split() == ["first", "last"]
    done = kohort(*command, "--property", "isolation.level=read_uncommitted")
    assert done.stdout.split() == ["first", "aborted", "last"]
    topics = kohort("topics", "list", "--command-config", str(file))
    assert topics.returncode != 0, "what does not read takes settings that every client has"
    assert "unknown setting 'isolation.level'" in topics.stderr


def test_the_group_can_be_set_as_a_property(kohort: Kohort, bootstrap: str, numbers: str) -> None:
    group = f"group-of-{numbers}"
    options = ("--property", f"group.id={group}", "--property", "auto.offset.reset=earliest", "-n", "1")
    assert kohort("consume", numbers, *options).stdout.split() == ["first"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert TopicPartition(numbers, 0) in admin.list_group_offsets(group)
    assert kohort("consume", numbers, *options).stdout.split() == ["aborted"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--property", "fetch.min.byte=1"], "did you mean 'fetch_min_bytes'?"),
        (["--property", "fetch.min.bytes=many"], "fetch.min.bytes is 'many': expected `int`"),
        (["--property", "enable.auto.commit=yes"], "enable.auto.commit is 'yes': give true or false"),
        (["--property", "fetch.min.bytes"], "'fetch.min.bytes' is not NAME=VALUE"),
        (["--property", "value.deserializer=x"], "value.deserializer is a function of Python's"),
        (["--property", "bootstrap.servers=h:1"], "give brokers by --bootstrap-server"),
        (["--property", "linger.ms=5"], "a Producer has it, but not a Consumer"),
        (["--property", "isolation.level=dirty"], "give 'read_uncommitted' or 'read_committed'"),
        (["--property", "group.id=a", "--group", "b"], "group.id is 'a', and the option says 'b'"),
        (
            ["--property", "auto.offset.reset=latest", "--from-beginning"],
            "auto.offset.reset is 'latest', and an option says 'earliest'",
        ),
        (
            ["--property", "group.id=a", "--partition", "0"],
            "--partition and --offset are for reading",
        ),
        (["--share", "s", "--property", "isolation.level=read_committed"], "but not a ShareConsumer"),
    ],
)
def test_contradicting_options_are_refused(
    kohort: Kohort, numbers: str, options: list[str], words: str
) -> None:
    done = kohort("consume", numbers, "--timeout-ms", "500", *options)
    assert done.returncode != 0
    assert words in " ".join(done.stderr.split())


def test_a_share_consumer_accepts_settings(kohort: Kohort, numbers: str) -> None:
    done = kohort(
        "consume",
        numbers,
        "--share",
        f"s-{numbers}",
        "--timeout-ms",
        "500",
        "--property",
        "max.poll.records=7",
    )
    assert done.returncode == 0


def test_consume_does_not_use_the_group_instance_id_of_the_environment(
    kohort: Kohort, bootstrap: str, numbers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOHORT_GROUP_INSTANCE_ID", "orders-0")
    group = f"g-{numbers}"
    done = kohort("consume", numbers, "--group", group, "--from-beginning", "--max-messages", "1")
    assert done.returncode == 0
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_groups(group)[group].members == (), "a static member would still be there"
