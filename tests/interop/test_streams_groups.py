"""Kafka Streams, unmodified, in streams groups (KIP-1071): a word count and a join, killed and restarted.

Each result is there exactly once, whatever has died meanwhile. `kafka-streams-groups.sh` prints what it
prints against Apache Kafka 4.3.1.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.client import Admin, NewTopic
from tests.cli import here
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool, Output, Tools
from tests.interop.streams_applications import (
    PARTITIONS,
    SETTINGS,
    Counted,
    Results,
    StreamsApplication,
    send,
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, *SETTINGS)
    broker.start()
    yield broker
    broker.stop()


def application(broker: BrokerProcess, group: str, folder: Path, *what: str) -> StreamsApplication:
    try:
        return StreamsApplication(broker.bootstrap, group, folder, *what)
    except MissingTool as missing:
        pytest.skip(str(missing))


def make_topics(broker: BrokerProcess, *names: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(*(NewTopic(name, partitions=PARTITIONS) for name in names))


def test_words_are_counted_once_while_an_instance_and_the_broker_are_killed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    make_topics(broker, "lines", "counts")
    what = ("count", "lines", "counts", "num.stream.threads=2")
    one = application(broker, "word-count", tmp_path / "one", *what)
    two = application(broker, "word-count", tmp_path / "two", *what)
    counted = Counted(lambda: broker.bootstrap)
    with one, two:
        one.wait_for("RUNNING")
        two.wait_for("RUNNING")
        counted.write()
        one.kill()
        counted.write()  # Its tasks are the other's once its session has ended.
        broker.restart(signal.SIGKILL)
        counted.write()
        one.start()
        one.wait_for("RUNNING")
        counted.write()
    counted.check()


def test_a_streams_join_has_its_topics_created_and_finds_every_match(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    make_topics(broker, "orders", "users", "joined")
    users = [(f"user-{number}", f"city-{number}") for number in range(20)]
    send(broker.bootstrap, "users", *users)
    what = ("join", "orders", "users", "joined")
    one = application(broker, "join", tmp_path / "one", *what)
    two = application(broker, "join", tmp_path / "two", *what)
    results = Results(broker.bootstrap, "joined")
    with one, two:
        one.wait_for("RUNNING")
        two.wait_for("RUNNING")
        for number in range(3):
            orders = [(f"order-{number}-{each}", f"user-{each % 20}") for each in range(60)]
            send(broker.bootstrap, "orders", *orders)
            results.wait_for(60 * (number + 1))
            if number == 0:
                two.kill()
            else:
                broker.restart(signal.SIGKILL)
    results.close()
    assert Counter(results.records) == Counter(
        (f"user-{each % 20}", f"order-{number}-{each} city-{each % 20}")
        for number in range(3)
        for each in range(60)
    )
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        topics = admin.list_topics()
        (repartition,) = (name for name in topics if name.startswith("join-") and "repartition" in name)
        (changelog,) = (name for name in topics if name.startswith("join-") and "changelog" in name)
        described = admin.describe_topics(repartition, changelog)
    assert {len(each.partitions) for each in described.values()} == {PARTITIONS}


def test_kafkas_tool_lists_describes_resets_and_deletes(
    broker: BrokerProcess, tmp_path: Path, tools: Tools
) -> None:
    def run(*arguments: str) -> Output:
        return tools.run("kafka-streams-groups", "--bootstrap-server", broker.bootstrap, *arguments)

    make_topics(broker, "lines", "counts")
    with application(broker, "g", tmp_path / "one", "count", "lines", "counts") as one:
        one.wait_for("RUNNING")
        send(broker.bootstrap, "lines", *((None, "one two") for _ in range(6)))
        results = Results(broker.bootstrap, "counts")
        results.wait_for(12)
        results.close()
        assert run("--list").lines == ["g"]
        assert run("--list", "--state").rows() == [["GROUP", "STATE"], ["g", "Stable"]]
        head, row = run("--describe", "--group", "g", "--state", "--verbose").rows()
        assert head[-4:] == ["STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
        assert (row[0], row[-4], row[-1]) == ("g", "Stable", "1")
        assert row[-3] == row[-2]
        head, row = run("--describe", "--group", "g", "--members").rows()
        assert head == ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"]
        assert row[4:] == ["ACTIVE:", "0:[0,1,2];", "1:[0,1,2];"]
        head, *rows = run("--describe", "--group", "g", "--offsets").rows()
        assert head == ["GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"]
        assert {(topic.split("-")[-1], index) for _, topic, index, _ in rows} == {
            (topic, str(index)) for topic in ("lines", "repartition") for index in range(PARTITIONS)
        }
        assert "Streams group 'g' is not EMPTY." in run("--delete", "--group", "g").out
        refused = run("--delete-offsets", "--group", "g", "--input-topic", "lines").out
        assert refused.count("GroupSubscribedToTopicException") == PARTITIONS
        one.close()
    assert ["g", "Empty"] in run("--list", "--state").rows()
    assert "Streams group 'g' has no active members." in run("--describe", "--group", "g", "--state").out
    missing = run("--describe", "--group", "nobody", "--state")
    assert (missing.status, "Group nobody not found." in missing.out) == (1, True)
    listed = tools.run("kafka-groups", "--bootstrap-server", broker.bootstrap, "--list").rows()
    assert ["g", "Streams", "streams"] in listed
    ours = here.kohort("groups", "list", "--type", "--state", "--bootstrap-server", broker.bootstrap).stdout
    assert ["g", "Streams", "Empty"] in [line.split() for line in ours.splitlines()]
    told = here.kohort("groups", "explain", "g", "--bootstrap-server", broker.bootstrap).stdout
    first, *_, last = told.strip().split("\n\n")
    assert " joined.\n" in first, told
    assert "0 0-2; 1 0-2  nobody -> " in first, told
    assert last.endswith(" left."), told
    described = here.kohort("groups", "describe", "g", "--bootstrap-server", broker.bootstrap).stdout
    assert ["g", "lines", "0", "2"] in [line.split()[:4] for line in described.splitlines()]
    reset = run("--reset-offsets", "--to-earliest", "--group", "g", "--input-topic", "lines", "--execute")
    assert reset.rows()[1:] == [["g", "lines", str(index), "0"] for index in range(PARTITIONS)]
    deleted = run("--delete", "--group", "g", "--delete-all-internal-topics").out
    assert "Deletion of requested streams groups ('g') was successful." in deleted
    assert "Deletion of associated internal topics of the streams groups ('g') was successful." in deleted
    assert run("--list").lines == []
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert not [name for name in admin.list_topics() if name.startswith("g-")]
