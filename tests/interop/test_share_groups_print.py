"""`kohort share-groups` prints what Kafka's kafka-share-groups.sh prints, to the byte, against one broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from kohort.client import Admin, NewTopic, Producer, ResourceType, ShareConsumer
from tests.cli import here
from tests.interop.kafka_tools import Tools
from tests.interop.waiting import wait_until


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic of two partitions with a few records, whose name is longer than its column."""
    name = f"a-topic-with-a-long-name-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=2))
        wait_until(lambda: name in admin.list_topics(), "the topic is known")
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(9):
            producer.send(name, b"%d" % number, partition=number % 2)
    return name


@pytest.fixture
def member(bootstrap: str, group: str, topic: str) -> Iterator[ShareConsumer]:
    """A member that has done all of it."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.GROUP, group, values={"share.auto.offset.reset": "earliest"})
    with ShareConsumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer:
        seen: list[object] = []
        while len(seen) < 9:
            seen += consumer.poll(timeout_ms=200)
        consumer.commit()
        yield consumer


def test_the_command_prints_the_same_as_kafkas_tool(
    bootstrap: str, group: str, topic: str, member: ShareConsumer, tools: Tools
) -> None:
    def theirs(*arguments: str) -> str:
        return tools.run("kafka-share-groups", "--bootstrap-server", bootstrap, *arguments).out

    def ours(*arguments: str) -> str:
        return here.kohort("share-groups", *arguments, "--bootstrap-server", bootstrap).stdout

    assert ours("list") == theirs("--list")
    assert ours("list", "--state") == theirs("--list", "--state")
    for what in ("--offsets", "--members", "--state"):
        for more in ((), ("--verbose",)):
            printed = ours("describe", group, what, *more)
            assert printed == theirs("--describe", "--group", group, what, *more), what
            assert group in printed
    member.close()
    reset = ("--to-earliest", "--topic", topic)
    shown = ours("reset-offsets", group, *reset, "--dry-run").splitlines()
    said = theirs("--reset-offsets", "--group", group, *reset, "--dry-run").splitlines()
    assert sorted(each.split() for each in shown) == sorted(each.split() for each in said), "in any order"
    assert ours("delete-offsets", group, "--topic", topic, "--yes").split()[2:] == [topic, "Successful"]
    name = f"'{group}'"
    assert ours("delete", group, "--yes") == f"Deletion of requested share groups ({name}) was successful.\n"
    assert group not in theirs("--list")
