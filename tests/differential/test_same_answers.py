"""The same scripts on kohort and on Apache Kafka 4.3.1: every answer, and how the group stands after it.

Three dozen scripts here; `make differential` plays several hundred.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.differential.apache_kafka import MissingTool
from tests.differential.report import seen, story
from tests.differential.run import apache_kafka, kohort, play_all
from tests.differential.side import Broker

SCRIPTS = 36


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with kohort(tmp_path_factory.mktemp("kohort")) as broker:
        yield broker


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        with apache_kafka(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker
    except MissingTool as missing:
        pytest.skip(str(missing))


def test_scripts_are_answered_as_apache_kafka_answers_them(ours: Broker, theirs: Broker) -> None:
    outcomes = trio.run(play_all, range(SCRIPTS), ours, theirs)
    found = seen(outcomes)
    assert not found.different, "\n".join(story(each) for each in outcomes if each.differences)
    assert found.answers > 20 * SCRIPTS, "the scripts hardly asked anything"
    assert len(found.undecided) <= SCRIPTS // 20, found.undecided


def test_two_brokers_of_the_same_kind_answer_alike(ours: Broker, tmp_path: Path) -> None:
    with kohort(tmp_path) as another:
        outcomes = trio.run(play_all, range(5), ours, another)
    assert not seen(outcomes).different, "\n".join(story(each) for each in outcomes if each.differences)


@pytest.mark.parametrize("setting", ["group.max.size=1", "offset.metadata.max.bytes=3"])
def test_a_broker_that_answers_otherwise_is_found_out(ours: Broker, tmp_path: Path, setting: str) -> None:
    with kohort(tmp_path, setting) as another:
        outcomes = trio.run(play_all, range(5), ours, another)
    assert seen(outcomes).different
