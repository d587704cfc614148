"""What shells are offered to complete a command line with."""

from __future__ import annotations

import os
import subprocess

import pytest

from kohort.client import Admin, OffsetAndMetadata, TopicPartition
from kohort.testing import Broker
from tests.cli import here
from tests.cli.conftest import COMMAND, Kohort


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_completion(shell: str) -> None:
    done = here.kohort("completion", shell)
    assert done.returncode == 0
    assert "_KOHORT_COMPLETE" in done.stdout


def completed(words: str, environment: dict[str, str]) -> list[str]:
    """Return what bash is offered for the last of these words."""
    asked = {
        **environment,
        "_KOHORT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    program = "import sys; from kohort.cli.main import main; sys.argv[0] = 'kohort'; main()"
    done = subprocess.run([COMMAND[0], "-c", program], env=asked, capture_output=True, text=True, check=True)
    assert not done.stderr
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_topics_and_groups_are_completed(environment: dict[str, str], bootstrap: str, topic: str) -> None:
    group = f"watched-{topic}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
    assert completed("kohort topics descr", environment) == ["describe"]
    assert completed(f"kohort topics describe {topic[:-1]}", environment) == [topic]
    assert completed("kohort groups describe watched-", environment).count(group) == 1
    assert completed("kohort queue stats orders --group watched-", environment).count(group) == 1
    for command in (
        f"groups reset-offsets {group} --topic",
        "share-groups delete-offsets g -t",
        "spark replay",
    ):
        assert completed(f"kohort {command} {topic[:-1]}", environment) == [topic]


@pytest.mark.parametrize(
    "words, offered",
    [
        ("kohort config set --broker ", "1"),
        ("kohort config set --broker a", "all"),
        ("kohort config show --broker ", "all"),
        ("kohort cluster drain ", "1"),
        ("kohort cluster reassign --without 7,", "7,1"),
        ("kohort config set max.connec", "max.connections"),
        ("kohort config unset --broker 1 max.connec", "max.connections"),
        ("kohort config set --broker all max.connec", "max.connections"),
        ("kohort config set --topic TOPIC retention.", "retention.ms"),
        ("kohort config set --group g share.", "share.record.lock.duration.ms"),
        ("kohort topics alter TOPIC --config retention.", "retention.ms"),
        ("kohort topics alter TOPIC -d retention.", "retention.ms"),
        ("kohort topics create new --config retention.", "retention.ms"),
        ("kohort users remove completed-", "completed-user"),
        ("kohort quotas set --user completed-", "completed-user"),
        ("kohort acls add completed-", "completed-user"),
        ("kohort acls list --principal completed-", "completed-user"),
        ("kohort quotas set --user x producer", "producer_byte_rate"),
    ],
)
def test_brokers_settings_and_users_are_completed(
    environment: dict[str, str], kohort: Kohort, topic: str, words: str, offered: str
) -> None:
    assert kohort("users", "add", "completed-user", stdin="secret\n").returncode == 0
    last = words.rpartition(" ")[2]
    found = completed(words.replace("TOPIC", topic), environment)
    assert offered in found
    assert all(each.startswith(last) for each in found)


def test_settings_of_the_first_topic_are_completed() -> None:
    with Broker() as broker:
        environment = {**os.environ, "KOHORT_BOOTSTRAP_SERVERS": broker.bootstrap}
        assert "retention.ms" in completed("kohort topics create new --config reten", environment)


def test_completion_works_with_several_bootstrap_servers(
    environment: dict[str, str], bootstrap: str, topic: str
) -> None:
    several = {**environment, "KOHORT_BOOTSTRAP_SERVERS": f"127.0.0.1:1,{bootstrap}"}
    assert completed(f"kohort topics describe {topic[:-1]}", several) == [topic]
